/* cmd_quantize.c - `lockstep quantize`: a smaller model file of an F32, F16 or BF16 one. Prints
 * what each format took in and gave out, and how far it is from the input. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "lk/lk.h"
#include "shared/console.h"
#include "shared/options.h"

static const char help[] =
    "usage: lockstep quantize IN OUT TYPE [OPTIONS]\n\n"
    "Writes the model IN, a GGUF file with F32, F16 or BF16 tensors, as OUT with smaller ones.\n\n"
    "  TYPE           Q4_0, Q4_K_M, Q5_K_M, Q6_K, Q8_0, F16 or BF16 (case ignored)\n"
    "  -t, --threads N  threads (default: one per processor); never changes the output\n"
    "  --json           the report as JSON, with every tensor\n\n"
    "Norms, biases and routers stay F32. A matrix whose rows do not divide into the blocks of its\n"
    "format gets another one, and the report says so. OUT appears only when all went well\n"
    "and is not IN itself.\n\n"
    "example: lockstep quantize model-f16.gguf model-q4_k_m.gguf Q4_K_M\n";

/* The tensors of one format, or of one format instead of another. */
enum { MAX_GROUPS = 64 };
typedef struct group {
    uint32_t to;
    uint32_t wanted;
    uint64_t n_tensors;
    uint64_t bytes_before;
    uint64_t bytes_after;
    double square_error;
    double square_sum;
} group;

typedef struct report {
    group groups[MAX_GROUPS];
    size_t n_groups;
    group total;
    json_t *tensors; /* NULL unless --json */
    bool is_out_of_memory;
} report;

static double relative_error(double square_error, double square_sum) {
    return square_sum > 0.0 ? sqrt(square_error / square_sum) : 0.0;
}

static void add_to(group *g, const lk_quantize_tensor *t) {
    g->n_tensors++;
    g->bytes_before += t->bytes_before;
    g->bytes_after += t->bytes_after;
    g->square_error += t->square_error;
    g->square_sum += t->square_sum;
}

static void on_tensor(void *ctx, const lk_quantize_tensor *t) {
    report *r = (report *)ctx;
    size_t i = 0;
    while (i < r->n_groups && (r->groups[i].to != t->to || r->groups[i].wanted != t->wanted)) {
        i++;
    }
    if (i == r->n_groups && i < MAX_GROUPS) {
        r->groups[i] = (group){.to = t->to, .wanted = t->wanted};
        r->n_groups++;
    }
    if (i < MAX_GROUPS) {
        add_to(&r->groups[i], t);
    }
    add_to(&r->total, t);
    if (r->tensors != NULL) {
        json_t *item = json_pack(
            "{s:s, s:s, s:s, s:s, s:I, s:I, s:f}", "name", t->name, "from", lk_format_name(t->from),
            "to", lk_format_name(t->to), "wanted", lk_format_name(t->wanted), "bytes_before",
            (json_int_t)t->bytes_before, "bytes_after", (json_int_t)t->bytes_after,
            "relative_error", relative_error(t->square_error, t->square_sum));
        r->is_out_of_memory |= item == NULL || json_array_append_new(r->tensors, item) != 0;
    }
}

static void print_group(const char *name, const group *g) {
    (void)printf("%-6s %8" PRIu64 " %12.2f %12.2f %12.3g\n", name, g->n_tensors,
                 (double)g->bytes_before / 1048576.0, (double)g->bytes_after / 1048576.0,
                 relative_error(g->square_error, g->square_sum));
}

static void print_table(const report *r, const char *out_path, double seconds) {
    (void)printf("%-6s %8s %12s %12s %12s\n", "format", "tensors", "MiB before", "MiB after",
                 "rel. error");
    for (size_t i = 0; i < r->n_groups; i++) {
        print_group(lk_format_name(r->groups[i].to), &r->groups[i]);
    }
    print_group("total", &r->total);
    for (size_t i = 0; i < r->n_groups; i++) {
        const group *g = &r->groups[i];
        if (g->to != g->wanted) {
            (void)printf("%" PRIu64 " tensors are %s instead of %s: their rows do not divide into "
                         "its blocks\n",
                         g->n_tensors, lk_format_name(g->to), lk_format_name(g->wanted));
        }
    }
    (void)printf("%s written in %.1f s\n", out_path, seconds);
}

static int print_json(report *r, const char *type, double seconds) {
    json_t *root = json_pack("{s:s, s:I, s:I, s:f, s:f, s:O}", "type", type, "bytes_before",
                             (json_int_t)r->total.bytes_before, "bytes_after",
                             (json_int_t)r->total.bytes_after, "relative_error",
                             relative_error(r->total.square_error, r->total.square_sum), "seconds",
                             seconds, "tensors", r->tensors);
    int status = 0;
    if (root == NULL || r->is_out_of_memory ||
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0) {
        status = lk_console_error("quantize", "the report could not be printed");
    } else {
        (void)printf("\n");
    }
    json_decref(root);
    return status;
}

int lk_command_quantize(int argc, char **argv) {
    const char *in_path = NULL;
    const char *out_path = NULL;
    const char *type_name = NULL;
    int64_t n_threads = 0;
    bool is_json = false;
    const lk_option options[] = {
        {"--threads", "-t", LK_OPTION_INT, &n_threads, 1, 256, NULL},
        {"--json", NULL, LK_OPTION_FLAG, &is_json, 0, 0, NULL},
    };
    const lk_positional positionals[] = {
        {"IN", &in_path, true}, {"OUT", &out_path, true}, {"TYPE", &type_name, true}};
    const lk_command_line line = {"quantize",  help,
                                  options,     sizeof options / sizeof options[0],
                                  positionals, sizeof positionals / sizeof positionals[0]};
    int exit_status = 0;
    if (!lk_options_parse(&line, argc, argv, &exit_status)) {
        return exit_status;
    }
    lk_quantize_params params = LK_QUANTIZE_PARAMS_INIT;
    if (!lk_quantize_find_type(type_name, &params.type)) {
        (void)fprintf(stderr, "lockstep quantize: '%s' is no type; the types are", type_name);
        for (uint32_t i = 0; lk_quantize_type_at(i) != NULL; i++) {
            (void)fprintf(stderr, " %s", lk_quantize_type_at(i));
        }
        (void)fprintf(stderr, "\n");
        return 2;
    }
    report r = {.tensors = is_json ? json_array() : NULL};
    r.is_out_of_memory = is_json && r.tensors == NULL;
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    params.n_threads = (uint32_t)n_threads;
    params.progress = lk_progress_bar_draw_or_cancel;
    params.progress_ctx = &bar;
    params.on_tensor = on_tensor;
    params.on_tensor_ctx = &r;
    lk_error err;
    const double start = lk_console_seconds();
    lk_console_catch_interrupt(NULL);
    const lk_status status = lk_quantize(in_path, out_path, &params, &err);
    const double seconds = lk_console_seconds() - start;
    lk_progress_bar_clear(&bar);
    if (status != LK_OK) {
        (void)lk_console_failed("quantize", &err);
        exit_status = status == LK_E_CANCELLED ? lk_console_interrupt_status() : 1;
    } else if (is_json) {
        exit_status = print_json(&r, lk_quantize_type_name(params.type), seconds);
    } else {
        print_table(&r, out_path, seconds);
    }
    json_decref(r.tensors);
    return lk_console_finish("quantize", exit_status);
}
