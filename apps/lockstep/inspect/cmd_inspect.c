/* cmd_inspect.c - `lockstep inspect`: what is in a GGUF file, without loading the model. Collects
 * the report; inspect_text.c and inspect_json.c print it.
 * Invariant: formats and architectures that this build cannot compute with are shown, not refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "inspect.h"
#include "lk/model.h"
#include "shared/console.h"
#include "shared/options.h"

static const char help[] =
    "usage: lockstep inspect FILE [--json] [--all] [--no-digest] [-t N]\n"
    "\n"
    "Prints what a GGUF file holds: metadata, tensors with format, shape and size, totals per\n"
    "format, and the model digest; and whether it can be run here, or what is missing. The\n"
    "model is not loaded, so any architecture will do.\n"
    "Of a split model, give the first file (name-00001-of-0000N.gguf).\n"
    "\n"
    "  --json           one JSON object instead of text\n"
    "  --all            arrays and long strings in full (default: their beginning)\n"
    "  --no-digest      do not read the tensor data to compute the model digest\n"
    "  -t, --threads N  threads for the digest (default: one per processor)\n"
    "\n"
    "Shapes are written as in the file: the dimension that lies together in memory first.\n"
    "In JSON, a string that is not UTF-8 is {\"hex\": \"...\"}, and a u64 above 2^63 - 1 and a\n"
    "number that is not finite are strings.\n"
    "\n"
    "examples:\n"
    "  lockstep inspect models/small-q4_k_m.gguf\n"
    "  lockstep inspect model.gguf --json --no-digest | jq '.metadata[\"general.name\"].value'\n";

static int by_bytes(const void *a, const void *b) {
    const inspect_format *x = a;
    const inspect_format *y = b;
    if (x->n_bytes != y->n_bytes) {
        return x->n_bytes < y->n_bytes ? 1 : -1;
    }
    return (x->type > y->type) - (x->type < y->type);
}

static lk_status count_formats(inspect_report *r, lk_error *err) {
    for (uint64_t i = 0; i < lk_gguf_n_tensors(r->gguf); i++) {
        lk_gguf_tensor tensor;
        const lk_status status = lk_gguf_tensor_at(r->gguf, i, &tensor, err);
        if (status != LK_OK) {
            return status;
        }
        uint32_t k = 0;
        while (k < r->n_formats && r->formats[k].type != tensor.type) {
            k++;
        }
        if (k == INSPECT_MAX_FORMATS) { /* there are fewer formats than that */
            continue;
        }
        if (k == r->n_formats) {
            r->formats[r->n_formats++] = (inspect_format){tensor.type, 0, 0, 0};
        }
        const uint64_t n_elems = tensor.ne[0] * tensor.ne[1] * tensor.ne[2] * tensor.ne[3];
        r->formats[k].n_tensors++;
        r->formats[k].n_elems += n_elems;
        r->formats[k].n_bytes += tensor.n_bytes;
        r->n_params += n_elems;
        r->n_bytes += tensor.n_bytes;
    }
    qsort(r->formats, r->n_formats, sizeof r->formats[0], by_bytes);
    return LK_OK;
}

static void find_arch(inspect_report *r) {
    lk_gguf_value v;
    if (lk_gguf_find(r->gguf, "general.architecture", &v, NULL) != LK_OK ||
        v.type != LK_GGUF_STRING) {
        return;
    }
    const size_t n = v.n < sizeof r->arch ? (size_t)v.n : sizeof r->arch - 1;
    memcpy(r->arch, v.str, n);
    r->arch[n] = '\0';
    r->arch_supported = n == v.n && strlen(r->arch) == n && lk_arch_is_supported(r->arch);
}

static void add_problem(void *ctx, const lk_model_problem *problem) {
    inspect_report *r = ctx;
    if (r->n_problems < INSPECT_MAX_PROBLEMS) {
        inspect_problem *p = &r->problems[r->n_problems];
        (void)snprintf(p->kind, sizeof p->kind, "%s", problem->kind);
        (void)snprintf(p->message, sizeof p->message, "%s", problem->message);
    }
    r->n_problems++;
}

static uint64_t load_le(const uint8_t *p, size_t n) {
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    return v;
}

lk_gguf_value inspect_element(const lk_gguf_value *array, uint64_t i) {
    lk_gguf_value v = {.type = array->elem_type};
    const uint8_t *p = array->arr;
    float f32;
    uint32_t bits;
    switch (array->elem_type) {
    case LK_GGUF_U8:
    case LK_GGUF_BOOL:
        v.i = p[i];
        break;
    case LK_GGUF_I8:
        v.i = (int8_t)p[i];
        break;
    case LK_GGUF_U16:
        v.i = (int64_t)load_le(p + 2 * i, 2);
        break;
    case LK_GGUF_I16:
        v.i = (int16_t)load_le(p + 2 * i, 2);
        break;
    case LK_GGUF_U32:
        v.i = (int64_t)load_le(p + 4 * i, 4);
        break;
    case LK_GGUF_I32:
        v.i = (int32_t)load_le(p + 4 * i, 4);
        break;
    case LK_GGUF_U64:
    case LK_GGUF_I64:
        v.i = (int64_t)load_le(p + 8 * i, 8);
        break;
    case LK_GGUF_F32:
        bits = (uint32_t)load_le(p + 4 * i, 4);
        memcpy(&f32, &bits, sizeof f32);
        v.f = (double)f32;
        break;
    case LK_GGUF_F64: {
        const uint64_t bits64 = load_le(p + 8 * i, 8);
        memcpy(&v.f, &bits64, sizeof v.f);
        break;
    }
    case LK_GGUF_STRING:
    case LK_GGUF_ARRAY:
        break;
    }
    return v;
}

static lk_status compute_digest(inspect_report *r, lk_gguf *gguf, int64_t n_threads,
                                lk_error *err) {
    uint8_t digest[32];
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    const lk_status status =
        lk_gguf_digest(gguf, (uint32_t)n_threads, lk_progress_bar_draw, &bar, digest, err);
    lk_progress_bar_clear(&bar);
    for (size_t i = 0; i < sizeof digest && status == LK_OK; i++) {
        (void)snprintf(r->digest + 2 * i, 3, "%02x", digest[i]);
    }
    return status;
}

int lk_command_inspect(int argc, char **argv) {
    const char *path = NULL;
    bool json = false;
    bool all = false;
    bool no_digest = false;
    int64_t n_threads = 0;
    const lk_option options[] = {
        {"--json", NULL, LK_OPTION_FLAG, &json, 0, 0, NULL},
        {"--all", NULL, LK_OPTION_FLAG, &all, 0, 0, NULL},
        {"--no-digest", NULL, LK_OPTION_FLAG, &no_digest, 0, 0, NULL},
        {"--threads", "-t", LK_OPTION_INT, &n_threads, 1, 256, NULL},
    };
    const lk_positional positionals[] = {{"FILE", &path, true}};
    const lk_command_line line = {"inspect",   help, options, sizeof options / sizeof options[0],
                                  positionals, 1};
    int exit_status;
    if (!lk_options_parse(&line, argc, argv, &exit_status)) {
        return exit_status;
    }
    lk_gguf *gguf = NULL;
    lk_error err;
    lk_status status = lk_gguf_open(path, NULL, &gguf, &err);
    inspect_report report = {.path = path, .gguf = gguf, .all = all};
    if (status == LK_OK) {
        find_arch(&report);
        status = count_formats(&report, &err);
    }
    if (status == LK_OK) {
        status = lk_model_check(gguf, add_problem, &report, &err);
    }
    if (status == LK_OK && !no_digest) {
        status = compute_digest(&report, gguf, n_threads, &err);
    }
    if (status != LK_OK) {
        exit_status = lk_console_failed("inspect", &err);
    } else if (!json) {
        inspect_print_text(&report);
    } else if (!inspect_print_json(&report)) {
        exit_status = lk_console_error("inspect", "out of memory");
    }
    lk_gguf_close(gguf);
    return lk_console_finish("inspect", exit_status);
}
