/* generate.c - the smallest whole program over the public API: loads a model, continues a text.
 *
 *     generate MODEL.gguf "Once upon a time" */
#include <lk/lk.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PROMPT = 512, N_TOKENS = 64 };

static int stop(const lk_error *err) {
    (void)fprintf(stderr, "generate: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv) {
    lk_error err;
    lk_model *model = NULL;
    lk_context *context = NULL;
    lk_sampler *sampler = NULL;
    if (argc != 3) {
        (void)fprintf(stderr, "usage: generate MODEL.gguf TEXT\n");
        return 2;
    }
    lk_context_params context_params = LK_CONTEXT_PARAMS_INIT;
    lk_sampler_params sampler_params = LK_SAMPLER_PARAMS_INIT;
    sampler_params.seed = 1;
    lk_model_info info = LK_MODEL_INFO_INIT;
    if (lk_model_open(argv[1], NULL, &model, &err) != LK_OK ||
        lk_model_get_info(model, &info, &err) != LK_OK ||
        lk_context_create(model, &context_params, &context, &err) != LK_OK ||
        lk_sampler_create(&sampler_params, info.n_vocab, &sampler, &err) != LK_OK) {
        return stop(&err);
    }
    const lk_tokenizer *tokenizer = lk_model_tokenizer(model);
    int32_t ids[MAX_PROMPT];
    size_t n = 0;
    if (tokenizer == NULL ||
        lk_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), LK_TOKENIZE_ADD_SPECIAL, ids,
                            MAX_PROMPT, &n, &err) != LK_OK) {
        return stop(&err);
    }
    lk_row rows[MAX_PROMPT];
    for (size_t i = 0; i < n; i++) {
        rows[i] = (lk_row){ids[i], 0, (int64_t)i, i + 1 == n ? (uint32_t)LK_ROW_LOGITS : 0u, 0};
    }
    int64_t pos = (int64_t)n - 1; /* of the row whose logits come next */
    size_t n_rows = n;
    lk_utf8_stream text = {{0}, 0};
    for (int i = 0; i < N_TOKENS; i++) {
        const float *logits = NULL;
        lk_sample sample;
        char piece[256];
        char shown[1024];
        size_t n_piece = 0;
        size_t n_shown = 0;
        if (lk_context_decode(context, rows, n_rows, NULL, &err) != LK_OK ||
            lk_context_logits(context, n_rows - 1, &logits, &err) != LK_OK ||
            lk_sampler_sample(sampler, logits, pos, &sample, &err) != LK_OK) {
            return stop(&err);
        }
        if (lk_tokenizer_is_end(tokenizer, sample.token)) {
            break;
        }
        if (lk_tokenizer_token_bytes(tokenizer, sample.token, 0, piece, sizeof piece, &n_piece,
                                     &err) != LK_OK ||
            lk_utf8_stream_push(&text, piece, n_piece, shown, sizeof shown, &n_shown, &err) !=
                LK_OK) {
            return stop(&err);
        }
        (void)fwrite(shown, 1, n_shown, stdout);
        (void)fflush(stdout);
        pos++;
        rows[0] = (lk_row){sample.token, 0, pos, LK_ROW_LOGITS, 0};
        n_rows = 1;
    }
    (void)printf("\n");
    lk_sampler_destroy(sampler);
    lk_context_destroy(context);
    lk_model_close(model);
    return 0;
}
