/* run_generate.c - the loop of `lockstep run`: prompt, then sample and decode token by token. The
 * first Ctrl-C ends the run cleanly, a second one ends the process. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "run.h"
#include "shared/printable.h"

/* ---- Ctrl-C ---- */

static lk_context *volatile interrupted_context;

static void on_interrupt(void) {
    if (interrupted_context != NULL) {
        lk_context_cancel(interrupted_context);
    }
}

/* ---- preparing ---- */

/* ID=BIAS */
static bool parse_bias(const char *text, int32_t n_vocab, lk_logit_bias *bias) {
    char *end = NULL;
    const long id = strtol(text, &end, 10);
    if (end == text || *end != '=' || id < 0 || id >= n_vocab) {
        return false;
    }
    const char *number = end + 1;
    const double value = strtod(number, &end);
    if (end == number || *end != '\0' || isnan(value) || value > 1e30 ||
        (value < -1e30 && !isinf(value))) {
        return false;
    }
    *bias = (lk_logit_bias){(int32_t)id, (float)value};
    return true;
}

/* The biases of the options, and a ban of all end tokens with --ignore-eos. free() the result. */
static lk_logit_bias *make_biases(const run *r, int32_t *n) {
    const run_options *o = r->options;
    const int32_t n_vocab = r->info.n_vocab;
    size_t capacity = o->logit_bias.n + 1;
    for (int32_t id = 0; o->ignore_eos && id < n_vocab; id++) {
        capacity += lk_tokenizer_is_end(r->tokenizer, id) != 0;
    }
    lk_logit_bias *biases = malloc(capacity * sizeof biases[0]);
    *n = 0;
    for (size_t i = 0; biases != NULL && i < o->logit_bias.n; i++) {
        if (!parse_bias(o->logit_bias.items[i], n_vocab, &biases[(*n)++])) {
            (void)lk_console_error("run",
                                   "--logit-bias needs ID=NUMBER with an id from 0 to %d and a "
                                   "number from -1e30 to 1e30 or -inf, not '%s'",
                                   n_vocab - 1, o->logit_bias.items[i]);
            free(biases);
            return NULL;
        }
    }
    for (int32_t id = 0; biases != NULL && o->ignore_eos && id < n_vocab; id++) {
        if (lk_tokenizer_is_end(r->tokenizer, id)) {
            biases[(*n)++] = (lk_logit_bias){id, -INFINITY};
        }
    }
    return biases;
}

static bool choose_seed(run *r) {
    r->seed = r->options->seed;
    if (!r->options->has_seed &&
        getrandom(&r->seed, sizeof r->seed, 0) != (ssize_t)sizeof r->seed) {
        (void)lk_console_error("run", "no random seed: %s; give one with --seed", strerror(errno));
        return false;
    }
    return true;
}

static bool create_sampler(run *r) {
    const run_options *o = r->options;
    lk_error err;
    lk_sampler_params params = LK_SAMPLER_PARAMS_INIT;
    lk_logit_bias *biases = make_biases(r, &params.n_logit_bias);
    if (biases == NULL) {
        return false;
    }
    params.seed = r->seed;
    params.temperature = (float)o->temperature;
    params.top_k = (int32_t)o->top_k;
    params.top_p = (float)o->top_p;
    params.min_p = (float)o->min_p;
    params.typical_p = (float)o->typical_p;
    params.repeat_penalty = (float)o->repeat_penalty;
    params.presence_penalty = (float)o->presence_penalty;
    params.frequency_penalty = (float)o->frequency_penalty;
    params.penalty_last_n = (int32_t)o->penalty_last_n;
    params.logit_bias = biases;
    const lk_status status = lk_sampler_create(&params, r->info.n_vocab, &r->sampler, &err);
    free(biases);
    return status == LK_OK || lk_console_failed("run", &err) == 0;
}

bool run_prepare(run *r) {
    const run_options *o = r->options;
    lk_error err;
    if (!choose_seed(r) || !create_sampler(r)) {
        return false;
    }
    int64_t n_positions = r->n_ctx;
    if (o->n_predict >= 0 && (int64_t)r->n_prompt + o->n_predict < n_positions) {
        n_positions = (int64_t)r->n_prompt + o->n_predict;
    }
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = (uint32_t)o->n_threads;
    params.kv_positions = n_positions;
    params.max_logits = 1;
    params.k_type = o->k_type;
    params.device = (uint32_t)o->device;
    params.v_type = o->v_type;
    if (lk_context_create(r->model, &params, &r->context, &err) != LK_OK) {
        return lk_console_failed("run", &err) == 0;
    }
    return true;
}

/* ---- output ---- */

/* Text from a model must not move the cursor: control characters but line ends and tabs are shown
 * as U+FFFD on a terminal. */
static void print_text(const char *text, size_t n, bool is_terminal) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool is_c1 = c == 0xc2 && i + 1 < n && (unsigned char)text[i + 1] < 0xa0;
        const bool is_control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || is_c1;
        if (is_terminal && is_control) {
            (void)fputs("\xef\xbf\xbd", stdout);
            i += is_c1;
        } else {
            (void)putchar(c);
        }
    }
    (void)fflush(stdout);
}

static bool wants_table(const run_options *o) {
    return o->ids || o->digests;
}

/* Sends out what has been added to the text since *n_done. */
static void print_new_text(const run *r, size_t *n_done) {
    if (r->text.n > *n_done && !r->options->json && !wants_table(r->options)) {
        print_text(r->text.data + *n_done, r->text.n - *n_done, isatty(STDOUT_FILENO) == 1);
    }
    *n_done = r->text.n;
}

static void print_row(const run *r, const char *bytes, size_t n) {
    const run_options *o = r->options;
    char hex[33];
    if (o->json || !wants_table(o)) {
        return;
    }
    if (o->ids) {
        (void)printf("%d\t", r->ids[r->n_ids - 1]);
    }
    if (o->digests) {
        lk_hex(r->digests[r->n_ids - 1], 16, hex);
        (void)printf("%s\t", hex);
    }
    (void)putchar('"');
    (void)lk_print_escaped(stdout, bytes, n, n);
    (void)fputs("\"\n", stdout);
    (void)fflush(stdout);
}

/* ---- the loop ---- */

/* Rows of the prompt that are decoded in one call. */
enum { PIECE = 256 };

/* Computes the prompt in pieces, so that there is progress to show. */
static bool decode_prompt(run *r) {
    lk_row rows[PIECE];
    lk_error err;
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    for (size_t i = 0; i < r->n_prompt;) {
        size_t n = 0;
        for (; n < PIECE && i < r->n_prompt; n++, i++) {
            const bool is_last = i + 1 == r->n_prompt;
            rows[n] = (lk_row){r->prompt[i], 0, (int64_t)i, is_last ? LK_ROW_LOGITS : 0, 0};
        }
        const float *const *embeddings = r->embeddings != NULL ? r->embeddings + (i - n) : NULL;
        const lk_status status =
            lk_context_decode_embeddings(r->context, rows, embeddings, n, NULL, &err);
        if (status == LK_E_CANCELLED) {
            r->stop = RUN_STOP_CANCELLED;
            break;
        }
        if (status != LK_OK) {
            lk_progress_bar_clear(&bar);
            return lk_console_failed("run", &err) == 0;
        }
        r->n_prompt_done = i;
        if (r->n_prompt > PIECE) {
            (void)lk_progress_bar_draw(&bar, "prompt", i, r->n_prompt);
        }
    }
    lk_progress_bar_clear(&bar);
    for (size_t i = 0; i < r->n_prompt; i++) {
        if (lk_sampler_accept(r->sampler, r->prompt[i], &err) != LK_OK) {
            return lk_console_failed("run", &err) == 0;
        }
    }
    if (r->grammar != NULL &&
        lk_sampler_set_grammar(r->sampler, r->grammar, r->trie, &err) != LK_OK) {
        return lk_console_failed("run", &err) == 0;
    }
    return true;
}

static bool keep_id(run *r, int32_t id, const float *logits) {
    if (r->n_ids == r->capacity) {
        const size_t wanted = 2 * r->capacity + 256;
        int32_t *ids = realloc(r->ids, wanted * sizeof ids[0]);
        uint8_t(*digests)[16] = NULL;
        r->ids = ids != NULL ? ids : r->ids;
        if (ids != NULL && r->options->digests) {
            digests = realloc(r->digests, wanted * sizeof digests[0]);
            r->digests = digests != NULL ? digests : r->digests;
        }
        if (ids == NULL || (r->options->digests && digests == NULL)) {
            (void)lk_console_error("run", "out of memory for %zu tokens", wanted);
            return false;
        }
        r->capacity = wanted;
    }
    r->ids[r->n_ids] = id;
    if (r->options->digests) {
        lk_logits_digest(logits, (size_t)r->info.n_vocab, r->digests[r->n_ids]);
    }
    r->n_ids++;
    return true;
}

/* Adds the bytes of the last token to the text. */
static bool write_token(run *r, size_t *n_done) {
    const int32_t id = r->ids[r->n_ids - 1];
    const uint32_t flags = r->options->special ? LK_DETOKENIZE_SPECIAL : 0;
    char small[256];
    char *bytes = small;
    size_t n = 0;
    lk_error err;
    lk_status status =
        lk_tokenizer_token_bytes(r->tokenizer, id, flags, small, sizeof small, &n, &err);
    if (status == LK_E_LIMIT && n > sizeof small && (bytes = malloc(n)) != NULL) {
        status = lk_tokenizer_token_bytes(r->tokenizer, id, flags, bytes, n, &n, &err);
    }
    bool ok = status == LK_OK;
    if (!ok) {
        (void)lk_console_failed("run", &err);
    } else if (!lk_text_stream_push(&r->stream, bytes, n, &r->text)) {
        ok = false;
        (void)lk_console_error("run", "out of memory for the text");
    } else {
        print_row(r, bytes, n);
        print_new_text(r, n_done);
    }
    if (bytes != small) {
        free(bytes);
    }
    return ok;
}

/* Samples the token that follows position `pos`. False: an error was printed. */
static bool sample_token(run *r, size_t i_row, int64_t pos, size_t *n_done) {
    lk_error err;
    const float *logits = NULL;
    lk_sample sample;
    if (lk_context_logits(r->context, i_row, &logits, &err) != LK_OK ||
        lk_sampler_sample(r->sampler, logits, pos, &sample, &err) != LK_OK ||
        lk_sampler_accept(r->sampler, sample.token, &err) != LK_OK) {
        return lk_console_failed("run", &err) == 0;
    }
    return keep_id(r, sample.token, logits) && write_token(r, n_done);
}

/* Whether the run ends after the last token; sets r->stop. */
static bool is_over(run *r, int64_t next_pos) {
    const run_options *o = r->options;
    if (lk_tokenizer_is_end(r->tokenizer, r->ids[r->n_ids - 1]) ||
        lk_sampler_grammar_progress(r->sampler) == LK_GRAMMAR_COMPLETE) {
        r->stop = RUN_STOP_END;
    } else if (r->stream.is_stopped) {
        r->stop = RUN_STOP_TEXT;
    } else if (lk_console_interrupt_status() != 0) {
        r->stop = RUN_STOP_CANCELLED;
    } else if (o->n_predict >= 0 && (int64_t)r->n_ids >= o->n_predict) {
        r->stop = RUN_STOP_LENGTH;
    } else if (next_pos >= r->n_ctx) {
        r->stop = RUN_STOP_CONTEXT;
    } else {
        return false;
    }
    return true;
}

static bool generate(run *r, size_t *n_done) {
    lk_error err;
    int64_t pos = (int64_t)r->n_prompt - 1;
    size_t i_row = (r->n_prompt - 1) % PIECE; /* the last row of the last piece */
    for (;; pos++, i_row = 0) {
        if (!sample_token(r, i_row, pos, n_done)) {
            return false;
        }
        if (ferror(stdout)) {
            return false; /* nobody reads on; the end of the command says why */
        }
        if (is_over(r, pos + 1)) {
            return true;
        }
        const lk_row row = {r->ids[r->n_ids - 1], 0, pos + 1, LK_ROW_LOGITS, 0};
        const lk_status status = lk_context_decode(r->context, &row, 1, NULL, &err);
        if (status == LK_E_CANCELLED) {
            r->stop = RUN_STOP_CANCELLED;
            return true;
        }
        if (status != LK_OK) {
            return lk_console_failed("run", &err) == 0;
        }
    }
}

bool run_generate(run *r) {
    size_t n_done = 0;
    interrupted_context = r->context;
    lk_console_catch_interrupt(on_interrupt);
    if (r->options->echo && !r->options->json && !wants_table(r->options)) {
        print_text(r->prompt_text, r->n_prompt_text, isatty(STDOUT_FILENO) == 1);
    }
    r->stop = RUN_STOP_LENGTH;
    const double start = lk_console_seconds();
    bool ok = decode_prompt(r);
    const double middle = lk_console_seconds();
    r->prompt_seconds = middle - start;
    if (ok && r->stop != RUN_STOP_CANCELLED && r->options->n_predict != 0) {
        ok = generate(r, &n_done);
    }
    r->generate_seconds = lk_console_seconds() - middle;
    if (ok && !lk_text_stream_finish(&r->stream, &r->text)) {
        (void)lk_console_error("run", "out of memory for the text");
        ok = false;
    }
    if (ok) {
        print_new_text(r, &n_done);
        if (!r->options->json && !wants_table(r->options)) {
            (void)putchar('\n');
        }
    }
    interrupted_context = NULL;
    return ok;
}
