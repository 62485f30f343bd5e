/* cmd_perplexity.c - `lockstep perplexity`: how well a model predicts a text. The protocol is that
 * of llama-perplexity: the whole text is encoded, cut into windows of --ctx tokens that do not
 * overlap, each computed from an empty context (its first token is BOS where the model adds one),
 * and the tokens after the middle of each window are scored. A rest shorter than a window is left
 * out. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "shared/open_model.h"
#include "shared/options.h"

static const char help[] =
    "usage: lockstep perplexity MODEL FILE [OPTIONS]\n"
    "Measures how well a model predicts the text of a file: windows that do not overlap, the last\n"
    "half of each scored, as llama-perplexity does. Lower is better.\n\n"
    "  --ctx N           tokens per window (512)\n"
    "  --chunks N        only the first N windows\n"
    "  --kv-type T[,T]   keys and values as f32, f16 (default) or q8_0\n"
    "  -t, --threads N   threads (default: one per processor); never changes the result\n"
    "  --device N        compute on device N (1 ..; default 0: the processor); same result\n"
    "  --no-repack       compute from the mapped file, without rearranging its matrices\n"
    "  --json            one JSON object instead of text\n\n"
    "example: lockstep perplexity model.gguf book.txt --chunks 20\n";

typedef struct measure {
    const char *model_path;
    const char *text_path;
    int64_t n_ctx;
    int64_t n_chunks; /* 0: all */
    int64_t n_threads;
    const char *kv_type;
    bool json;
    int64_t device; /* 0: the processor */
    bool no_repack;
    lk_kv_type k_type;
    lk_kv_type v_type;
    int32_t n_vocab;
    int32_t bos; /* -1: none is added */
    const int32_t *ids;
    size_t n_windows;
    /* sums over the scored tokens */
    double nll;
    double nll_squares;
    uint64_t n_scored;
    double seconds;
} measure;

static bool parse(int argc, char **argv, measure *m, int *exit_status) {
    *m = (measure){.n_ctx = 512, .kv_type = "f16"};
    const lk_option options[] = {
        {"--ctx", "-c", LK_OPTION_INT, &m->n_ctx, 4, 1 << 20, NULL},
        {"--chunks", NULL, LK_OPTION_INT, &m->n_chunks, 1, 1e9, NULL},
        {"--threads", "-t", LK_OPTION_INT, &m->n_threads, 1, 256, NULL},
        {"--kv-type", NULL, LK_OPTION_TEXT, &m->kv_type, 0, 0, NULL},
        {"--json", NULL, LK_OPTION_FLAG, &m->json, 0, 0, NULL},
        {"--device", NULL, LK_OPTION_INT, &m->device, 0, 1024, NULL},
        {"--no-repack", NULL, LK_OPTION_FLAG, &m->no_repack, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &m->model_path, true},
                                         {"FILE", &m->text_path, true}};
    const lk_command_line line = {"perplexity", help, options, sizeof options / sizeof options[0],
                                  positionals,  2};
    if (!lk_options_parse(&line, argc, argv, exit_status)) {
        return false;
    }
    *exit_status = 2;
    return lk_check_device("perplexity", m->device) &&
           lk_parse_kv_type("perplexity", m->kv_type, &m->k_type, &m->v_type);
}

/* Minus the logarithm of the probability of `id`, in binary64. */
static double nll_of(const float *logits, int32_t n_vocab, int32_t id) {
    double max = (double)logits[0];
    double sum = 0.0;
    for (int32_t i = 1; i < n_vocab; i++) {
        max = (double)logits[i] > max ? (double)logits[i] : max;
    }
    for (int32_t i = 0; i < n_vocab; i++) {
        sum += exp((double)logits[i] - max);
    }
    return log(sum) + max - (double)logits[id];
}

/* One window: rows first .. n_ctx-2 predict the tokens after them. */
static bool score_window(measure *m, lk_context *context, lk_row *rows, const int32_t *ids) {
    lk_error err;
    const int64_t first = m->n_ctx / 2;
    for (int64_t i = 0; i < m->n_ctx; i++) {
        const int32_t id = i == 0 && m->bos >= 0 ? m->bos : ids[i];
        rows[i] = (lk_row){id, 0, i, i >= first && i + 1 < m->n_ctx ? LK_ROW_LOGITS : 0, 0};
    }
    /* The last row predicts nothing that is scored. */
    if (lk_sequence_clear(context, 0, &err) != LK_OK ||
        lk_context_decode(context, rows, (size_t)m->n_ctx - 1, NULL, &err) != LK_OK) {
        return lk_console_failed("perplexity", &err) == 0;
    }
    for (int64_t i = first; i + 1 < m->n_ctx; i++) {
        const float *logits = NULL;
        if (lk_context_logits(context, (size_t)i, &logits, &err) != LK_OK) {
            return lk_console_failed("perplexity", &err) == 0;
        }
        const double nll = nll_of(logits, m->n_vocab, ids[i + 1]);
        m->nll += nll;
        m->nll_squares += nll * nll;
        m->n_scored++;
    }
    return true;
}

static bool score_windows(measure *m, lk_model *model) {
    lk_error err;
    lk_context *context = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = (uint32_t)m->n_threads;
    params.kv_positions = m->n_ctx;
    params.max_logits = (int32_t)(m->n_ctx - m->n_ctx / 2);
    params.k_type = m->k_type;
    params.device = (uint32_t)m->device;
    params.v_type = m->v_type;
    if (lk_context_create(model, &params, &context, &err) != LK_OK) {
        return lk_console_failed("perplexity", &err) == 0;
    }
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    lk_row *rows = malloc((size_t)m->n_ctx * sizeof rows[0]);
    bool ok = true;
    if (rows == NULL) {
        ok = lk_console_error("perplexity", "out of memory") == 0;
    }
    const double start = lk_console_seconds();
    for (size_t i = 0; rows != NULL && i < m->n_windows && ok; i++) {
        (void)lk_progress_bar_draw(&bar, "windows", i, m->n_windows);
        ok = score_window(m, context, rows, m->ids + i * (size_t)m->n_ctx);
    }
    m->seconds = lk_console_seconds() - start;
    lk_progress_bar_clear(&bar);
    free(rows);
    lk_context_destroy(context);
    return ok;
}

/* Perplexity and its standard error, to first order from that of the mean. */
static bool report(const measure *m) {
    const double n = (double)m->n_scored;
    const double mean = m->nll / n;
    const double variance = m->nll_squares / n - mean * mean;
    const double perplexity = exp(mean);
    const double error = n > 1.0 && variance > 0.0 ? perplexity * sqrt(variance / (n - 1.0)) : 0.0;
    const double speed =
        m->seconds > 0.0 ? (double)m->n_windows * (double)m->n_ctx / m->seconds : 0.0;
    if (!m->json) {
        (void)printf("perplexity %.4f +/- %.4f (%zu windows of %lld tokens, %llu scored, "
                     "%.1f t/s)\n",
                     perplexity, error, m->n_windows, (long long)m->n_ctx,
                     (unsigned long long)m->n_scored, speed);
        return true;
    }
    json_t *object = json_pack(
        "{s:s, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:[s,s], s:f, s:s}", "model", m->model_path,
        "file", m->text_path, "perplexity", perplexity, "standard_error", error, "mean_nll", mean,
        "scored_tokens", (json_int_t)m->n_scored, "windows", (json_int_t)m->n_windows, "ctx",
        (json_int_t)m->n_ctx, "kv_type", lk_kv_type_name(m->k_type), lk_kv_type_name(m->v_type),
        "tokens_per_second", speed, "numerics", lk_numerics_version());
    const bool ok = object != NULL && json_dumpf(object, stdout, JSON_INDENT(2)) == 0;
    if (ok) {
        (void)putchar('\n');
    } else {
        (void)lk_console_error("perplexity", "the JSON object could not be written");
    }
    json_decref(object);
    return ok;
}

static bool run_all(measure *m, lk_model *model) {
    lk_error err;
    const lk_tokenizer *tokenizer = lk_model_tokenizer(model);
    lk_model_info info = LK_MODEL_INFO_INIT;
    if (lk_model_get_info(model, &info, &err) != LK_OK) {
        return lk_console_failed("perplexity", &err) == 0;
    }
    m->n_vocab = info.n_vocab;
    m->bos = lk_tokenizer_adds_bos(tokenizer) ? lk_tokenizer_bos(tokenizer) : -1;
    size_t n_bytes = 0;
    size_t n_ids = 0;
    char *text = lk_console_read("perplexity", m->text_path, LK_MAX_TEXT_BYTES, &n_bytes);
    int32_t *ids = text != NULL ? lk_encode("perplexity", tokenizer, text, n_bytes,
                                            LK_TOKENIZE_ADD_SPECIAL, &n_ids)
                                : NULL;
    free(text);
    bool ok = ids != NULL;
    m->ids = ids;
    m->n_windows = n_ids / (size_t)m->n_ctx;
    if (ok && m->n_windows == 0) {
        ok = lk_console_error("perplexity", "%s has %zu tokens, one window needs %lld",
                              m->text_path, n_ids, (long long)m->n_ctx) == 0;
    }
    if (m->n_chunks > 0 && (size_t)m->n_chunks < m->n_windows) {
        m->n_windows = (size_t)m->n_chunks;
    }
    ok = ok && score_windows(m, model) && report(m);
    free(ids);
    return ok;
}

int lk_command_perplexity(int argc, char **argv) {
    measure m;
    int exit_status = 0;
    if (!parse(argc, argv, &m, &exit_status)) {
        return exit_status;
    }
    lk_model *model =
        lk_open_model("perplexity", m.model_path, m.n_threads, !m.no_repack && m.device == 0);
    const bool ok = model != NULL && run_all(&m, model);
    lk_model_close(model);
    return lk_console_finish("perplexity", ok ? 0 : 1);
}
