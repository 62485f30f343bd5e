/* bench_run.c - measures the tests of `lockstep bench`. Tokens are a function of their position
 * alone, the same in every sequence: so all sequences of a batch, all repetitions, and all tests of
 * a model and KV type that end at the same position must give one row of logits, whatever the
 * threads, instruction sets and batches. A fast wrong result shows at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "shared/console.h"
#include "shared/open_model.h"

enum { MAX_RESULTS = 4096, MAX_MACHINES = BENCH_MAX_LIST * BENCH_MAX_LIST, PAGE = 64 };

/* The digest of the row at the end of `length` tokens. */
typedef struct known_digest {
    bench_kv kv;
    int64_t length;
    uint8_t digest[16];
} known_digest;

typedef struct bench {
    const bench_options *options;
    bench_report *report;
    bench_model *model;
    lk_model *open;
    lk_progress_bar bar;
    lk_context *context;
    lk_row *rows; /* [max_rows_of_call] */
    size_t n_rows_max;
    known_digest known[MAX_RESULTS];
    size_t n_known;
    bench_test base;     /* what the tests of one context share */
    size_t first_result; /* of this context */
    size_t n_tests;      /* of the whole command, for the progress bar */
} bench;

static lk_context *volatile running;

static void on_interrupt(void) {
    if (running != NULL) {
        lk_context_cancel(running);
    }
}

/* A line of /proc/self/status in bytes, 0 when there is none. */
static uint64_t status_bytes(const char *key) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            kib = strtoull(line + strlen(key), NULL, 10);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return (uint64_t)kib * 1024;
}

/* The peak begins at what is in use now; where the system does not allow that, it stays the peak
 * since the start. */
static void reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file != NULL) {
        (void)fputs("5", file);
        (void)fclose(file);
    }
}

static int32_t token_at(const bench *b, int64_t pos) {
    const uint64_t mixed = ((uint64_t)pos + 1) * 0x9E3779B97F4A7C15u;
    return (int32_t)((mixed >> 33) % (uint64_t)b->model->info.n_vocab);
}

static bool decode(bench *b, size_t n_rows, double *seconds) {
    lk_error err;
    const double start = lk_console_seconds();
    const lk_status status = lk_context_decode(b->context, b->rows, n_rows, NULL, &err);
    *seconds += lk_console_seconds() - start;
    if (status == LK_E_CANCELLED) {
        return false;
    }
    if (status != LK_OK) {
        lk_progress_bar_clear(&b->bar);
        (void)lk_console_failed("bench", &err);
        return false;
    }
    return lk_console_interrupt_status() == 0;
}

/* Tokens [from, to) of sequences 0 .. n_parallel-1, one sequence after the other. */
static bool feed(bench *b, int32_t n_parallel, int64_t from, int64_t to, double *seconds) {
    size_t n = 0;
    for (int32_t seq = 0; seq < n_parallel; seq++) {
        for (int64_t pos = from; pos < to; pos++) {
            b->rows[n++] =
                (lk_row){token_at(b, pos), seq, pos, pos + 1 == to ? LK_ROW_LOGITS : 0, 0};
        }
    }
    return n == 0 || decode(b, n, seconds);
}

/* One token at a time, all sequences together. */
static bool generate(bench *b, int32_t n_parallel, int64_t from, int64_t to, double *seconds) {
    for (int64_t pos = from; pos < to; pos++) {
        for (int32_t seq = 0; seq < n_parallel; seq++) {
            b->rows[seq] = (lk_row){token_at(b, pos), seq, pos, LK_ROW_LOGITS, 0};
        }
        if (!decode(b, (size_t)n_parallel, seconds)) {
            return false;
        }
    }
    return true;
}

static bool truncate_all(bench *b, int32_t n_parallel, int64_t length) {
    lk_error err;
    for (int32_t seq = 0; seq < n_parallel; seq++) {
        if (lk_sequence_truncate(b->context, seq, length, &err) != LK_OK) {
            (void)lk_console_failed("bench", &err);
            return false;
        }
    }
    return true;
}

/* The digest of the last row of each sequence of the last decode; false when they differ. */
static bool take_digests(bench *b, const bench_test *t, uint8_t digest[16]) {
    bool is_one = true;
    const size_t stride = t->is_gen ? 1 : (size_t)t->n_tokens;
    for (size_t seq = 0; seq < (size_t)t->n_parallel; seq++) {
        const float *logits = NULL;
        uint8_t found[16] = {0};
        if (lk_context_logits(b->context, (seq + 1) * stride - 1, &logits, NULL) == LK_OK) {
            lk_logits_digest(logits, (size_t)b->model->info.n_vocab, found);
        }
        if (seq == 0) {
            memcpy(digest, found, 16);
        }
        is_one = is_one && memcmp(digest, found, 16) == 0;
    }
    return is_one;
}

/* Compares with every earlier result that must be the same. */
static bool is_as_known(bench *b, const bench_test *t, const uint8_t digest[16]) {
    const int64_t length = t->depth + t->n_tokens;
    for (size_t i = 0; i < b->n_known; i++) {
        const known_digest *k = &b->known[i];
        if (k->kv.k == t->kv.k && k->kv.v == t->kv.v && k->length == length) {
            return memcmp(k->digest, digest, 16) == 0;
        }
    }
    if (b->n_known < MAX_RESULTS) {
        known_digest *k = &b->known[b->n_known++];
        *k = (known_digest){t->kv, length, {0}};
        memcpy(k->digest, digest, 16);
    }
    return true;
}

static bool one_run(bench *b, const bench_test *t, double *seconds) {
    const int64_t end = t->depth + t->n_tokens;
    return t->is_gen ? generate(b, t->n_parallel, t->depth, end, seconds)
                     : feed(b, t->n_parallel, t->depth, end, seconds);
}

static void finish_result(bench *b, bench_result *r) {
    const double n_tokens = (double)r->test.n_tokens * r->test.n_parallel;
    const double n = (double)r->n_repetitions;
    double total_s = 0.0;
    for (size_t i = 0; i < r->n_repetitions; i++) {
        r->speed += n_tokens / r->seconds[i] / n;
        total_s += r->seconds[i];
    }
    double squares = 0.0;
    for (size_t i = 0; i < r->n_repetitions; i++) {
        const double e = n_tokens / r->seconds[i] - r->speed;
        squares += e * e;
    }
    r->speed_deviation = r->n_repetitions > 1 ? sqrt(squares / (n - 1.0)) : 0.0;
    const lk_machine_speed *machine = bench_speed_of(b->report, r->test.n_threads, r->test.isa);
    if (machine != NULL && r->test.device == 0) {
        r->limit_share = bench_limit_seconds(&r->test, machine, true) / (total_s / n);
        r->vector_share = bench_limit_seconds(&r->test, machine, false) / (total_s / n);
    }
}

static void show_progress(bench *b) {
    (void)lk_progress_bar_draw(&b->bar, "bench", b->report->n_results, b->n_tests);
}

/* The result that the next test fills. */
static bench_result *add_result(bench *b, const bench_test *t) {
    bench_result *r = &b->report->results[b->report->n_results];
    *r = (bench_result){.test = *t};
    return r;
}

/* One repetition. The digests are taken outside of the time. */
static bool run_timed(bench *b, bench_result *r) {
    double seconds = 0.0;
    if (!one_run(b, &r->test, &seconds)) {
        return false;
    }
    uint8_t digest[16];
    r->is_wrong |= !take_digests(b, &r->test, digest) || !is_as_known(b, &r->test, digest);
    memcpy(r->digest, digest, 16);
    r->seconds[r->n_repetitions++] = seconds > 1e-9 ? seconds : 1e-9;
    return true;
}

static void close_result(bench *b, bench_result *r) {
    finish_result(b, r);
    b->report->is_wrong |= r->is_wrong;
    b->report->n_results++;
    show_progress(b);
}

/* Prompt or generation of one sequence at the depth that the context is at. */
static bool run_single(bench *b, bool is_gen, int64_t n_tokens) {
    bench_test t = b->base;
    t.is_gen = is_gen;
    t.n_tokens = n_tokens;
    t.n_parallel = 1;
    bench_result *r = add_result(b, &t);
    double ignored = 0.0;
    bool ok = true;
    if (!b->options->no_warmup) {
        bench_test warmup = t;
        warmup.n_tokens = is_gen ? 1 : n_tokens;
        ok = one_run(b, &warmup, &ignored) && truncate_all(b, 1, t.depth);
    }
    for (int64_t i = 0; i < b->options->n_repetitions && ok; i++) {
        ok = run_timed(b, r) && truncate_all(b, 1, t.depth);
    }
    if (ok) {
        close_result(b, r);
    }
    return ok;
}

/* Prompts and then generation of several sequences. */
static bool run_batched(bench *b, int32_t n_parallel) {
    bench_test prompt = b->base;
    prompt.is_batched = true;
    prompt.n_tokens = b->options->batch_prompt;
    prompt.n_parallel = n_parallel;
    bench_test gen = prompt;
    gen.is_gen = true;
    gen.n_tokens = b->options->batch_gen;
    gen.depth += prompt.n_tokens;
    bench_result *r_prompt = add_result(b, &prompt);
    bench_result *r_gen = r_prompt + 1;
    *r_gen = (bench_result){.test = gen};
    bool ok = true;
    if (!b->options->no_warmup) {
        bench_test one = gen;
        one.n_tokens = 1;
        double ignored = 0.0;
        ok = one_run(b, &prompt, &ignored) && one_run(b, &one, &ignored) &&
             truncate_all(b, n_parallel, prompt.depth);
    }
    for (int64_t i = 0; i < b->options->n_repetitions && ok; i++) {
        ok = run_timed(b, r_prompt) && run_timed(b, r_gen) &&
             truncate_all(b, n_parallel, prompt.depth);
    }
    if (ok) {
        close_result(b, r_prompt);
        close_result(b, r_gen);
    }
    return ok;
}

static int64_t round_to_page(int64_t n) {
    return (n + PAGE - 1) / PAGE * PAGE;
}

static int64_t largest(const bench_list *list) {
    int64_t largest = 0;
    for (size_t i = 0; i < list->n; i++) {
        largest = list->items[i] > largest ? list->items[i] : largest;
    }
    return largest;
}

/* A context for n_parallel sequences of `depth` positions and n_tokens more, and rows for it. */
static bool open_context(bench *b, int32_t n_parallel, int64_t n_tokens) {
    lk_error err;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    const int64_t positions = round_to_page(b->base.depth + n_tokens);
    params.n_threads = b->base.n_threads;
    params.isa_mask = b->base.isa;
    params.kv_positions = positions * n_parallel;
    params.n_sequences = n_parallel;
    params.max_rows = (int32_t)b->options->max_rows;
    params.max_logits = n_parallel;
    params.k_type = b->base.kv.k;
    params.device = (uint32_t)b->options->device;
    params.v_type = b->base.kv.v;
    const size_t n_rows = (size_t)positions * (size_t)n_parallel;
    if (n_rows > b->n_rows_max) {
        free(b->rows);
        b->rows = malloc(n_rows * sizeof b->rows[0]);
        b->n_rows_max = b->rows != NULL ? n_rows : 0;
    }
    if (b->rows == NULL) {
        (void)lk_console_error("bench", "out of memory for %zu rows", n_rows);
        return false;
    }
    lk_context *context = NULL;
    if (lk_context_create(b->open, &params, &context, &err) != LK_OK) {
        lk_progress_bar_clear(&b->bar);
        (void)lk_console_failed("bench", &err);
        return false;
    }
    b->context = context;
    running = context;
    lk_context_stats stats = LK_CONTEXT_STATS_INIT;
    if (lk_context_get_stats(context, &stats, &err) == LK_OK) {
        b->base.n_threads = stats.n_threads;
        b->base.isa_used = stats.isa;
    }
    b->first_result = b->report->n_results;
    double ignored = 0.0;
    return feed(b, n_parallel, 0, b->base.depth, &ignored);
}

static void close_context(bench *b) {
    const uint64_t peak = status_bytes("VmHWM:");
    for (size_t i = b->first_result; i < b->report->n_results; i++) {
        b->report->results[i].peak_bytes = peak;
    }
    running = NULL;
    lk_context_destroy(b->context);
    b->context = NULL;
}

static bool run_singles(bench *b) {
    const bench_options *o = b->options;
    const int64_t n_prompt = largest(&o->prompts);
    const int64_t n_gen = largest(&o->gens);
    if (n_prompt == 0 && n_gen == 0) {
        return true;
    }
    reset_peak();
    b->first_result = b->report->n_results;
    bool ok = open_context(b, 1, n_prompt > n_gen ? n_prompt : n_gen);
    for (size_t i = 0; i < o->prompts.n && ok; i++) {
        ok = o->prompts.items[i] == 0 || run_single(b, false, o->prompts.items[i]);
    }
    for (size_t i = 0; i < o->gens.n && ok; i++) {
        ok = o->gens.items[i] == 0 || run_single(b, true, o->gens.items[i]);
    }
    close_context(b);
    return ok;
}

static bool run_batches(bench *b) {
    const bench_options *o = b->options;
    bool ok = true;
    for (size_t i = 0; i < o->parallels.n && ok; i++) {
        const int32_t n_parallel = (int32_t)o->parallels.items[i];
        reset_peak();
        b->first_result = b->report->n_results;
        ok = open_context(b, n_parallel, o->batch_prompt + o->batch_gen) &&
             run_batched(b, n_parallel);
        close_context(b);
    }
    return ok;
}

static bool run_model(bench *b) {
    const bench_options *o = b->options;
    bool ok = true;
    b->n_known = 0;
    for (size_t kv = 0; kv < o->n_kvs; kv++) {
        for (size_t depth = 0; depth < o->depths.n; depth++) {
            for (size_t threads = 0; threads < o->threads.n; threads++) {
                for (size_t isa = 0; isa < o->isas.n && ok; isa++) {
                    b->base = (bench_test){.model = b->model,
                                           .n_threads = (uint32_t)o->threads.items[threads],
                                           .isa = (uint32_t)o->isas.items[isa],
                                           .kv = o->kvs[kv],
                                           .depth = o->depths.items[depth],
                                           .max_rows = o->max_rows,
                                           .device = o->device};
                    ok = run_singles(b) && run_batches(b);
                }
            }
        }
    }
    return ok;
}

static bool open_and_run(bench *b, const char *path) {
    lk_error err;
    b->model = &b->report->models[b->report->n_models];
    *b->model = (bench_model){.path = path, .info = LK_MODEL_INFO_INIT};
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = b->options->no_repack || b->options->device != 0 ? LK_MODEL_NO_REPACK : 0;
    params.n_threads = (uint32_t)b->options->threads.items[0];
    reset_peak();
    const double start = lk_console_seconds();
    if (lk_model_open(path, &params, &b->open, &err) != LK_OK ||
        lk_model_get_info(b->open, &b->model->info, &err) != LK_OK) {
        lk_progress_bar_clear(&b->bar);
        (void)lk_console_failed("bench", &err);
        lk_model_close(b->open);
        b->open = NULL;
        return false;
    }
    b->model->load_seconds = lk_console_seconds() - start;
    b->model->load_peak_bytes = status_bytes("VmHWM:");
    bench_describe(b->model, b->open);
    b->report->n_models++;
    const bool ok = run_model(b);
    lk_model_close(b->open);
    b->open = NULL;
    return ok;
}

static bool measure_machine(bench *b) {
    const bench_options *o = b->options;
    lk_error err;
    for (size_t i = 0; i < o->threads.n && !o->no_machine; i++) {
        for (size_t k = 0; k < o->isas.n; k++) {
            bench_machine *m = &b->report->machines[b->report->n_machines];
            *m = (bench_machine){(uint32_t)o->isas.items[k], LK_MACHINE_SPEED_INIT};
            if (lk_machine_measure((uint32_t)o->threads.items[i], m->isa, NULL, &m->speed, &err) !=
                LK_OK) {
                return lk_console_failed("bench", &err) == 0;
            }
            b->report->n_machines++;
        }
    }
    return true;
}

static size_t count_tests(const bench_options *o) {
    size_t n = 2 * o->parallels.n;
    for (size_t i = 0; i < o->prompts.n; i++) {
        n += o->prompts.items[i] != 0;
    }
    for (size_t i = 0; i < o->gens.n; i++) {
        n += o->gens.items[i] != 0;
    }
    return n * o->n_models * o->n_kvs * o->depths.n * o->threads.n * o->isas.n;
}

bool bench_run(const bench_options *options, bench_report *report) {
    *report = (bench_report){.models = NULL};
    bench *b = calloc(1, sizeof *b);
    const size_t n_tests = count_tests(options);
    report->models = calloc(options->n_models + 1, sizeof *report->models);
    report->machines = calloc(MAX_MACHINES, sizeof *report->machines);
    report->results = calloc(n_tests + 1, sizeof *report->results);
    bool ok =
        b != NULL && report->models != NULL && report->machines != NULL && report->results != NULL;
    if (!ok) {
        (void)lk_console_error("bench", "out of memory for %zu results", n_tests);
    } else {
        b->options = options;
        b->report = report;
        b->n_tests = n_tests;
        lk_progress_bar_init(&b->bar);
        lk_console_catch_interrupt(on_interrupt);
        ok = measure_machine(b);
        report->device = LK_DEVICE_INFO_INIT;
        (void)lk_device_get_info(1, &report->device, NULL); /* no name: there is none */
        for (size_t i = 0; i < options->n_models && ok; i++) {
            show_progress(b);
            ok = open_and_run(b, options->models[i]);
        }
        lk_progress_bar_clear(&b->bar);
        ok = ok && (options->mmproj == NULL || bench_audio_run(options, report));
        lk_progress_bar_clear(&b->bar);
        free(b->rows);
    }
    free(b);
    report->is_interrupted = lk_console_interrupt_status() != 0;
    return ok;
}

void bench_report_deinit(bench_report *report) {
    free(report->models);
    free(report->machines);
    free(report->results);
    bench_audio_deinit(&report->audio);
    *report = (bench_report){.models = NULL};
}
