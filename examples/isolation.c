/* isolation.c - shows, with nothing but the public API, that sequences do not influence one
 * another.
 *
 * A sequence is generated greedily alone: on one thread, with the scalar reference, its prompt in
 * one piece. Then it is generated again while another sequence joins in the middle, with its prompt
 * cut, on several threads, with each instruction set; every row of logits must have the same
 * digest.
 *
 *     isolation MODEL.gguf [TOKENS]
 * Exit status: 0 all equal, 1 differences, 2 could not run. */
#include <lk/lk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, MAX_PROMPT = 256 };

typedef struct trace {
    int32_t tokens[MAX_TOKENS];
    uint8_t digests[MAX_TOKENS][16];
} trace;

typedef struct variant {
    const char *label;
    int32_t join_at; /* step at which the second sequence joins; -1: never */
    int32_t cut;     /* rows of the prompt per call */
    uint32_t n_threads;
    uint32_t isa_mask;
} variant;

typedef struct experiment {
    lk_model *model;
    int32_t n_vocab;
    int32_t prompts[2][MAX_PROMPT];
    size_t n_prompt[2];
    int32_t n_tokens;
} experiment;

static _Noreturn void stop(const lk_error *err) {
    (void)fprintf(stderr, "isolation: %s\n", err->message);
    exit(2);
}

/* Takes the logits of row i_row: their digest, and the largest as the next token. */
static int32_t take(const experiment *e, lk_context *context, size_t i_row, uint8_t digest[16]) {
    lk_error err;
    const float *logits = NULL;
    if (lk_context_logits(context, i_row, &logits, &err) != LK_OK) {
        stop(&err);
    }
    if (digest != NULL) {
        lk_logits_digest(logits, (size_t)e->n_vocab, digest);
    }
    int32_t best = 0;
    for (int32_t i = 1; i < e->n_vocab; i++) {
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    return best;
}

/* Decodes the prompt of sequence 0 in pieces of `cut` rows and returns its first token. */
static int32_t start(const experiment *e, lk_context *context, int32_t cut, uint8_t digest[16]) {
    lk_error err;
    lk_row rows[MAX_PROMPT];
    const size_t n = e->n_prompt[0];
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i += n_rows) {
        n_rows = n - i < (size_t)cut ? n - i : (size_t)cut;
        for (size_t k = 0; k < n_rows; k++) {
            rows[k] = (lk_row){e->prompts[0][i + k], 0, (int64_t)(i + k),
                               i + k + 1 == n ? (uint32_t)LK_ROW_LOGITS : 0u, 0};
        }
        if (lk_context_decode(context, rows, n_rows, NULL, &err) != LK_OK) {
            stop(&err);
        }
    }
    return take(e, context, n_rows - 1, digest);
}

static void generate(const experiment *e, const variant *v, trace *out) {
    lk_error err;
    lk_context *context = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = v->n_threads;
    params.isa_mask = v->isa_mask;
    params.kv_positions = 2 * (MAX_PROMPT + MAX_TOKENS);
    params.n_sequences = 2;
    if (lk_context_create(e->model, &params, &context, &err) != LK_OK) {
        stop(&err);
    }
    int32_t other = -1;
    int64_t other_pos = 0;
    out->tokens[0] = start(e, context, v->cut, out->digests[0]);
    for (int32_t i = 1; i < e->n_tokens; i++) {
        lk_row rows[MAX_PROMPT + 1];
        size_t n_rows = 0;
        const int64_t pos = (int64_t)e->n_prompt[0] + i - 1;
        rows[n_rows++] = (lk_row){out->tokens[i - 1], 0, pos, LK_ROW_LOGITS, 0};
        if (i == v->join_at) { /* the whole prompt of sequence 1 joins this batch */
            for (size_t k = 0; k < e->n_prompt[1]; k++) {
                rows[n_rows++] =
                    (lk_row){e->prompts[1][k], 1, (int64_t)k,
                             k + 1 == e->n_prompt[1] ? (uint32_t)LK_ROW_LOGITS : 0u, 0};
            }
            other_pos = (int64_t)e->n_prompt[1];
        } else if (other >= 0) {
            rows[n_rows++] = (lk_row){other, 1, other_pos++, LK_ROW_LOGITS, 0};
        }
        if (lk_context_decode(context, rows, n_rows, NULL, &err) != LK_OK) {
            stop(&err);
        }
        out->tokens[i] = take(e, context, 0, out->digests[i]);
        if (n_rows > 1) {
            other = take(e, context, n_rows - 1, NULL);
        }
    }
    lk_context_destroy(context);
}

static void tokenize(experiment *e, int which, const char *text) {
    lk_error err;
    const lk_tokenizer *tokenizer = lk_model_tokenizer(e->model);
    if (tokenizer == NULL) {
        (void)fprintf(stderr, "isolation: the model has no tokenizer\n");
        exit(2);
    }
    if (lk_tokenizer_encode(tokenizer, text, strlen(text),
                            LK_TOKENIZE_ADD_SPECIAL | LK_TOKENIZE_PARSE_SPECIAL, e->prompts[which],
                            MAX_PROMPT, &e->n_prompt[which], &err) != LK_OK) {
        stop(&err);
    }
}

int main(int argc, char **argv) {
    static const variant alone = {"alone, 1 thread, scalar", -1, MAX_PROMPT, 1, 0};
    static const variant variants[] = {
        {"alone, all threads, fastest kernels", -1, MAX_PROMPT, 0, LK_CPU_ALL},
        {"a prompt joins at token 1", 1, MAX_PROMPT, 0, LK_CPU_ALL},
        {"a prompt joins at token 5", 5, MAX_PROMPT, 0, LK_CPU_ALL},
        {"a prompt joins at token 40", 40, MAX_PROMPT, 0, LK_CPU_ALL},
        {"joins at 5, own prompt one row at a time", 5, 1, 2, LK_CPU_ALL},
        {"joins at 5, own prompt cut into sevens", 5, 7, 3, LK_CPU_ALL},
        {"joins at 5, AVX2 kernels", 5, 32, 2, LK_CPU_AVX2},
        {"joins at 5, scalar reference, 2 threads", 5, 32, 2, 0},
    };
    lk_error err;
    experiment e = {0};
    if (argc < 2) {
        (void)fprintf(stderr, "usage: isolation MODEL.gguf [TOKENS]\n");
        return 2;
    }
    e.n_tokens = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 64;
    if (e.n_tokens < 2 || e.n_tokens > MAX_TOKENS) {
        (void)fprintf(stderr, "isolation: TOKENS is 2 .. %d\n", MAX_TOKENS);
        return 2;
    }
    if (lk_model_open(argv[1], NULL, &e.model, &err) != LK_OK) {
        stop(&err);
    }
    lk_model_info info = LK_MODEL_INFO_INIT;
    if (lk_model_get_info(e.model, &info, &err) != LK_OK) {
        stop(&err);
    }
    e.n_vocab = info.n_vocab;
    tokenize(&e, 0, "Once upon a time, there was a little boy named Tom. He had a dog, and");
    tokenize(&e, 1,
             "The sun was low over the hills when the old man came to the river, took off his "
             "shoes and said:");
    static trace expected;
    static trace found;
    (void)printf("%-44s %6s  %s\n", "sequence 0", "rows", "logits");
    generate(&e, &alone, &expected);
    (void)printf("%-44s %6d  reference\n", alone.label, e.n_tokens);
    int n_different = 0;
    for (size_t k = 0; k < sizeof variants / sizeof variants[0]; k++) {
        generate(&e, &variants[k], &found);
        int32_t n_equal = 0;
        while (n_equal < e.n_tokens &&
               memcmp(found.digests[n_equal], expected.digests[n_equal], 16) == 0) {
            n_equal++;
        }
        if (n_equal == e.n_tokens) {
            (void)printf("%-44s %6d  equal, bit for bit\n", variants[k].label, e.n_tokens);
        } else {
            (void)printf("%-44s %6d  DIFFERENT from row %d on\n", variants[k].label, e.n_tokens,
                         (int)n_equal);
            n_different++;
        }
        (void)fflush(stdout);
    }
    lk_model_close(e.model);
    (void)printf(
        "%s\n",
        n_different == 0
            ? "The other sequence, the cut, the threads and the instruction set left no trace."
            : "Sequences influenced one another: please report this.");
    return n_different == 0 ? 0 : 1;
}
