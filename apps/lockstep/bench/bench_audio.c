/* bench_audio.c - `lockstep bench --mmproj FILE --audio SECONDS`: how long the encoder of
 * recordings takes, and what part of the machine's limit that is. The samples are a function of
 * their number, so all repetitions of a length must give one digest, whatever the threads and
 * instruction sets, and on a device too. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "shared/console.h"
#include "shared/open_model.h"

typedef struct audio_bench {
    const bench_options *options;
    bench_report *report;
    lk_projector *projector;
    lk_progress_bar bar;
    size_t n_tests;
    float *features;
    float *vectors;
    size_t n_features;
    size_t n_values;
} audio_bench;

/* A tone that goes up and down, with some noise. */
static void make_samples(float *samples, size_t n) {
    uint32_t state = 1;
    uint32_t phase = 0;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        const uint32_t sweep = (uint32_t)(i % 16000);
        phase += (sweep < 8000 ? sweep : 16000 - sweep) * 20000u + 54000000u; /* 200 to 800 Hz */
        const float triangle = (float)(phase >> 8) / 8388608.0f;
        const float noise = (float)(state >> 8) / 16777216.0f - 0.5f;
        samples[i] = 0.25f * (triangle < 1.0f ? 2.0f * triangle - 1.0f : 3.0f - 2.0f * triangle) +
                     0.02f * noise;
    }
}

static lk_audio *make_clip(int64_t seconds, lk_error *err) {
    const size_t n = (size_t)seconds * LK_AUDIO_RATE;
    lk_audio *audio = NULL;
    float *samples = malloc(n * sizeof *samples);
    if (samples == NULL) {
        *err = (lk_error){.status = LK_E_NOMEM};
        (void)snprintf(err->message, sizeof err->message, "out of memory for %zu samples", n);
        return NULL;
    }
    make_samples(samples, n);
    (void)lk_audio_create(samples, n, 1, LK_AUDIO_RATE, NULL, NULL, &audio, err);
    free(samples);
    return audio;
}

/* Rows that a tensor's products are made for, of a recording of n_frames; 0: it is no matrix. */
static double rows_of(const lk_gguf_tensor *t, uint64_t n_frames, uint64_t n_vectors) {
    if (strncmp(t->name, "a.conv1d.1.weight", 17) == 0) {
        return (double)n_frames;
    }
    if (strncmp(t->name, "mm.a.", 5) == 0 && t->ne[1] > 1) {
        return (double)n_vectors;
    }
    const bool is_inside = strncmp(t->name, "a.blk.", 6) == 0 || strncmp(t->name, "a.conv", 6) == 0;
    return is_inside && t->ne[1] > 1 && strstr(t->name, ".weight") != NULL ? (double)n_frames / 2.0
                                                                           : 0.0;
}

/* Operations of products with quantised weights, and of all others: those with other weights and
 * attention. */
static void count_ops(const audio_bench *a, const bench_audio_result *r, double *int8_ops,
                      double *float_ops) {
    const lk_projector_info *info = &a->report->audio.info;
    const lk_gguf *gguf = lk_projector_gguf(a->projector);
    const double n_keys = (double)info->window_frames / 2.0;
    *int8_ops = 0.0;
    *float_ops =
        4.0 * (double)r->n_frames / 2.0 * n_keys * (double)info->n_embd * (double)info->n_layers;
    lk_gguf_tensor t;
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        if (lk_gguf_tensor_at(gguf, i, &t, NULL) != LK_OK) {
            continue;
        }
        const double ops = 2.0 * rows_of(&t, r->n_frames, r->n_vectors) *
                           (double)(t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]);
        const bool is_float = t.n_bytes >= t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3] * 2;
        *(is_float ? float_ops : int8_ops) += ops;
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void finish(const audio_bench *a, bench_audio_result *r) {
    double sorted[BENCH_MAX_REPETITIONS];
    double int8_ops;
    double float_ops;
    const size_t n = r->n_repetitions;
    memcpy(sorted, r->seconds, n * sizeof sorted[0]);
    qsort(sorted, n, sizeof sorted[0], compare);
    r->median_s = n % 2 != 0 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
    count_ops(a, r, &int8_ops, &float_ops);
    r->ops = int8_ops + float_ops;
    const lk_machine_speed *machine =
        r->device == LK_DEVICE_CPU ? bench_speed_of(a->report, r->n_threads, r->isa) : NULL;
    if (machine != NULL && machine->int8_ops_per_s > 0.0 && machine->float_ops_per_s > 0.0) {
        const double best_s = int8_ops / (machine->matrix_ops_per_s > machine->int8_ops_per_s
                                              ? machine->matrix_ops_per_s
                                              : machine->int8_ops_per_s) +
                              float_ops / machine->float_ops_per_s;
        r->limit_share = best_s / r->median_s;
    }
    for (size_t i = 0; i < a->report->audio.n_results; i++) { /* all before it of this length */
        const bench_audio_result *other = &a->report->audio.results[i];
        r->is_wrong |= other->clip_s == r->clip_s && memcmp(other->digest, r->digest, 16) != 0;
    }
    a->report->is_wrong |= r->is_wrong;
}

/* One encoding; the digest is taken outside of the time. */
static lk_status encode(audio_bench *a, lk_encoder *encoder, bench_audio_result *r, bool is_first,
                        double *seconds, lk_error *err) {
    lk_encode_params params = LK_ENCODE_PARAMS_INIT;
    params.progress = lk_progress_bar_draw_or_cancel;
    params.progress_ctx = &a->bar;
    uint8_t digest[16];
    const double start = lk_console_seconds();
    const lk_status status =
        lk_encoder_encode(encoder, a->features, r->n_frames, a->vectors, a->n_values, &params, err);
    *seconds = lk_console_seconds() - start;
    if (status == LK_OK) {
        lk_logits_digest(a->vectors, a->n_values, digest);
        r->is_wrong |= !is_first && memcmp(digest, r->digest, 16) != 0;
        memcpy(r->digest, digest, 16);
    }
    return status;
}

static lk_status measure(audio_bench *a, lk_encoder *encoder, bench_audio_result *r,
                         lk_error *err) {
    double seconds = 0.0;
    const int64_t n_runs = a->options->n_repetitions + (a->options->no_warmup ? 0 : 1);
    for (int64_t i = 0; i < n_runs; i++) {
        const lk_status status = encode(a, encoder, r, i == 0, &seconds, err);
        if (status != LK_OK) {
            return status;
        }
        if (i > 0 || a->options->no_warmup) {
            r->seconds[r->n_repetitions++] = seconds > 1e-9 ? seconds : 1e-9;
        }
    }
    finish(a, r);
    a->report->audio.n_results++;
    return LK_OK;
}

/* Features of a clip, the shortest of a few times, and room for the vectors. */
static lk_status make_features(audio_bench *a, const lk_audio *clip, bench_audio_result *r,
                               lk_error *err) {
    const lk_projector_info *info = &a->report->audio.info;
    r->n_frames = lk_audio_n_frames(clip);
    r->n_vectors = lk_projector_n_tokens(a->projector, r->n_frames);
    a->n_features = (size_t)r->n_frames * (size_t)info->n_mels;
    a->n_values = (size_t)r->n_vectors * (size_t)info->n_out;
    a->features = malloc(a->n_features * sizeof *a->features);
    a->vectors = malloc(a->n_values * sizeof *a->vectors);
    lk_status status = a->features != NULL && a->vectors != NULL ? LK_OK : LK_E_NOMEM;
    if (status != LK_OK) {
        *err = (lk_error){.status = status};
        (void)snprintf(err->message, sizeof err->message, "out of memory for a recording");
    }
    for (int i = 0; i < 5 && status == LK_OK; i++) {
        const double start = lk_console_seconds();
        status = lk_audio_features(clip, (uint32_t)info->n_mels, a->features, a->n_features, err);
        const double taken = lk_console_seconds() - start;
        r->features_s = i == 0 || taken < r->features_s ? taken : r->features_s;
    }
    return status;
}

static lk_status run_clip(audio_bench *a, lk_encoder *encoder, const bench_audio_result *base,
                          lk_error *err) {
    bench_audio_result *r = &a->report->audio.results[a->report->audio.n_results];
    *r = *base;
    lk_audio *clip = make_clip(r->clip_s, err);
    if (clip == NULL) {
        return err->status;
    }
    lk_status status = make_features(a, clip, r, err);
    if (status == LK_OK) {
        status = measure(a, encoder, r, err);
    }
    free(a->features);
    free(a->vectors);
    a->features = NULL;
    a->vectors = NULL;
    lk_audio_destroy(clip);
    return status;
}

static lk_status run_clips(audio_bench *a, uint32_t n_threads, uint32_t isa, uint32_t device,
                           lk_error *err) {
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    params.n_threads = n_threads;
    params.isa_mask = isa;
    params.device = device;
    params.max_windows = device == LK_DEVICE_CPU ? params.max_windows : LK_MAX_WINDOWS;
    lk_encoder *encoder = NULL;
    lk_status status = lk_encoder_create(a->projector, &params, &encoder, err);
    const long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (size_t i = 0; i < a->options->clips.n && status == LK_OK; i++) {
        const bench_audio_result base = {
            .clip_s = a->options->clips.items[i],
            .n_threads =
                n_threads != 0 ? n_threads : (uint32_t)(n_processors > 0 ? n_processors : 1),
            .isa = isa,
            .device = device};
        status = run_clip(a, encoder, &base, err);
    }
    lk_encoder_destroy(encoder);
    return status;
}

static lk_status run_all(audio_bench *a, lk_error *err) {
    const bench_options *o = a->options;
    bench_audio *audio = &a->report->audio;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = o->no_repack ? LK_MODEL_NO_REPACK : 0;
    params.n_threads = (uint32_t)o->threads.items[0];
    const double start = lk_console_seconds();
    lk_status status = lk_projector_open(o->mmproj, &params, &a->projector, err);
    audio->load_seconds = lk_console_seconds() - start;
    if (status == LK_OK) {
        status = lk_projector_get_info(a->projector, &audio->info, err);
    }
    for (size_t t = 0; o->on_cpu && t < o->threads.n; t++) {
        for (size_t i = 0; i < o->isas.n && status == LK_OK; i++) {
            status = run_clips(a, (uint32_t)o->threads.items[t], (uint32_t)o->isas.items[i],
                               LK_DEVICE_CPU, err);
        }
    }
    return status == LK_OK && o->on_device ? run_clips(a, 1, LK_CPU_ALL, 1, err) : status;
}

bool bench_audio_run(const bench_options *options, bench_report *report) {
    const size_t n_tests = options->clips.n * (options->threads.n * options->isas.n + 1);
    audio_bench a = {.options = options, .report = report, .n_tests = n_tests};
    lk_error err;
    report->audio = (bench_audio){.path = options->mmproj, .info = LK_PROJECTOR_INFO_INIT};
    report->audio.results = calloc(n_tests, sizeof *report->audio.results);
    if (report->audio.results == NULL) {
        (void)lk_console_error("bench", "out of memory for %zu results", n_tests);
        return false;
    }
    lk_progress_bar_init(&a.bar);
    const lk_status status = run_all(&a, &err);
    lk_progress_bar_clear(&a.bar);
    lk_projector_close(a.projector);
    return status == LK_OK || (status != LK_E_CANCELLED && lk_console_failed("bench", &err) == 0);
}

void bench_audio_deinit(bench_audio *audio) {
    free(audio->results);
    *audio = (bench_audio){.path = NULL};
}

/* ---- printing ---- */

enum { N_COLUMNS = 10 };

static void print_row(bool is_markdown, const char *const cells[N_COLUMNS]) {
    static const int widths[N_COLUMNS] = {-28, 9, 7, -6, -9, 9, 8, 8, 8, -16};
    for (int i = 0; i < N_COLUMNS; i++) {
        const int width = i + 1 == N_COLUMNS && !is_markdown ? 0 : widths[i];
        (void)printf(is_markdown ? "| %*s " : i == 0 ? "%*s" : "  %*s", width, cells[i]);
    }
    (void)printf(is_markdown ? "|\n" : "\n");
}

void bench_audio_print(const bench_audio *audio, bool is_markdown) {
    static const char *const head[N_COLUMNS] = {"encoder", "MiB",  "threads", "isa",    "audio",
                                                "seconds", "GOPS", "limit",   "mel ms", "vectors"};
    static const char *const rule[N_COLUMNS] = {"---",  "---:", "---:", "---",  "---",
                                                "---:", "---:", "---:", "---:", "---"};
    if (audio->n_results == 0) {
        return;
    }
    (void)printf("%s: opened in %.3f s\n\n", audio->path, audio->load_seconds);
    print_row(is_markdown, head);
    if (is_markdown) {
        print_row(is_markdown, rule);
    }
    for (size_t i = 0; i < audio->n_results; i++) {
        const bench_audio_result *r = &audio->results[i];
        char name[64], size[24], threads[16], clip[24], seconds[24], gops[24], limit[16], mel[24],
            digest[33];
        (void)snprintf(name, sizeof name, "%s %.1fM", audio->info.type,
                       (double)audio->info.n_params / 1e6);
        (void)snprintf(size, sizeof size, "%.1f", (double)audio->info.n_bytes / 1048576.0);
        const bool on_cpu = r->device == LK_DEVICE_CPU;
        (void)snprintf(threads, sizeof threads, "%" PRIu32, r->n_threads);
        (void)snprintf(clip, sizeof clip, "%" PRId64 " s", r->clip_s);
        (void)snprintf(seconds, sizeof seconds, "%.3f", r->median_s);
        (void)snprintf(gops, sizeof gops, "%.0f", r->ops / r->median_s / 1e9);
        (void)snprintf(limit, sizeof limit, r->limit_share > 0.0 ? "%.1f %%" : "-",
                       100.0 * r->limit_share);
        (void)snprintf(mel, sizeof mel, "%.1f", 1e3 * r->features_s);
        lk_hex(r->digest, 16, digest);
        digest[16] = '\0';
        const char *const cells[N_COLUMNS] = {name,
                                              size,
                                              on_cpu ? threads : "-",
                                              on_cpu ? bench_isa_name(r->isa) : "device",
                                              clip,
                                              seconds,
                                              gops,
                                              limit,
                                              mel,
                                              r->is_wrong ? "DIFFERENT" : digest};
        print_row(is_markdown, cells);
    }
}

json_t *bench_audio_json(const bench_audio *audio) {
    json_t *results = json_array();
    for (size_t i = 0; i < audio->n_results; i++) {
        const bench_audio_result *r = &audio->results[i];
        char digest[33];
        lk_hex(r->digest, 16, digest);
        json_t *seconds = json_array();
        for (size_t k = 0; k < r->n_repetitions; k++) {
            (void)json_array_append_new(seconds, json_real(r->seconds[k]));
        }
        (void)json_array_append_new(
            results,
            json_pack(
                "{s:s, s:s, s:I, s:f, s:i, s:i, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:s, s:b, "
                "s:o}",
                "projector", audio->path, "type", audio->info.type, "bytes",
                (json_int_t)audio->info.n_bytes, "load_seconds", audio->load_seconds, "device",
                (int)r->device, "threads", (int)r->n_threads, "isa", bench_isa_name(r->isa),
                "clip_seconds", (json_int_t)r->clip_s, "n_frames", (json_int_t)r->n_frames,
                "n_vectors", (json_int_t)r->n_vectors, "features_seconds", r->features_s,
                "median_seconds", r->median_s, "operations", r->ops, "limit_share", r->limit_share,
                "vectors", digest, "is_wrong", (int)r->is_wrong, "seconds", seconds));
    }
    return results;
}
