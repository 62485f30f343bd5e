/* test_float_mode.c - rule N1 of docs/numerics.md: a host process whose floating-point mode is not
 * ours (other rounding, subnormals flushed to zero, as fast-math libraries leave it) gets the same
 * bits from everything that computes, on all threads, and finds its own mode again after each call.
 * labels: threads */
#include <fenv.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/sha256.h"
#include "lk/audio.h"
#include "lk/quantize.h"
#include "lk_test.h"
#include "real_context.h"

enum { FLUSH_SUBNORMALS = 0x8040, N_ROWS = 40 }; /* FTZ and DAZ of MXCSR */

/* The processor's register without its sticky flags; fegetround reads another one on x86. */
static unsigned get_mode(void) {
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu;
#else
    return (unsigned)fegetround();
#endif
}

static void set_mode(int rounding, int flush) {
    (void)fesetround(rounding);
#if defined(__x86_64__)
    const unsigned kept = _mm_getcsr() & ~(unsigned)FLUSH_SUBNORMALS;
    _mm_setcsr(kept | (flush ? (unsigned)FLUSH_SUBNORMALS : 0u));
#else
    (void)flush; /* other processors: the rounding alone */
#endif
}

/* What a whole use of the library gives. */
typedef struct results {
    uint8_t digests[3][16]; /* prompt, next token, next token of the sequence saved and loaded */
    lk_sample sample;
    uint8_t audio[2][32]; /* a clip, its features */
    uint8_t *file;        /* quantised model */
    size_t file_bytes;
} results;

/* A clip that is resampled, and its features; some samples are subnormal. */
enum { N_SAMPLES = 3000 };
static float samples[N_SAMPLES];

static void make_samples(void) {
    for (int i = 0; i < N_SAMPLES; i++) {
        samples[i] = (float)(i * i % 1009) * (i % 2 == 0 ? 0x1p-145f : 0x1p-12f);
    }
}

static void hear(uint8_t digests[2][32]) {
    static float features[10 * 128];
    lk_audio *audio = NULL;
    lk_error err;
    REQUIRE_OK(lk_audio_create(samples, N_SAMPLES, 1, 32000, NULL, NULL, &audio, &err), err);
    lk_audio_digest(audio, digests[0]);
    CHECK(lk_audio_n_frames(audio) == 10);
    REQUIRE_OK(lk_audio_features(audio, 128, features, 10 * 128, &err), err);
    lk_sha256_of(features, sizeof features, digests[1]);
    lk_audio_destroy(audio);
}

/* Every call runs in the mode given; `is_kept` says whether it was there after each. */
static results use_everything(const char *model_path, const char *source, int rounding, int flush,
                              bool *is_kept) {
    const char *state = scratch_path("mode.lkstate");
    const char *quantised = scratch_path("mode.gguf");
    lk_error err;
    results r = {.file = NULL};
    *is_kept = true;
#define IN_MODE(call)                                                                              \
    do {                                                                                           \
        set_mode(rounding, flush);                                                                 \
        const unsigned mode = get_mode();                                                          \
        call;                                                                                      \
        *is_kept = *is_kept && get_mode() == mode;                                                 \
        set_mode(FE_TONEAREST, 0);                                                                 \
    } while (0)
    make_samples();
    IN_MODE(hear(r.audio));
    lk_model *model = NULL;
    lk_context *c = NULL;
    lk_sampler *sampler = NULL;
    const float *logits = NULL;
    lk_model_info info = LK_MODEL_INFO_INIT;
    lk_context_params params = real_params();
    params.n_threads = 3;
    IN_MODE(model = open_model(model_path));
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    IN_MODE(c = make_real(model, &params));
    IN_MODE(extend_real(c, 0, 1, N_ROWS));
    IN_MODE(digest_of_row(c, N_ROWS - 1, info.n_vocab, r.digests[0]));
    REQUIRE_OK(lk_context_logits(c, N_ROWS - 1, &logits, &err), err);
    lk_sampler_params chain = LK_SAMPLER_PARAMS_INIT;
    chain.typical_p = 0.9f;
    chain.repeat_penalty = 1.3f;
    chain.seed = 5;
    IN_MODE(REQUIRE_OK(lk_sampler_create(&chain, info.n_vocab, &sampler, &err), err));
    IN_MODE(REQUIRE_OK(lk_sampler_accept(sampler, 7, &err), err));
    IN_MODE(REQUIRE_OK(lk_sampler_sample(sampler, logits, N_ROWS - 1, &r.sample, &err), err));
    IN_MODE(digest_of_next(c, 0, info.n_vocab, r.digests[1]));
    IN_MODE(REQUIRE_OK(lk_sequence_save(c, 0, state, &err), err));
    IN_MODE(REQUIRE_OK(lk_sequence_load(c, 2, state, &err), err));
    IN_MODE(digest_of_next(c, 2, info.n_vocab, r.digests[2]));
    lk_quantize_params quantize = LK_QUANTIZE_PARAMS_INIT;
    quantize.type = LK_QUANTIZE_Q8_0;
    quantize.n_threads = 2;
    IN_MODE(REQUIRE_OK(lk_quantize(source, quantised, &quantize, &err), err));
#undef IN_MODE
    r.file = lk_test_read(quantised, &r.file_bytes);
    lk_sampler_destroy(sampler);
    lk_context_destroy(c);
    lk_model_close(model);
    (void)unlink(state);
    (void)unlink(quantised);
    return r;
}

static void check_model(const char *model_path) {
    static const struct {
        int rounding, flush;
    } modes[] = {{FE_TONEAREST, 1}, {FE_UPWARD, 0}, {FE_TOWARDZERO, 1}};
    const char *source = lk_test_data("archs/llama.gguf");
    bool is_kept = false;
    results wanted = use_everything(model_path, source, FE_TONEAREST, 0, &is_kept);
    CHECK(is_kept && memcmp(wanted.digests[1], wanted.digests[2], 16) == 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        results found =
            use_everything(model_path, source, modes[i].rounding, modes[i].flush, &is_kept);
        CHECK_MSG(is_kept, "mode %zu: a call changed the mode of its caller", i);
        for (size_t k = 0; k < 3; k++) {
            CHECK_MSG(memcmp(found.digests[k], wanted.digests[k], 16) == 0,
                      "%s, mode %zu: other logits in step %zu", model_path, i, k);
        }
        CHECK(memcmp(&found.sample, &wanted.sample, sizeof wanted.sample) == 0);
        CHECK(memcmp(found.audio, wanted.audio, sizeof wanted.audio) == 0);
        CHECK(found.file_bytes == wanted.file_bytes &&
              memcmp(found.file, wanted.file, wanted.file_bytes) == 0);
        free(found.file);
    }
    free(wanted.file);
}

LK_TEST(quantised_model) {
    check_model(lk_test_data("models/tiny-q4_k_m.gguf"));
}

LK_TEST(experts_and_f32) {
    check_model(lk_test_data("archs/qwen3moe.gguf"));
}

LK_TEST_MAIN(LK_RUN(quantised_model), LK_RUN(experts_and_f32))
