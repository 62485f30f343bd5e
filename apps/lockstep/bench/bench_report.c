/* bench_report.c - prints what `lockstep bench` measured: as a table, Markdown, CSV, JSON, or rows
 * like those of llama-bench. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "shared/open_model.h"

static const double gib = 1024.0 * 1024.0 * 1024.0;
static const double mib = 1024.0 * 1024.0;

void bench_kv_name(bench_kv kv, char name[32]) {
    if (kv.k == kv.v) {
        (void)snprintf(name, 32, "%s", lk_kv_type_name(kv.k));
    } else {
        (void)snprintf(name, 32, "%s,%s", lk_kv_type_name(kv.k), lk_kv_type_name(kv.v));
    }
}

void bench_test_name(const bench_test *t, char name[64]) {
    char depth[32] = "";
    char parallel[16] = "";
    if (t->depth > 0) {
        (void)snprintf(depth, sizeof depth, " @ d%" PRId64, t->depth);
    }
    if (t->is_batched) {
        (void)snprintf(parallel, sizeof parallel, " x%" PRId32, t->n_parallel);
    }
    (void)snprintf(name, 64, "%s%" PRId64 "%s%s", t->is_gen ? "tg" : "pp", t->n_tokens, depth,
                   parallel);
}

/* A mix as the peers' tools write it. */
static const char *type_text(const lk_gguf *gguf) {
    lk_gguf_value value;
    if (lk_gguf_find(gguf, "general.file_type", &value, NULL) != LK_OK || value.i < 0) {
        return "";
    }
    switch (value.i) {
    case LK_QUANTIZE_Q4_K_M:
        return "Q4_K - Medium";
    case LK_QUANTIZE_Q5_K_M:
        return "Q5_K - Medium";
    default:
        return lk_quantize_type_name((uint32_t)value.i) != NULL
                   ? lk_quantize_type_name((uint32_t)value.i)
                   : "";
    }
}

static void add_weight(bench_weights *w, const lk_gguf_tensor *t, bool is_output) {
    const uint64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    if (is_output) {
        w->output_bytes = t->n_bytes;
        w->output_elems = n;
    } else if (t->ne[2] > 1) {
        w->expert_bytes += t->n_bytes;
        w->expert_elems += n;
    } else if (t->ne[1] > 1) {
        w->layer_bytes += t->n_bytes;
        w->layer_elems += n;
    }
}

void bench_describe(bench_model *model, const lk_model *open) {
    const lk_gguf *gguf = lk_model_gguf(open);
    lk_gguf_tensor t;
    const bool is_tied = lk_gguf_find_tensor(gguf, "output.weight", &t, NULL) != LK_OK;
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        if (lk_gguf_tensor_at(gguf, i, &t, NULL) != LK_OK) {
            continue;
        }
        model->tensor_bytes += t.n_bytes;
        const bool is_embedding = strcmp(t.name, "token_embd.weight") == 0;
        if (!is_embedding || is_tied) { /* of an embedding that is no output, rows are read */
            add_weight(&model->weights, &t, is_embedding || strcmp(t.name, "output.weight") == 0);
        }
    }
    const double n = (double)model->info.n_params;
    char size[32];
    (void)snprintf(size, sizeof size, n >= 1e8 ? "%.1fB" : "%.1fM", n / (n >= 1e8 ? 1e9 : 1e6));
    (void)snprintf(model->description, sizeof model->description, "%s %s %s", model->info.arch,
                   size, type_text(gguf));
}

static const struct {
    const char *name;
    uint32_t mask; /* with all that it stands on */
} isas[] = {{"all", LK_CPU_ALL},
            {"amx", LK_CPU_AVX2 | LK_CPU_AVX512 | LK_CPU_AMX},
            {"avx512", LK_CPU_AVX2 | LK_CPU_AVX512},
            {"avxvnni", LK_CPU_AVX2 | LK_CPU_AVXVNNI},
            {"avx2", LK_CPU_AVX2},
            {"i8mm", LK_CPU_NEON | LK_CPU_I8MM},
            {"neon", LK_CPU_NEON},
            {"scalar", 0}};

const char *bench_isa_name(uint32_t mask) {
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        if (isas[i].mask == mask) {
            return isas[i].name;
        }
    }
    return "all";
}

bool bench_isa_mask(const char *name, size_t n_name, uint32_t *mask) {
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        if (strlen(isas[i].name) == n_name && strncmp(name, isas[i].name, n_name) == 0) {
            *mask = isas[i].mask;
            return true;
        }
    }
    return false;
}

static void print_machines(const bench_report *report, const char *prefix) {
    for (size_t i = 0; i < report->n_machines; i++) {
        const bench_machine *m = &report->machines[i];
        (void)printf("%smachine, %" PRIu32 " threads, %s: reads %.1f GB/s, int8 %.0f GOP/s, "
                     "matrix units %.0f GOP/s, float %.0f GOP/s\n",
                     prefix, m->speed.n_threads, bench_isa_name(m->isa),
                     m->speed.read_bytes_per_s / 1e9, m->speed.int8_ops_per_s / 1e9,
                     m->speed.matrix_ops_per_s / 1e9, m->speed.float_ops_per_s / 1e9);
    }
}

static void print_device(const lk_device_info *device) {
    if (device->name[0] != '\0') {
        (void)printf("device: %s, %.1f GiB, %s\n", device->name,
                     (double)device->memory_bytes / (1024.0 * mib), device->kind);
    }
}

static void get_cells(const bench_result *r, char test[64], char kv[32], char limit[16],
                      char peak[24], char digest[33]) {
    bench_test_name(&r->test, test);
    bench_kv_name(r->test.kv, kv);
    (void)snprintf(limit, 16, r->limit_share > 0.0 ? "%.1f %%" : "-", 100.0 * r->limit_share);
    (void)snprintf(peak, 24, r->peak_bytes > 0 ? "%.0f" : "-", (double)r->peak_bytes / mib);
    lk_hex(r->digest, 16, digest);
}

/* One row of the table, with `bars` as Markdown. */
static void print_row(bool bars, const char *const cells[10]) {
    static const int widths[10] = {-28, 9, 7, -6, -9, -17, 20, 8, 8, -16};
    for (int i = 0; i < 10; i++) {
        const int width = i == 9 && !bars ? 0 : widths[i];
        (void)printf(bars ? "| %*s " : i == 0 ? "%*s" : "  %*s", width, cells[i]);
    }
    (void)printf(bars ? "|\n" : "\n");
}

static void print_table(const bench_report *report, bool bars) {
    static const char *const head[10] = {"model", "MiB",      "threads", "isa",      "kv",
                                         "test",  "tokens/s", "limit",   "peak MiB", "logits"};
    static const char *const rule[10] = {"---", "---:", "---:", "---",  "---",
                                         "---", "---:", "---:", "---:", "---"};
    print_machines(report, "");
    print_device(&report->device);
    for (size_t i = 0; i < report->n_models; i++) {
        const bench_model *m = &report->models[i];
        (void)printf("%s: opened in %.3f s, at most %.0f MiB\n", m->path, m->load_seconds,
                     (double)m->load_peak_bytes / mib);
    }
    (void)printf("\n");
    if (report->n_results == 0) {
        return;
    }
    print_row(bars, head);
    if (bars) {
        print_row(bars, rule);
    }
    for (size_t i = 0; i < report->n_results; i++) {
        const bench_result *r = &report->results[i];
        char test[64], kv[32], limit[16], peak[24], digest[33], size[24], threads[16], speed[48];
        get_cells(r, test, kv, limit, peak, digest);
        (void)snprintf(size, sizeof size, "%.1f", (double)r->test.model->tensor_bytes / mib);
        const bool on_cpu = r->test.device == 0;
        (void)snprintf(threads, sizeof threads, "%" PRIu32, r->test.n_threads);
        (void)snprintf(speed, sizeof speed, "%.2f +- %.2f", r->speed, r->speed_deviation);
        digest[r->is_wrong ? 0 : 16] = '\0';
        const char *const cells[10] = {r->test.model->description,
                                       size,
                                       threads,
                                       on_cpu ? bench_isa_name(r->test.isa) : "device",
                                       kv,
                                       test,
                                       speed,
                                       limit,
                                       peak,
                                       r->is_wrong ? "DIFFERENT" : digest};
        print_row(bars, cells);
    }
}

/* The columns of llama-bench; those of the KV types only where one is not f16, as it does. */
static void print_peer(const bench_report *report) {
    bool has_kv = false;
    for (size_t i = 0; i < report->n_results; i++) {
        const bench_kv kv = report->results[i].test.kv;
        has_kv |= kv.k != LK_KV_F16 || kv.v != LK_KV_F16;
    }
    (void)printf("| %-30s | %10s | %10s | %-10s | %7s |", "model", "size", "params", "backend",
                 "threads");
    if (has_kv) {
        (void)printf(" %6s | %6s |", "type_k", "type_v");
    }
    (void)printf(" %15s | %20s |\n", "test", "t/s");
    (void)printf("| ------------------------------ | ---------: | ---------: | ---------- | "
                 "------: |%s --------------: | -------------------: |\n",
                 has_kv ? " -----: | -----: |" : "");
    for (size_t i = 0; i < report->n_results; i++) {
        const bench_result *r = &report->results[i];
        const double bytes = (double)r->test.model->tensor_bytes;
        const double params = (double)r->test.model->info.n_params;
        char size[24], count[24], speed[48], test[64];
        (void)snprintf(size, sizeof size, bytes >= gib ? "%.2f GiB" : "%.2f MiB",
                       bytes / (bytes >= gib ? gib : mib));
        (void)snprintf(count, sizeof count, params >= 1e9 ? "%.2f B" : "%.2f M",
                       params / (params >= 1e9 ? 1e9 : 1e6));
        (void)snprintf(speed, sizeof speed, "%.2f \xc2\xb1 %.2f", r->speed, r->speed_deviation);
        bench_test_name(&r->test, test);
        (void)printf("| %-30s | %10s | %10s | %-10s | %7" PRIu32 " |", r->test.model->description,
                     size, count, r->test.device == 0 ? "CPU" : "CUDA", r->test.n_threads);
        if (has_kv) {
            (void)printf(" %6s | %6s |", lk_kv_type_name(r->test.kv.k),
                         lk_kv_type_name(r->test.kv.v));
        }
        (void)printf(" %15s | %21s |\n", test, speed); /* the sign has two bytes */
    }
    (void)printf("\nbuild: %s (%" PRIu32 ")\n", lk_version_commit(), lk_version_build());
}

/* A field in quotes, with quotes inside doubled. */
static void print_quoted(const char *text) {
    (void)putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            (void)putchar('"');
        }
        (void)putchar(*text);
    }
    (void)putchar('"');
}

static void print_csv(const bench_report *report) {
    (void)printf("model,description,model_bytes,threads,isa,type_k,type_v,test,n_tokens,depth,"
                 "n_parallel,repetitions,tokens_per_second,deviation,limit_share,peak_bytes,"
                 "logits,is_wrong,isa_used\n");
    for (size_t i = 0; i < report->n_results; i++) {
        const bench_result *r = &report->results[i];
        const bench_test *t = &r->test;
        char digest[33];
        lk_hex(r->digest, 16, digest);
        print_quoted(t->model->path);
        (void)putchar(',');
        print_quoted(t->model->description);
        (void)printf(",%" PRIu64 ",%" PRIu32 ",%s,%s,%s,%s,%" PRId64 ",%" PRId64 ",%" PRId32
                     ",%zu,%.4f,%.4f,%.5f,%" PRIu64 ",%s,%d,%" PRIu32 "\n",
                     t->model->tensor_bytes, t->n_threads, bench_isa_name(t->isa),
                     lk_kv_type_name(t->kv.k), lk_kv_type_name(t->kv.v), t->is_gen ? "tg" : "pp",
                     t->n_tokens, t->depth, t->n_parallel, r->n_repetitions, r->speed,
                     r->speed_deviation, r->limit_share, r->peak_bytes, digest, (int)r->is_wrong,
                     t->isa_used);
    }
}

static json_t *json_of_result(const bench_result *r) {
    const bench_test *t = &r->test;
    char name[64], digest[33];
    bench_test_name(t, name);
    lk_hex(r->digest, 16, digest);
    json_t *seconds = json_array();
    for (size_t i = 0; i < r->n_repetitions; i++) {
        (void)json_array_append_new(seconds, json_real(r->seconds[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:i, s:s, s:s, s:I, s:I, s:i, s:b, s:f, s:f, s:f, "
                     "s:f, s:I, s:s, s:b, s:o}",
                     "model", t->model->path, "description", t->model->description, "test", name,
                     "threads", (int)t->n_threads, "isa", bench_isa_name(t->isa), "isa_used",
                     (int)t->isa_used, "type_k", lk_kv_type_name(t->kv.k), "type_v",
                     lk_kv_type_name(t->kv.v), "n_tokens", (json_int_t)t->n_tokens, "depth",
                     (json_int_t)t->depth, "n_parallel", (int)t->n_parallel, "is_gen",
                     (int)t->is_gen, "tokens_per_second", r->speed, "deviation", r->speed_deviation,
                     "limit_share", r->limit_share, "vector_share", r->vector_share, "peak_bytes",
                     (json_int_t)r->peak_bytes, "logits", digest, "is_wrong", (int)r->is_wrong,
                     "seconds", seconds);
}

static bool print_json(const bench_report *report) {
    json_t *machines = json_array();
    json_t *models = json_array();
    json_t *results = json_array();
    for (size_t i = 0; i < report->n_machines; i++) {
        const bench_machine *m = &report->machines[i];
        (void)json_array_append_new(
            machines,
            json_pack("{s:i, s:s, s:f, s:f, s:f, s:f}", "threads", (int)m->speed.n_threads, "isa",
                      bench_isa_name(m->isa), "read_bytes_per_second", m->speed.read_bytes_per_s,
                      "int8_ops_per_second", m->speed.int8_ops_per_s, "matrix_ops_per_second",
                      m->speed.matrix_ops_per_s, "float_ops_per_second", m->speed.float_ops_per_s));
    }
    for (size_t i = 0; i < report->n_models; i++) {
        const bench_model *m = &report->models[i];
        (void)json_array_append_new(
            models, json_pack("{s:s, s:s, s:I, s:I, s:f, s:I}", "path", m->path, "description",
                              m->description, "tensor_bytes", (json_int_t)m->tensor_bytes,
                              "parameters", (json_int_t)m->info.n_params, "load_seconds",
                              m->load_seconds, "load_peak_bytes", (json_int_t)m->load_peak_bytes));
    }
    for (size_t i = 0; i < report->n_results; i++) {
        (void)json_array_append_new(results, json_of_result(&report->results[i]));
    }
    json_t *root = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "version", lk_version(), "commit",
                             lk_version_commit(), "numerics", lk_numerics_version(), "machines",
                             machines, "models", models, "results", results);
    if (report->device.name[0] != '\0') {
        (void)json_object_set_new(root, "device",
                                  json_pack("{s:s, s:s, s:s, s:I}", "backend",
                                            report->device.backend, "name", report->device.name,
                                            "kind", report->device.kind, "memory_bytes",
                                            (json_int_t)report->device.memory_bytes));
    }
    if (report->audio.n_results > 0) {
        (void)json_object_set_new(root, "audio", bench_audio_json(&report->audio));
    }
    const bool ok = root != NULL && json_array_size(results) == report->n_results &&
                    json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
                    putchar('\n') == '\n';
    json_decref(root);
    return ok;
}

bool bench_print(const bench_report *report, bench_format format) {
    switch (format) {
    case BENCH_TABLE:
    case BENCH_MARKDOWN:
        print_table(report, format == BENCH_MARKDOWN);
        bench_audio_print(&report->audio, format == BENCH_MARKDOWN);
        return true;
    case BENCH_CSV:
        print_csv(report);
        return true;
    case BENCH_JSON:
        return print_json(report);
    case BENCH_PEER:
        print_peer(report);
        return true;
    }
    return false;
}
