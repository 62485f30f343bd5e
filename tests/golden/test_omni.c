/* test_omni.c - from features and from WAV files to words, against Hugging Face transformers: each
 * stage of the encoder, the embeddings, the logits behind them, the greedy ids, and how many words
 * are wrong. With the shared references: F16 weights within 1e-4 in the float32-activation mode and
 * 1e-3 by the real rules, five clips; all 32 clips and every pair of formats with LK_FULL. In a
 * clone alone: Q8_0 and Q4_K_M, two clips, wider bounds. */
#include <jansson.h>

#include "engine/encoder.h"
#include "golden.h"
#include "lk_test.h"
#include "omni.h"

enum { N_VOCAB = 4096, N_MELS = 128, MAX_STAGES = 16 };

typedef struct pair {
    lk_projector *projector;
    lk_encoder *encoder;
    lk_model *model;
    lk_context *context;
} pair;

static pair open_pair(const char *projector, const char *model, bool f32_activations) {
    lk_error err;
    pair p = {NULL, NULL, NULL, NULL};
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    params.n_threads = 2;
    params.flags = f32_activations ? LK_CONTEXT_F32_ACTIVATIONS : 0;
    REQUIRE_OK(lk_projector_open(omni_file(projector), NULL, &p.projector, &err), err);
    REQUIRE_OK(lk_encoder_create(p.projector, &params, &p.encoder, &err), err);
    p.model = golden_open(omni_file(model));
    const golden_setup setup = {.n_threads = 2,
                                .isa_mask = LK_CPU_ALL,
                                .k_type = LK_KV_F32,
                                .v_type = LK_KV_F32,
                                .flags = params.flags,
                                .max_rows = 128};
    p.context = golden_context(p.model, &setup, OMNI_MAX_PROMPT + OMNI_MAX_ANSWER);
    return p;
}

static void close_pair(pair *p) {
    lk_context_destroy(p->context);
    lk_model_close(p->model);
    lk_encoder_destroy(p->encoder);
    lk_projector_close(p->projector);
}

static json_t *load(const char *name) {
    json_t *root = json_load_file(omni_file(name), 0, NULL);
    if (root == NULL) {
        lk_test_fail(__FILE__, __LINE__, "cannot read %s", name);
        exit(1);
    }
    return root;
}

static float *read_floats(const char *clip, const char *what, size_t *n) {
    char name[64];
    (void)snprintf(name, sizeof name, "refs/%s.%s.f32", clip, what);
    if (omni_file(name) == NULL) {
        return NULL;
    }
    size_t size = 0;
    float *values = (float *)(void *)lk_test_read(omni_file(name), &size);
    *n = size / sizeof values[0];
    return values;
}

/* ---- stages ---- */

/* The stages of the clip at hand: all rows so far. */
typedef struct seen {
    float *values[MAX_STAGES];
    size_t n[MAX_STAGES];
} seen;

static void keep(void *ctx, uint32_t stage, const float *values, uint32_t n_rows, uint32_t width) {
    seen *s = ctx;
    const size_t n = (size_t)n_rows * width;
    s->values[stage] = realloc(s->values[stage], (s->n[stage] + n) * sizeof values[0]);
    if (s->values[stage] == NULL) {
        exit(1);
    }
    memcpy(s->values[stage] + s->n[stage], values, n * sizeof values[0]);
    s->n[stage] += n;
}

static double compare(const char *clip, const char *what, const float *found, size_t n_found) {
    size_t n = 0;
    float *wanted = read_floats(clip, what, &n);
    if (wanted == NULL) {
        return 0.0; /* the small set has some of them */
    }
    CHECK_MSG(n == n_found, "%s.%s: %zu values, expected %zu", clip, what, n_found, n);
    const double error = n == n_found ? golden_relative_error(found, wanted, n) : 1.0;
    free(wanted);
    return error;
}

/* The worst stage of the encoder. */
static double compare_stages(const pair *p, const char *clip, const float *features,
                             uint64_t n_frames, const omni_clip *vectors) {
    lk_error err;
    seen s;
    memset(&s, 0, sizeof s);
    const lk_encode_params params = LK_ENCODE_PARAMS_INIT;
    REQUIRE_OK(lk_encoder_run(p->encoder, features, n_frames, vectors->embeddings, &params, keep,
                              &s, &err),
               err);
    double worst = compare(clip, "stem", s.values[0], s.n[0]);
    for (uint32_t i = 1; i < MAX_STAGES && s.values[i] != NULL; i++) {
        char what[16];
        (void)snprintf(what, sizeof what, "layer%u", i - 1);
        const double error = compare(clip, what, s.values[i], s.n[i]);
        worst = error > worst ? error : worst;
    }
    for (uint32_t i = 0; i < MAX_STAGES; i++) {
        free(s.values[i]);
    }
    return worst;
}

static bool same_ids(const json_t *wanted, const int32_t *ids, size_t n) {
    bool same = json_array_size(wanted) == n;
    for (size_t i = 0; same && i < n; i++) {
        same = json_integer_value(json_array_get(wanted, i)) == ids[i];
    }
    return same;
}

/* One clip of refs/index.json; `bound` for all stages and the logits. */
static void check_clip(const pair *p, const json_t *entry, double bound, bool same_answer) {
    const char *clip = json_string_value(json_object_get(entry, "clip"));
    size_t n = 0;
    float *mel = read_floats(clip, "mel", &n); /* [mel, frame] */
    const size_t n_frames = n / N_MELS;
    float *features = malloc(n * sizeof features[0]);
    if (mel == NULL || features == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        features[i % n_frames * N_MELS + i / n_frames] = mel[i];
    }
    static int32_t ids[OMNI_MAX_PROMPT];
    static const float *embeddings[OMNI_MAX_PROMPT];
    static float logits[N_VOCAB];
    int32_t answer[OMNI_MAX_ANSWER];
    omni_clip vectors = omni_encode(p->encoder, p->projector, features, n_frames, NULL);
    const double stages = compare_stages(p, clip, features, n_frames, &vectors);
    const double embd = compare(clip, "embd", vectors.embeddings, vectors.n_tokens * vectors.width);
    const lk_tokenizer *tokenizer = lk_model_tokenizer(p->model);
    const size_t n_ids = omni_prompt(tokenizer, &vectors, ids, embeddings);
    CHECK(same_ids(json_object_get(entry, "prompt_ids"), ids, n_ids));
    const size_t n_answer =
        omni_answer(p->context, ids, embeddings, n_ids, tokenizer, answer, logits);
    const double last = compare(clip, "logits", logits, N_VOCAB);
    const bool same = same_ids(json_object_get(entry, "greedy_ids"), answer, n_answer);
    (void)printf("  %s: encoder %.2g, embeddings %.2g, logits %.2g, ids %s\n", clip, stages, embd,
                 last, same ? "equal" : "differ");
    CHECK_MSG(stages <= bound && embd <= bound && last <= bound, "%s: bound %g", clip, bound);
    CHECK_MSG(same || !same_answer, "%s: another answer", clip);
    omni_clip_free(&vectors);
    free(features);
    free(mel);
}

static void check_clips(const char *projector, const char *model, bool f32_activations,
                        double bound, size_t n_most) {
    (void)printf("%s, %s, %s\n", projector, model, f32_activations ? "float32 activations" : "lk1");
    pair p = open_pair(projector, model, f32_activations);
    json_t *root = load("refs/index.json");
    const json_t *clips = json_object_get(root, "clips");
    for (size_t i = 0; i < json_array_size(clips) && i < n_most; i++) {
        check_clip(&p, json_array_get(clips, i), bound, true);
    }
    json_decref(root);
    close_pair(&p);
}

LK_TEST(stages) {
    if (!omni_has_all()) {
        check_clips("mmproj-tiny-omni-Q8_0.gguf", "tiny-omni-Q4_K_M.gguf", false, 0.15, 1);
        return;
    }
    const size_t n = (size_t)lk_test_size(1, 2, 5);
    check_clips("mmproj-tiny-omni-F16.gguf", "tiny-omni-F16.gguf", true, 1e-4, n);
    check_clips("mmproj-tiny-omni-F16.gguf", "tiny-omni-F16.gguf", false, 1e-3,
                (size_t)lk_test_size(1, 5, 5));
}

/* ---- words ---- */

enum { MAX_WORDS = 64 };

static size_t split(char *text, char *words[MAX_WORDS]) {
    size_t n = 0;
    while (n < MAX_WORDS && *(text += strspn(text, " ")) != '\0') {
        words[n++] = text;
        text += strcspn(text, " ");
        if (*text != '\0') {
            *text++ = '\0';
        }
    }
    return n;
}

/* Words to be inserted, deleted or replaced. */
static size_t count_errors(const char *found, const char *wanted) {
    char a[1024];
    char b[1024];
    char *x[MAX_WORDS];
    char *y[MAX_WORDS];
    (void)snprintf(a, sizeof a, "%s", found);
    (void)snprintf(b, sizeof b, "%s", wanted);
    const size_t n = split(a, x);
    const size_t m = split(b, y);
    size_t row[MAX_WORDS + 1];
    for (size_t j = 0; j <= m; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const size_t replaced = diagonal + (strcmp(x[i - 1], y[j - 1]) != 0);
            diagonal = row[j];
            const size_t other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[m];
}

typedef struct tally {
    size_t n_clips;
    size_t n_same_ids;
    size_t n_errors;
    size_t n_expected; /* errors of the expected ids */
} tally;

static const char *transcript_of(const json_t *index, const char *file) {
    for (size_t i = 0; i < json_array_size(index); i++) {
        const json_t *entry = json_array_get(index, i);
        if (strcmp(json_string_value(json_object_get(entry, "file")), file) == 0) {
            return json_string_value(json_object_get(entry, "transcript"));
        }
    }
    return "";
}

static void transcribe(const pair *p, const json_t *entry, const json_t *index, tally *t) {
    const char *file = json_string_value(json_object_get(entry, "file"));
    char path[64];
    (void)snprintf(path, sizeof path, "clips/%s", file);
    static int32_t ids[OMNI_MAX_PROMPT];
    static const float *embeddings[OMNI_MAX_PROMPT];
    int32_t answer[OMNI_MAX_ANSWER];
    char text[1024];
    size_t n_text = 0;
    lk_error err;
    const lk_tokenizer *tokenizer = lk_model_tokenizer(p->model);
    omni_clip vectors = omni_encode_wav(p->encoder, p->projector, omni_file(path), NULL);
    CHECK((json_int_t)vectors.n_tokens ==
          json_integer_value(json_object_get(entry, "audio_tokens")));
    const size_t n_ids = omni_prompt(tokenizer, &vectors, ids, embeddings);
    const size_t n = omni_answer(p->context, ids, embeddings, n_ids, tokenizer, answer, NULL);
    REQUIRE_OK(lk_tokenizer_decode(tokenizer, answer, n, 0, text, sizeof text - 1, &n_text, &err),
               err);
    text[n_text] = '\0';
    const size_t n_errors = count_errors(text, transcript_of(index, file));
    const size_t n_expected = (size_t)json_integer_value(json_object_get(entry, "word_errors"));
    const bool same = same_ids(json_object_get(entry, "ids"), answer, n);
    if (!same) {
        (void)printf("  %s: \"%s\" (%zu word errors, expected %zu)\n", file, text, n_errors,
                     n_expected);
    }
    t->n_clips++;
    t->n_same_ids += same;
    t->n_errors += n_errors;
    t->n_expected += n_expected;
    omni_clip_free(&vectors);
}

static tally transcribe_all(const char *projector, const char *model, bool f32_activations,
                            size_t n_most) {
    tally t = {0, 0, 0, 0};
    pair p = open_pair(projector, model, f32_activations);
    json_t *expected = load("clips/expected.json");
    json_t *index = load("clips/index.json");
    const json_t *clips = json_object_get(expected, "clips");
    for (size_t i = 0; i < json_array_size(clips) && i < n_most; i++) {
        transcribe(&p, json_array_get(clips, i), index, &t);
    }
    (void)printf("%s, %s, %s: %zu of %zu clips have the expected ids, %zu word errors (%zu)\n",
                 projector, model, f32_activations ? "float32 activations" : "lk1", t.n_same_ids,
                 t.n_clips, t.n_errors, t.n_expected);
    json_decref(index);
    json_decref(expected);
    close_pair(&p);
    return t;
}

LK_TEST(words) {
    static const char *const texts[] = {"tiny-omni-F16.gguf", "tiny-omni-Q8_0.gguf",
                                        "tiny-omni-Q4_K_M.gguf"};
    static const char *const projectors[] = {"mmproj-tiny-omni-F16.gguf",
                                             "mmproj-tiny-omni-Q8_0.gguf"};
    const bool is_full = omni_has_all() && lk_test_size(0, 0, 1) != 0;
    if (is_full) {
        const tally t = transcribe_all(projectors[0], texts[0], true, SIZE_MAX);
        CHECK(t.n_clips == 32 && t.n_same_ids == 32);
    }
    for (size_t i = 0; i < 6; i++) {
        if (!is_full && i != 5) {
            continue;
        }
        const size_t n_most = is_full ? SIZE_MAX : (size_t)lk_test_size(1, 4, 32);
        const tally t = transcribe_all(projectors[i % 2], texts[i / 2], false, n_most);
        CHECK_MSG(t.n_errors <= t.n_expected + (is_full ? 3 : 0), "%zu word errors, expected %zu",
                  t.n_errors, t.n_expected);
    }
}

LK_TEST_MAIN(LK_RUN(stages), LK_RUN(words))
