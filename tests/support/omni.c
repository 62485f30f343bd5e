/* omni.c - see omni.h. Exits the program on an error. */
#include "omni.h"

#include "lk_test.h"

int omni_has_all(void) {
    const char *path = lk_test_shared("models/omni/mmproj-tiny-omni-F16.gguf");
    FILE *file = path != NULL ? fopen(path, "rb") : NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL;
}

const char *omni_file(const char *name) {
    char full[256];
    (void)snprintf(full, sizeof full, omni_has_all() ? "models/omni/%s" : "omni/%s", name);
    const char *path = omni_has_all() ? lk_test_shared(full) : lk_test_data(full);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    (void)fclose(file);
    return path;
}

void omni_clip_free(omni_clip *clip) {
    free(clip->embeddings);
    *clip = (omni_clip){NULL, 0, 0};
}

omni_clip omni_encode(lk_encoder *encoder, const lk_projector *projector, const float *features,
                      uint64_t n_frames, uint8_t (*digests)[16]) {
    lk_error err;
    lk_projector_info info = LK_PROJECTOR_INFO_INIT;
    REQUIRE_OK(lk_projector_get_info(projector, &info, &err), err);
    omni_clip clip = {.n_tokens = (size_t)lk_projector_n_tokens(projector, n_frames),
                      .width = (size_t)info.n_out};
    const size_t n = clip.n_tokens * clip.width;
    clip.embeddings = malloc((n + 1) * sizeof clip.embeddings[0]);
    if (clip.embeddings == NULL) {
        exit(1);
    }
    lk_encode_params params = LK_ENCODE_PARAMS_INIT;
    params.digests = digests;
    REQUIRE_OK(lk_encoder_encode(encoder, features, n_frames, clip.embeddings, n, &params, &err),
               err);
    return clip;
}

omni_clip omni_encode_wav(lk_encoder *encoder, const lk_projector *projector, const char *path,
                          uint8_t (*digests)[16]) {
    lk_error err;
    lk_audio *audio = NULL;
    size_t n_bytes = 0;
    uint8_t *bytes = lk_test_read(path, &n_bytes);
    REQUIRE_OK(lk_audio_decode_wav(bytes, n_bytes, NULL, NULL, &audio, &err), err);
    free(bytes);
    const uint64_t n_frames = lk_audio_n_frames(audio);
    const size_t n = (size_t)n_frames * 128;
    float *features = malloc(n * sizeof features[0]);
    if (features == NULL) {
        exit(1);
    }
    REQUIRE_OK(lk_audio_features(audio, 128, features, n, &err), err);
    const omni_clip clip = omni_encode(encoder, projector, features, n_frames, digests);
    free(features);
    lk_audio_destroy(audio);
    return clip;
}

/* Appends the ids of a text. */
static size_t add_text(const lk_tokenizer *tokenizer, const char *text, int32_t *ids, size_t n) {
    lk_error err;
    size_t n_new = 0;
    REQUIRE_OK(lk_tokenizer_encode(tokenizer, text, strlen(text), LK_TOKENIZE_PARSE_SPECIAL,
                                   ids + n, OMNI_MAX_PROMPT - n, &n_new, &err),
               err);
    return n + n_new;
}

size_t omni_prompt(const lk_tokenizer *tokenizer, const omni_clip *clip, int32_t *ids,
                   const float **embeddings) {
    size_t n = add_text(tokenizer,
                        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
                        "<|im_start|>user\n<|audio_bos|>",
                        ids, 0);
    const size_t first = n;
    memset(embeddings, 0, OMNI_MAX_PROMPT * sizeof embeddings[0]);
    for (size_t i = 0; i < clip->n_tokens && n + 64 < OMNI_MAX_PROMPT; i++) {
        embeddings[n] = clip->embeddings + i * clip->width;
        n = add_text(tokenizer, "<|AUDIO|>", ids, n);
    }
    CHECK(n == first + clip->n_tokens);
    return add_text(tokenizer,
                    "<|audio_eos|>Transcribe the following audio.<|im_end|>\n"
                    "<|im_start|>assistant\n",
                    ids, n);
}

static int32_t largest(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

size_t omni_answer(lk_context *context, const int32_t *ids, const float *const *embeddings,
                   size_t n_ids, const lk_tokenizer *tokenizer, int32_t *answer, float *logits) {
    lk_error err;
    const float *row = NULL;
    const int32_t n_vocab = lk_tokenizer_n_vocab(tokenizer);
    static lk_row rows[OMNI_MAX_PROMPT];
    for (size_t i = 0; i < n_ids; i++) {
        rows[i] = (lk_row){ids[i], 0, (int64_t)i, i + 1 == n_ids ? LK_ROW_LOGITS : 0u, 0};
    }
    REQUIRE_OK(lk_sequence_clear(context, 0, &err), err);
    REQUIRE_OK(lk_context_decode_embeddings(context, rows, embeddings, n_ids, NULL, &err), err);
    REQUIRE_OK(lk_context_logits(context, n_ids - 1, &row, &err), err);
    if (logits != NULL) {
        memcpy(logits, row, (size_t)n_vocab * sizeof row[0]);
    }
    for (size_t n = 0;;) {
        answer[n++] = largest(row, n_vocab);
        if (n == OMNI_MAX_ANSWER || lk_tokenizer_is_end(tokenizer, answer[n - 1])) {
            return n;
        }
        const lk_row next = {answer[n - 1], 0, (int64_t)(n_ids + n - 1), LK_ROW_LOGITS, 0};
        REQUIRE_OK(lk_context_decode(context, &next, 1, NULL, &err), err);
        REQUIRE_OK(lk_context_logits(context, 0, &row, &err), err);
    }
}
