/* test_audio_isolation.c - recordings through the encoder and the text model: no cut, neighbour,
 * thread count, instruction set, fork, saved file or cache moves a bit.
 *
 * Encoder: all stages of a clip have the digests of a scalar run of one thread, window by window,
 * however it is computed, and whatever windows are computed beside its own. Sequences: random
 * schedules over streams of which several have the same tokens and other vectors, against each
 * stream alone. Engine: requests with clips, cold and cached, against the same alone.
 *
 *   test_audio_isolation [--schedules N] [--encodes N] [--seed S] [CASE]
 * LK_FULL=1: 500 schedules, the encoder 50 times, everything against scalar runs. Schedule i of
 * seed S is schedule 0 of seed S + i, so the long form can be run in pieces.
 * labels: threads */
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "lk/lk.h"
#include "lk_test.h"
#include "omni.h"
#include "test_folder.h"

enum { N_CLIPS = 2, N_STREAMS = 5, MAX_ROWS = 192, N_TAIL = 24, N_SLOTS = 4, MAX_STAGES = 16 };

static const char *const clip_names[N_CLIPS] = {"clips/ref0.wav", "clips/clip27.wav"};

typedef struct stream {
    int32_t tokens[MAX_ROWS];
    const float *embeddings[MAX_ROWS];
    int32_t n_prompt;
    int32_t n_rows;
    uint8_t digests[MAX_ROWS][16]; /* of the logits of every row, alone */
} stream;

typedef struct world {
    lk_projector *projector;
    lk_model *model;
    int32_t n_vocab;
    int32_t n_stages;
    omni_clip clips[N_CLIPS];
    float *turned; /* the first clip's vectors in another order */
    uint8_t stages[N_CLIPS][MAX_STAGES][16];
    stream streams[N_STREAMS];
} world;

static world w;
static uint64_t n_schedules; /* --schedules, --encodes; 0: by the size of the test */
static uint64_t n_encodes;

static lk_encoder *make_encoder(uint32_t n_threads, uint32_t isa_mask, int32_t max_windows) {
    lk_error err;
    lk_encoder *encoder = NULL;
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    params.n_threads = n_threads;
    params.isa_mask = isa_mask;
    params.max_windows = max_windows;
    REQUIRE_OK(lk_encoder_create(w.projector, &params, &encoder, &err), err);
    return encoder;
}

/* ---- what everything is alone ---- */

/* Scalar with LK_FULL; else the least instruction set, whose kernels checkkern holds to the twins.
 */
static uint32_t reference_isa(void) {
    return lk_test_size(0, 0, 1) != 0 ? 0 : LK_CPU_AVX2 | LK_CPU_NEON;
}

static void compute_alone(stream *s) {
    lk_error err;
    lk_context *context = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1;
    params.isa_mask = reference_isa();
    params.kv_positions = MAX_ROWS;
    params.max_rows = 1;
    params.max_logits = 1;
    REQUIRE_OK(lk_context_create(w.model, &params, &context, &err), err);
    for (int32_t i = 0; i < s->n_rows; i++) {
        const float *logits = NULL;
        const lk_row row = {s->tokens[i], 0, i, LK_ROW_LOGITS, 0};
        REQUIRE_OK(lk_context_decode_embeddings(context, &row, &s->embeddings[i], 1, NULL, &err),
                   err);
        REQUIRE_OK(lk_context_logits(context, 0, &logits, &err), err);
        lk_logits_digest(logits, (size_t)w.n_vocab, s->digests[i]);
    }
    lk_context_destroy(context);
}

/* A stream of one clip, or of the same tokens: with vectors in another order, without any. */
static void make_stream(stream *s, int32_t i) {
    static const float *embeddings[OMNI_MAX_PROMPT];
    static int32_t ids[OMNI_MAX_PROMPT];
    const omni_clip *clip = &w.clips[i == 1 ? 1 : 0];
    const size_t n = omni_prompt(lk_model_tokenizer(w.model), clip, ids, embeddings);
    CHECK(n + N_TAIL <= MAX_ROWS);
    s->n_prompt = (int32_t)n;
    s->n_rows = (int32_t)n + N_TAIL;
    size_t k = 0;
    for (size_t pos = 0; pos < n; pos++) {
        s->tokens[pos] = i == 4 ? (int32_t)(pos * 37 % (size_t)w.n_vocab) : ids[pos];
        if (embeddings[pos] != NULL && i < 3) {
            s->embeddings[pos] =
                i == 2 ? w.turned + (k++ + 1) % clip->n_tokens * clip->width : embeddings[pos];
        }
    }
    for (int32_t pos = s->n_prompt; pos < s->n_rows; pos++) {
        s->tokens[pos] = (int32_t)((pos * 101 + i * 7) % w.n_vocab);
    }
    compute_alone(s);
}

static void free_world(void) {
    for (int i = 0; i < N_CLIPS; i++) {
        omni_clip_free(&w.clips[i]);
    }
    lk_projector_close(w.projector);
    lk_model_close(w.model);
}

static void make_world(void) {
    lk_error err;
    if (w.model != NULL) {
        return;
    }
    (void)atexit(free_world);
    REQUIRE_OK(lk_projector_open(omni_file("mmproj-tiny-omni-Q8_0.gguf"), NULL, &w.projector, &err),
               err);
    REQUIRE_OK(lk_model_open(omni_file("tiny-omni-Q4_K_M.gguf"), NULL, &w.model, &err), err);
    lk_projector_info info = LK_PROJECTOR_INFO_INIT;
    REQUIRE_OK(lk_projector_get_info(w.projector, &info, &err), err);
    w.n_stages = info.n_stages;
    w.n_vocab = lk_tokenizer_n_vocab(lk_model_tokenizer(w.model));
    lk_encoder *encoder = make_encoder(1, reference_isa(), 1);
    for (int i = 0; i < N_CLIPS; i++) {
        w.clips[i] = omni_encode_wav(encoder, w.projector, omni_file(clip_names[i]), w.stages[i]);
    }
    lk_encoder_destroy(encoder);
    w.turned = w.clips[0].embeddings;
    for (int32_t i = 0; i < N_STREAMS; i++) {
        make_stream(&w.streams[i], i);
    }
}

/* ---- the encoder ---- */

static void check_encoder(uint32_t n_threads, uint32_t isa_mask, int32_t max_windows) {
    lk_encoder *encoder = make_encoder(n_threads, isa_mask, max_windows);
    for (int i = 0; i < N_CLIPS; i++) {
        uint8_t stages[MAX_STAGES][16];
        omni_clip clip = omni_encode_wav(encoder, w.projector, omni_file(clip_names[i]), stages);
        for (int32_t k = 0; k < w.n_stages; k++) {
            char name[24];
            CHECK_STATUS(LK_OK, lk_projector_stage(w.projector, k, name, NULL));
            CHECK_MSG(memcmp(stages[k], w.stages[i][k], 16) == 0,
                      "%s, %u threads, instruction sets %#x, %d windows: %s differs", clip_names[i],
                      n_threads, isa_mask, max_windows, name);
        }
        CHECK(memcmp(clip.embeddings, w.clips[i].embeddings,
                     clip.n_tokens * clip.width * sizeof clip.embeddings[0]) == 0);
        omni_clip_free(&clip);
    }
    lk_encoder_destroy(encoder);
}

/* Windows of noise before and behind a clip's own, in one call: its vectors stay. */
static void check_neighbours(int32_t max_windows, uint64_t *rng) {
    enum { N_MELS = 128, WINDOW = 200, N_BEFORE = 3 };
    static float features[(N_BEFORE + 1) * WINDOW * N_MELS + 77 * N_MELS];
    const size_t n_noise = (size_t)N_BEFORE * WINDOW * N_MELS;
    const uint64_t n_own = 77;
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        features[i] = (float)(lk_test_random(rng) % 2000) * 0.001f - 1.0f;
    }
    lk_encoder *one = make_encoder(1, 0, 1);
    lk_encoder *many = make_encoder(2, LK_CPU_ALL, max_windows);
    omni_clip alone = omni_encode(one, w.projector, features + n_noise, n_own, NULL);
    omni_clip beside = omni_encode(many, w.projector, features, N_BEFORE * WINDOW + n_own, NULL);
    CHECK(alone.n_tokens == 19 && beside.n_tokens == N_BEFORE * 50 + 19);
    CHECK(memcmp(alone.embeddings, beside.embeddings + (size_t)N_BEFORE * 50 * alone.width,
                 alone.n_tokens * alone.width * sizeof alone.embeddings[0]) == 0);
    omni_clip_free(&alone);
    omni_clip_free(&beside);
    lk_encoder_destroy(one);
    lk_encoder_destroy(many);
}

LK_TEST(encoder_runs_agree) {
    static const uint32_t masks[] = {LK_CPU_ALL, LK_CPU_AVX2, 0, LK_CPU_AVX2 | LK_CPU_AVXVNNI};
    const uint64_t n = n_encodes != 0 ? n_encodes : lk_test_size(1, 4, 50);
    uint64_t rng = lk_test_seed(7);
    make_world();
    for (uint64_t i = 0; i < n; i++) {
        check_encoder(1 + (uint32_t)(i % 3), masks[i % 4],
                      1 + (int32_t)(lk_test_random(&rng) % LK_MAX_WINDOWS));
    }
    for (int32_t i = (int32_t)lk_test_size(4, 1, 1); i < 5; i++) {
        check_neighbours(i, &rng);
    }
}

/* ---- sequences ---- */

typedef struct slot {
    int32_t stream;
    int32_t length;
} slot;

typedef struct schedule {
    lk_context *context;
    uint64_t rng;
    slot slots[N_SLOTS];
    lk_row rows[N_SLOTS * MAX_ROWS];
    const float *embeddings[N_SLOTS * MAX_ROWS];
    size_t n_rows;
} schedule;

static uint64_t draw(schedule *s, uint64_t n) {
    return lk_test_random(&s->rng) % n;
}

/* Rows of some slots, in blocks or one by one. */
static void step(schedule *s, uint64_t seed) {
    lk_error err;
    int32_t n_each[N_SLOTS];
    int32_t done[N_SLOTS] = {0};
    const bool mixed = draw(s, 2) == 0;
    s->n_rows = 0;
    for (int32_t i = 0; i < N_SLOTS; i++) {
        const int32_t left = w.streams[s->slots[i].stream].n_rows - s->slots[i].length;
        const int32_t most = draw(s, 3) == 0 ? 1 : 1 + (int32_t)draw(s, 90);
        n_each[i] = draw(s, 4) == 0 ? 0 : most < left ? most : left;
    }
    for (bool more = true; more;) {
        more = false;
        for (int32_t i = 0; i < N_SLOTS; i++) {
            const stream *from = &w.streams[s->slots[i].stream];
            for (int32_t k = 0; done[i] < n_each[i] && (k == 0 || !mixed); k++) {
                const int32_t pos = s->slots[i].length + done[i]++;
                s->embeddings[s->n_rows] = from->embeddings[pos];
                s->rows[s->n_rows++] =
                    (lk_row){from->tokens[pos], i, pos,
                             draw(s, 3) == 0 || done[i] == n_each[i] ? LK_ROW_LOGITS : 0u, 0};
            }
            more = more || done[i] < n_each[i];
        }
    }
    if (s->n_rows == 0) {
        return;
    }
    REQUIRE_OK(
        lk_context_decode_embeddings(s->context, s->rows, s->embeddings, s->n_rows, NULL, &err),
        err);
    for (size_t i = 0; i < s->n_rows; i++) {
        const lk_row *row = &s->rows[i];
        const float *logits = NULL;
        uint8_t digest[16];
        if ((row->flags & LK_ROW_LOGITS) == 0) {
            continue;
        }
        REQUIRE_OK(lk_context_logits(s->context, i, &logits, &err), err);
        lk_logits_digest(logits, (size_t)w.n_vocab, digest);
        const int32_t which = s->slots[row->seq].stream;
        CHECK_MSG(memcmp(digest, w.streams[which].digests[row->pos], 16) == 0,
                  "seed %llu: stream %d at position %d differs from itself alone",
                  (unsigned long long)seed, which, (int)row->pos);
    }
    for (int32_t i = 0; i < N_SLOTS; i++) {
        s->slots[i].length += n_each[i];
    }
}

static void move(schedule *s, const char *path) {
    lk_error err;
    const int32_t a = (int32_t)draw(s, N_SLOTS);
    const int32_t b = (a + 1 + (int32_t)draw(s, N_SLOTS - 1)) % N_SLOTS;
    const int32_t n = (int32_t)draw(s, (uint64_t)s->slots[a].length + 1);
    switch (draw(s, 4)) {
    case 0:
        REQUIRE_OK(lk_sequence_fork(s->context, a, b, n, &err), err);
        s->slots[b] = (slot){s->slots[a].stream, n};
        break;
    case 1:
        REQUIRE_OK(lk_sequence_truncate(s->context, a, n, &err), err);
        s->slots[a].length = n;
        break;
    case 2:
        REQUIRE_OK(lk_sequence_save(s->context, a, path, &err), err);
        REQUIRE_OK(lk_sequence_clear(s->context, b, &err), err);
        REQUIRE_OK(lk_sequence_load(s->context, b, path, &err), err);
        s->slots[b] = s->slots[a];
        break;
    default:
        REQUIRE_OK(lk_sequence_clear(s->context, a, &err), err);
        s->slots[a] = (slot){(int32_t)draw(s, N_STREAMS), 0};
        break;
    }
}

static void run_schedule(uint64_t seed) {
    static const char *const names[] = {"audio.lkstate", NULL};
    static const uint32_t masks[] = {LK_CPU_ALL, LK_CPU_AVX2, LK_CPU_ALL, 0};
    static schedule s;
    lk_error err;
    memset(&s, 0, sizeof s);
    s.rng = seed;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_threads = 1 + (uint32_t)draw(&s, 3);
    params.isa_mask = masks[draw(&s, 40) == 7 ? 3 : draw(&s, 3)];
    params.kv_positions = N_SLOTS * MAX_ROWS;
    params.n_sequences = N_SLOTS;
    params.max_rows = 1 + (int32_t)draw(&s, 200);
    params.max_logits = N_SLOTS * MAX_ROWS;
    params.flags = LK_CONTEXT_POISON;
    params.page_seed = (uint32_t)draw(&s, 100);
    REQUIRE_OK(lk_context_create(w.model, &params, &s.context, &err), err);
    for (int32_t i = 0; i < N_SLOTS; i++) {
        s.slots[i].stream = (int32_t)draw(&s, N_STREAMS);
    }
    /* Scalar kernels are some hundred times slower. */
    const int n_steps = params.isa_mask == 0 ? 2 : 12;
    for (int i = 0; i < n_steps; i++) {
        step(&s, seed);
        if (draw(&s, 2) == 0) {
            move(&s, test_folder_path(names[0]));
        }
    }
    lk_context_destroy(s.context);
    (void)unlink(test_folder_path(names[0]));
}

LK_TEST(sequences_agree) {
    static const char *const names[] = {NULL};
    const uint64_t seed = lk_test_seed(20261130);
    const uint64_t n = n_schedules != 0 ? n_schedules : lk_test_size(1, 8, 500);
    make_world();
    test_folder_make();
    const time_t start = time(NULL);
    for (uint64_t i = 0; i < n; i++) {
        run_schedule(seed + i);
    }
    (void)printf("%llu schedules in %.0f s\n", (unsigned long long)n, difftime(time(NULL), start));
    test_folder_remove(names);
}

/* ---- the engine ---- */

typedef struct job {
    int32_t stream;
    lk_request *request;
    int32_t tokens[N_TAIL];
    uint8_t digests[N_TAIL][16];
    int64_t n;
    int64_t n_cached;
} job;

static int on_event(void *ctx, const lk_event *event) {
    job *j = ctx;
    if (event->kind == LK_EVENT_TOKEN && j->n < N_TAIL) {
        memcpy(j->digests[j->n], event->digest, 16);
        j->tokens[j->n++] = event->token;
    } else if (event->kind == LK_EVENT_END) {
        j->n_cached = event->n_cached;
    }
    return 1;
}

static void submit(lk_engine *engine, job *j, int32_t which) {
    lk_error err;
    const stream *s = &w.streams[which];
    lk_sampler_params sampler = LK_SAMPLER_PARAMS_INIT;
    sampler.temperature = 0;
    lk_request_params params = LK_REQUEST_PARAMS_INIT;
    lk_media_span span = {0, 0, NULL};
    static float vectors[MAX_ROWS * 512];
    for (int32_t pos = 0; pos < s->n_prompt; pos++) {
        if (s->embeddings[pos] != NULL) {
            span.first = span.n == 0 ? (size_t)pos : span.first;
            memcpy(vectors + 512 * span.n++, s->embeddings[pos], 512 * sizeof vectors[0]);
        }
    }
    span.embeddings = vectors; /* copied at submission */
    *j = (job){.stream = which};
    params.prompt = s->tokens;
    params.n_prompt = (size_t)s->n_prompt;
    params.sampler = &sampler;
    params.max_tokens = 8;
    params.flags = LK_REQUEST_DIGESTS;
    params.media = &span;
    params.n_media = span.n != 0 ? 1 : 0;
    params.on_event = on_event;
    params.ctx = j;
    REQUIRE_OK(lk_engine_submit(engine, &params, &j->request, &err), err);
}

LK_TEST(engine_agrees) {
    enum { N_JOBS = 12 };
    static const struct {
        int32_t n_slots, max_rows;
        int64_t kv_positions;
    } settings[] = {{1, 32, 400}, {3, 7, 700}, {4, 200, 2000}};
    static job first[N_STREAMS];
    static job jobs[N_JOBS];
    lk_error err;
    const uint64_t n_rounds = lk_test_size(1, 1, 20);
    const uint64_t n_settings = lk_test_size(2, 3, 3);
    uint64_t rng = lk_test_seed(3);
    make_world();
    for (uint64_t round = 0; round < n_rounds; round++) {
        for (size_t k = 0; k < n_settings; k++) {
            lk_engine *engine = NULL;
            lk_engine_params params = LK_ENGINE_PARAMS_INIT;
            params.n_threads = 2;
            params.n_slots = settings[k].n_slots;
            params.max_rows = settings[k].max_rows;
            params.kv_positions = settings[k].kv_positions;
            params.n_ctx = MAX_ROWS;
            params.flags = LK_ENGINE_POISON;
            REQUIRE_OK(lk_engine_create(w.model, &params, &engine, &err), err);
            int64_t n_cached = 0;
            for (size_t i = 0; i < N_JOBS; i++) {
                submit(engine, &jobs[i], (int32_t)(lk_test_random(&rng) % N_STREAMS));
            }
            for (size_t i = 0; i < N_JOBS; i++) {
                job *j = &jobs[i];
                REQUIRE_OK(lk_request_wait(j->request, 0, &err), err);
                lk_request_release(j->request);
                const stream *s = &w.streams[j->stream];
                n_cached += j->n_cached;
                CHECK(j->n > 0);
                CHECK_MSG(memcmp(j->digests[0], s->digests[s->n_prompt - 1], 16) == 0,
                          "stream %d: the first logits differ", j->stream);
                if (first[j->stream].n == 0) {
                    first[j->stream] = *j;
                }
                CHECK(j->n == first[j->stream].n &&
                      memcmp(j->digests, first[j->stream].digests, (size_t)j->n * 16) == 0);
            }
            CHECK(n_cached > 0);
            lk_engine_destroy(engine);
        }
    }
}

int main(int argc, char **argv) {
    static const lk_test_case cases[] = {LK_RUN(encoder_runs_agree), LK_RUN(sequences_agree),
                                         LK_RUN(engine_agrees)};
    for (; argc > 2 && argv[1][0] == '-'; argc -= 2, argv += 2) {
        if (strcmp(argv[1], "--schedules") == 0) {
            n_schedules = strtoull(argv[2], NULL, 10);
        } else if (strcmp(argv[1], "--encodes") == 0) {
            n_encodes = strtoull(argv[2], NULL, 10);
        } else if (strcmp(argv[1], "--seed") != 0 || setenv("LK_SEED", argv[2], 1) != 0) {
            (void)fprintf(stderr, "there is no option %s\n", argv[1]);
            return 2;
        }
    }
    return lk_test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
