/* verify_compare.c - an output against the solo run of its stream. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

/* Largest difference of log probabilities that other orders of the same sums explain. Measured with
 * one engine's own kernels for 4-bit weights and 8-bit activations, whose rounding an earlier
 * difference of the last bit can tip over: 0.2 (docs/peer-audit.md). A wrong row gives whole
 * numbers. */
static const double noise_logprob = 0.25;

static void measure(verify_trace *t, const verify_output *o) {
    int32_t run = 0;
    for (int32_t i = 0; i < o->n_tokens; i++) {
        run = i > 0 && o->ids[i] == o->ids[i - 1] ? run + 1 : 1;
        t->maxrun = run > t->maxrun ? run : t->maxrun;
        int32_t k = 0;
        while (k < i && o->ids[k] != o->ids[i]) {
            k++;
        }
        t->distinct += k == i;
    }
}

static void compare_tokens(verify_trace *t, const verify_output *solo, const verify_output *o) {
    t->first_div = t->n;
    t->logprob_gap = (double)NAN;
    for (int32_t i = 0; i < t->n; i++) {
        const bool is_there = i < o->n_tokens;
        const bool same =
            is_there == (i < solo->n_tokens) && (!is_there || o->ids[i] == solo->ids[i]);
        t->marks[i] = is_there ? VERIFY_MARK_EQUAL : VERIFY_MARK_NONE;
        if (!same) {
            t->marks[i] = is_there ? VERIFY_MARK_TOKEN : VERIFY_MARK_NONE;
            t->first_div = i < t->first_div ? i : t->first_div;
        }
        if (same && is_there && i < t->first_div) {
            const double gap = fabs((double)o->logprobs[i] - (double)solo->logprobs[i]);
            if (!isnan(gap) && !(gap <= t->logprob_gap)) {
                t->logprob_gap = gap;
            }
        }
    }
}

static void compare_bits(verify_trace *t, const verify_stream *stream, const verify_output *solo,
                         const verify_output *o) {
    const size_t n = o->n_rows < solo->n_rows ? o->n_rows : solo->n_rows;
    for (size_t pos = 0; pos < n; pos++) {
        const verify_row *a = &solo->rows[pos];
        const verify_row *b = &o->rows[pos];
        if (!a->has_digest || !b->has_digest) {
            continue;
        }
        t->has_bits = true;
        /* After another token the rows are of another text. */
        if ((int64_t)pos - (int64_t)stream->n_prompt >= t->first_div) {
            break;
        }
        if (memcmp(a->digest, b->digest, sizeof a->digest) == 0) {
            continue;
        }
        if (t->first_bit_pos < 0) {
            t->first_bit_pos = (int64_t)pos;
            t->i_step = b->i_step;
            t->i_row = b->i_row;
        }
        const size_t i = pos + 1 - stream->n_prompt;
        if (pos + 1 >= stream->n_prompt && i < (size_t)t->n && t->marks[i] == VERIFY_MARK_EQUAL) {
            t->marks[i] = VERIFY_MARK_BITS;
        }
    }
}

/* The code word of another stream in this one's text, or NULL. */
static const char *foreign_word(const verify *v, const verify_stream *stream,
                                const verify_output *solo, const verify_output *o) {
    for (int64_t i = 0; o->text != NULL && i < VERIFY_N_PROMPTS; i++) {
        verify_stream other;
        verify_prompt(v, i, &other);
        if (stream->code_word != NULL && strcmp(other.code_word, stream->code_word) != 0 &&
            strstr(o->text, other.code_word) != NULL &&
            (solo->text == NULL || strstr(solo->text, other.code_word) == NULL)) {
            return other.code_word;
        }
    }
    return NULL;
}

/* A loop of a few tokens that the solo run has not. */
static bool is_degenerate(const verify_trace *t, const verify_output *solo) {
    verify_trace alone = {.n = t->n};
    measure(&alone, solo);
    return t->n_tokens >= 16 && ((t->maxrun >= 12 && t->maxrun > 3 * alone.maxrun) ||
                                 (t->distinct <= 7 && alone.distinct > 3 * t->distinct));
}

/* The first stage of its recording that is not as it was alone; NULL: none. */
static const char *other_stage(const verify_output *solo, const verify_output *o) {
    const int32_t n = o->n_stages < solo->n_stages ? o->n_stages : solo->n_stages;
    for (int32_t i = 0; i < n; i++) {
        if (memcmp(o->stages[i].digest, solo->stages[i].digest, sizeof o->stages[i].digest) != 0) {
            return o->stages[i].name;
        }
    }
    return NULL;
}

/* Of a recording: where on its way from samples to logits the first difference is. */
static void note_stage(const verify_output *solo, const verify_output *o, verify_trace *t) {
    const char *stage = other_stage(solo, o);
    if (stage != NULL) {
        t->verdict = VERDICT_DIFFERENT;
        (void)snprintf(t->detail, sizeof t->detail, "the first stage that differs is '%s'", stage);
    } else if (o->n_stages > 0 && t->verdict == VERDICT_DIFFERENT && t->detail[0] == '\0') {
        (void)snprintf(t->detail, sizeof t->detail,
                       "all stages of the encoder are equal: the first difference is in the "
                       "logits");
    }
}

/* A difference of tokens or bits, where the target promises none or where float noise would be a
 * sufficient reason. */
static void judge(const verify *v, const verify_stream *stream, const verify_output *solo,
                  const verify_output *o, verify_trace *t) {
    const char *word = foreign_word(v, stream, solo, o);
    const bool tokens_differ = t->first_div < t->n;
    if (!tokens_differ && t->first_bit_pos < 0 && !(t->logprob_gap > 0)) {
        return;
    }
    t->verdict = VERDICT_DIFFERENT;
    if (word != NULL) {
        (void)snprintf(t->detail, sizeof t->detail, "holds '%s', the code word of another prompt",
                       word);
    } else if (tokens_differ && o->n_tokens == 0) {
        (void)snprintf(t->detail, sizeof t->detail, "gave no token");
    } else if (tokens_differ && is_degenerate(t, solo)) {
        (void)snprintf(t->detail, sizeof t->detail,
                       "fell into a loop: %d different tokens, one %d times in a row", t->distinct,
                       t->maxrun);
    } else if (!v->target->is_exact && (t->first_div > 0 || !tokens_differ) &&
               t->logprob_gap <= noise_logprob) {
        t->verdict = VERDICT_NOISE;
        (void)snprintf(t->detail, sizeof t->detail,
                       "log probabilities differ by %.2g at most before that: float noise",
                       t->logprob_gap);
    }
}

static void note_failures(const verify_output *o, verify_trace *t) {
    if (o->failure[0] != '\0') {
        t->verdict = VERDICT_ERROR;
        (void)snprintf(t->detail, sizeof t->detail, "%.240s", o->failure);
    } else if (o->nonfinite >= 0) {
        t->verdict = VERDICT_DIFFERENT;
        (void)snprintf(t->detail, sizeof t->detail,
                       "logits of position %lld hold Inf or NaN, and the call reported success",
                       (long long)o->nonfinite);
    } else if (o->refused[0] != '\0') {
        t->verdict = VERDICT_ERROR;
        (void)snprintf(t->detail, sizeof t->detail, "refused as not finite: layer %d, %s",
                       o->refused_layer, o->refused);
    } else if (o->conflict >= 0) {
        t->verdict = VERDICT_DIFFERENT;
        (void)snprintf(t->detail, sizeof t->detail,
                       "position %lld, computed twice, was another the second time",
                       (long long)o->conflict);
    }
}

bool verify_compare(const verify *v, const verify_stream *stream, const verify_output *solo,
                    const verify_output *output, verify_trace *t) {
    const int32_t n = output->is_cut_off ? output->n_tokens : stream->n;
    char name[sizeof t->name];
    (void)snprintf(name, sizeof name, "%s", t->name);
    *t = (verify_trace){.n = n,
                        .n_tokens = output->n_tokens,
                        .first_bit_pos = -1,
                        .i_step = -1,
                        .i_row = -1,
                        .verdict = VERDICT_EQUAL};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    t->marks = calloc((size_t)n + 1, 1);
    if (t->marks == NULL) {
        return false;
    }
    measure(t, output);
    compare_tokens(t, solo, output);
    compare_bits(t, stream, solo, output);
    judge(v, stream, solo, output, t);
    note_stage(solo, output, t);
    note_failures(output, t);
    return true;
}
