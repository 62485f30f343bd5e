/* test_random_model.c - random blocks of every format have the deviation asked for, and a random
 * model loads, reads any text, computes finite rows of logits that differ, has the formats that
 * lk_quantize would choose, and depends on nothing but its parameters.
 * labels: threads */
#include <math.h>

#include "base/bytes.h"
#include "lk/lk.h"
#include "lk_test.h"
#include "quant/random_blocks.h"
#include "test_folder.h"

enum { N_ELEMS = 1 << 16 };

LK_TEST(blocks_have_the_deviation_asked_for) {
    static uint8_t blocks[4 * N_ELEMS];
    static uint8_t part[4 * N_ELEMS];
    static float values[N_ELEMS];
    for (size_t i = 0; i < lk_format_count(); i++) {
        const lk_format *format = lk_format_at(i);
        lk_random_blocks r;
        CHECK(lk_random_blocks_init(&r, format, 7, 3, 0.02f));
        const size_t n_blocks = N_ELEMS / format->block_elems;
        lk_random_blocks_fill(&r, 1, n_blocks, blocks);
        format->decode(blocks, values, N_ELEMS);
        double sum = 0.0;
        double square = 0.0;
        for (size_t k = 0; k < N_ELEMS; k++) {
            CHECK(isfinite(values[k]));
            sum += (double)values[k];
            square += (double)values[k] * (double)values[k];
        }
        const double mean = sum / (double)N_ELEMS;
        const double rms = sqrt(square / (double)N_ELEMS);
        /* MXFP4 has powers of two as scales only; integers -8 .. 7 have a mean of -1/2. */
        const double slack = format->type == LK_FORMAT_MXFP4 ? 2.0 : 1.06;
        if (rms > 0.02 * slack || rms < 0.02 / slack || fabs(mean) > 0.12 * rms) {
            printf("%s: mean %g, deviation %g\n", format->name, mean, rms);
            CHECK(0);
        }
        /* Any cut gives the same bytes. */
        const size_t skip = n_blocks / 3;
        lk_random_blocks_fill(&r, 1 + skip, n_blocks - skip, part);
        CHECK(memcmp(part, blocks + skip * format->block_bytes,
                     (n_blocks - skip) * format->block_bytes) == 0);
        CHECK(memcmp(blocks, blocks + format->block_bytes, format->block_bytes) != 0);
    }
}

static void write_model(const char *path, const char *shape, const char *format, uint64_t seed,
                        uint32_t n_threads) {
    lk_random_model_params params = LK_RANDOM_MODEL_PARAMS_INIT;
    params.shape = shape;
    params.format = format;
    params.seed = seed;
    params.n_threads = n_threads;
    lk_error err;
    const lk_status status = lk_random_model_write(path, &params, &err);
    if (status != LK_OK) {
        printf("%s\n", err.message);
    }
    CHECK(status == LK_OK);
}

static int32_t argmax(const float *x, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = x[i] > x[best] ? i : best;
    }
    return best;
}

/* Every token as a prompt of its own, a few in one sequence: finite, and not always one answer. */
static void compute(lk_model *model) {
    enum { N = 24 };
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1;
    params.n_sequences = N;
    params.kv_positions = N;
    lk_context *context = NULL;
    CHECK(lk_context_create(model, &params, &context, NULL) == LK_OK);
    lk_row rows[N];
    const int32_t n_vocab = lk_tokenizer_n_vocab(lk_model_tokenizer(model));
    for (int32_t i = 0; i < N; i++) {
        rows[i] =
            (lk_row){(i * 7919) % n_vocab, i < N / 2 ? 0 : i, i < N / 2 ? i : 0, LK_ROW_LOGITS, 0};
    }
    CHECK(lk_context_decode(context, rows, N, NULL, NULL) == LK_OK);
    int n_same = 0;
    int32_t first = -1;
    for (size_t i = 0; i < N; i++) {
        const float *logits = NULL;
        CHECK(lk_context_logits(context, i, &logits, NULL) == LK_OK);
        double square = 0.0;
        for (int32_t k = 0; k < n_vocab; k++) {
            CHECK(isfinite(logits[k]));
            square += (double)logits[k] * (double)logits[k];
        }
        const double rms = sqrt(square / n_vocab);
        CHECK(rms > 0.5 && rms < 10.0);
        const int32_t best = argmax(logits, n_vocab);
        first = i == 0 ? best : first;
        n_same += best == first;
    }
    CHECK(n_same < N / 3);
    lk_context_destroy(context);
}

/* All bytes, in an order in which few sequences of them are characters. */
static void read_any_text(const lk_tokenizer *tokenizer) {
    char text[1024];
    for (int i = 0; i < 1024; i++) {
        text[i] = (char)(i < 512 ? i * 37 : "the quick brown fox "[i % 20]);
    }
    static int32_t ids[LK_IDS_BOUND(sizeof text)];
    size_t n = 0;
    CHECK(lk_tokenizer_encode(tokenizer, text, sizeof text, LK_TOKENIZE_ADD_SPECIAL, ids,
                              LK_IDS_BOUND(sizeof text), &n, NULL) == LK_OK);
    CHECK(n < 3 * 512 + 400); /* ill-formed bytes become U+FFFD, words are joined */
    CHECK(lk_tokenizer_adds_bos(tokenizer) == (ids[0] == lk_tokenizer_bos(tokenizer)));
    const char words[] = "the quick brown fox";
    char back[64];
    size_t n_back = 0;
    CHECK(lk_tokenizer_encode(tokenizer, words, sizeof words - 1, 0, ids, 64, &n, NULL) == LK_OK);
    CHECK(lk_tokenizer_decode(tokenizer, ids, n, 0, back, sizeof back, &n_back, NULL) == LK_OK);
    CHECK(n_back == sizeof words - 1 && memcmp(back, words, n_back) == 0);
    CHECK(lk_tokenizer_is_end(tokenizer, lk_tokenizer_find(tokenizer, "<|im_end|>", 10)));
}

LK_TEST(a_random_model_works) {
    test_folder_make();
    static const char *const shapes[] = {"qwen3-tiny", "LLAMA3-TINY"};
    static const char *const formats[] = {"q4_k_m", "Q8_0", "iq4_xs", "F16"};
    const size_t n_formats = lk_test_size(1, 4, 4);
    for (size_t i = 0; i < 2 * n_formats; i++) {
        const char *path = test_folder_path("random.gguf");
        write_model(path, shapes[i % 2], formats[i / 2], 5, 2);
        lk_model *model = NULL;
        CHECK(lk_model_open(path, NULL, &model, NULL) == LK_OK);
        read_any_text(lk_model_tokenizer(model));
        compute(model);
        lk_model_close(model);
    }
    test_folder_remove((const char *const[]){"random.gguf", NULL});
}

LK_TEST(only_the_parameters_decide) {
    test_folder_make();
    const char *a = test_folder_path("a.gguf");
    const char *b = test_folder_path("b.gguf");
    size_t n_a = 0;
    size_t n_b = 0;
    write_model(a, "qwen3-tiny", "Q4_K_M", 5, 1);
    uint8_t *one = lk_test_read(a, &n_a);
    write_model(b, "qwen3-tiny", "Q4_K_M", 5, 3);
    uint8_t *three = lk_test_read(b, &n_b);
    CHECK(n_a == n_b && memcmp(one, three, n_a) == 0);
    free(three);
    write_model(b, "qwen3-tiny", "Q4_K_M", 6, 3);
    three = lk_test_read(b, &n_b);
    CHECK(n_a == n_b && memcmp(one, three, n_a) != 0);
    free(one);
    free(three);
    test_folder_remove((const char *const[]){"a.gguf", "b.gguf", NULL});
}

static uint32_t type_of(const lk_gguf *gguf, const char *name) {
    lk_gguf_tensor tensor;
    CHECK(lk_gguf_find_tensor(gguf, name, &tensor, NULL) == LK_OK);
    return tensor.type;
}

LK_TEST(a_mix_is_that_of_the_quantiser) {
    test_folder_make();
    const char *path = test_folder_path("mix.gguf");
    write_model(path, "qwen3-tiny", "Q4_K_M", 1, 1);
    lk_gguf *gguf = NULL;
    CHECK(lk_gguf_open(path, NULL, &gguf, NULL) == LK_OK);
    CHECK(type_of(gguf, "token_embd.weight") == LK_FORMAT_Q6_K); /* tied */
    CHECK(type_of(gguf, "blk.0.attn_q.weight") == LK_FORMAT_Q4_K);
    CHECK(type_of(gguf, "blk.1.attn_v.weight") == LK_FORMAT_Q6_K); /* the last layer */
    CHECK(type_of(gguf, "blk.1.ffn_down.weight") == LK_FORMAT_Q6_K);
    CHECK(type_of(gguf, "blk.0.attn_norm.weight") == LK_FORMAT_F32);
    lk_gguf_close(gguf);
    test_folder_remove((const char *const[]){"mix.gguf", NULL});
}

static int cancel(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)phase;
    (void)total;
    return done < 100000;
}

LK_TEST(refusals) {
    test_folder_make();
    const char *path = test_folder_path("none.gguf");
    lk_error err;
    lk_random_model_params params = LK_RANDOM_MODEL_PARAMS_INIT;
    CHECK(lk_random_model_write(path, &params, &err) == LK_E_ARG);
    CHECK(lk_random_model_write(path, NULL, &err) == LK_E_ARG);
    params.shape = "qwen3-tiny";
    params.format = "Q9_K";
    CHECK(lk_random_model_write(path, &params, &err) == LK_E_NOT_FOUND);
    CHECK(strcmp(err.subject, "format") == 0);
    params.format = "Q4_0";
    params.shape = "qwen3-tin";
    CHECK(lk_random_model_write(path, &params, &err) == LK_E_NOT_FOUND);
    params.shape = "qwen3-tiny";
    params.n_layers = 3;
    CHECK(lk_random_model_write(path, &params, &err) == LK_E_ARG);
    params.n_layers = 1;
    params.progress = cancel;
    CHECK(lk_random_model_write(path, &params, &err) == LK_E_CANCELLED);
    CHECK(test_folder_count() == 0);
    params.struct_size--;
    CHECK(lk_random_model_write(path, &params, &err) == LK_E_ARG);
    CHECK(test_folder_count() == 0);
    test_folder_remove(NULL);
}

static int stop(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)phase;
    (void)done;
    (void)total;
    return 0;
}

/* Every architecture takes the keys of its shapes: all is ready when the first data is written. */
LK_TEST(every_shape_has_its_tensors) {
    static const char *const names[] = {"shape.gguf", NULL};
    test_folder_make();
    for (uint32_t i = 0; lk_random_model_shape_at(i) != NULL; i++) {
        lk_random_model_params params = LK_RANDOM_MODEL_PARAMS_INIT;
        params.shape = lk_random_model_shape_at(i);
        params.format = "Q8_0";
        params.n_layers = 2;
        params.progress = stop;
        lk_error err;
        const lk_status status = lk_random_model_write(test_folder_path(names[0]), &params, &err);
        CHECK_MSG(status == LK_E_CANCELLED, "%s: %s", params.shape, err.message);
    }
    test_folder_remove(names);
}

/* The small shapes of families with tensors of their own. */
LK_TEST(families) {
    static const char *const names[] = {"family.gguf", NULL};
    static const char *const shapes[] = {"gemma3-tiny",   "gpt-oss-tiny", "phi3-tiny",
                                         "qwen2moe-tiny", "qwen2vl-tiny", "glm4-tiny"};
    test_folder_make();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const char *path = test_folder_path(names[0]);
        write_model(path, shapes[i], i % 2 == 0 ? "Q4_K_M" : "MXFP4", 1, 2);
        lk_model *model = NULL;
        lk_error err;
        REQUIRE_OK(lk_model_open(path, NULL, &model, &err), err);
        compute(model);
        const bool has_audio = strcmp(shapes[i], "qwen2vl-tiny") == 0;
        CHECK((lk_tokenizer_find(lk_model_tokenizer(model), "<|AUDIO|>", 9) >= 0) == has_audio);
        lk_model_close(model);
    }
    test_folder_remove(names);
}

/* An encoder: opens, and vectors of noise are finite and differ. */
LK_TEST(encoders) {
    static const char *const names[] = {"encoder.gguf", NULL};
    static const char *const formats[] = {"F16", "Q8_0", "Q4_0"};
    enum { N_FRAMES = 230, N_MELS = 128, WIDTH = 64, N_TOKENS = 57 };
    static float features[N_FRAMES * N_MELS];
    static float vectors[N_TOKENS * WIDTH];
    uint64_t rng = 5;
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        features[i] = (float)(lk_test_random(&rng) % 2000) * 0.001f - 1.0f;
    }
    test_folder_make();
    for (size_t i = 0; i < 3; i++) {
        lk_error err;
        lk_projector *projector = NULL;
        lk_encoder *encoder = NULL;
        const char *path = test_folder_path(names[0]);
        write_model(path, "omni-tiny-mmproj", formats[i], 1, 2);
        REQUIRE_OK(lk_projector_open(path, NULL, &projector, &err), err);
        lk_gguf_value has_audio = {.type = LK_GGUF_U32}; /* other readers insist on a truth value */
        CHECK_STATUS(LK_OK, lk_gguf_find(lk_projector_gguf(projector), "clip.has_audio_encoder",
                                         &has_audio, &err));
        CHECK(has_audio.type == LK_GGUF_BOOL && has_audio.i == 1);
        REQUIRE_OK(lk_encoder_create(projector, NULL, &encoder, &err), err);
        REQUIRE_OK(
            lk_encoder_encode(encoder, features, N_FRAMES, vectors, N_TOKENS * WIDTH, NULL, &err),
            err);
        CHECK(memcmp(vectors, vectors + WIDTH, WIDTH * sizeof vectors[0]) != 0);
        for (size_t k = 0; k < N_TOKENS * WIDTH; k++) {
            CHECK(isfinite(vectors[k]));
        }
        lk_encoder_destroy(encoder);
        lk_projector_close(projector);
    }
    test_folder_remove(names);
}

LK_TEST_MAIN(LK_RUN(every_shape_has_its_tensors), LK_RUN(encoders), LK_RUN(families),
             LK_RUN(blocks_have_the_deviation_asked_for), LK_RUN(a_random_model_works),
             LK_RUN(only_the_parameters_decide), LK_RUN(a_mix_is_that_of_the_quantiser),
             LK_RUN(refusals))
