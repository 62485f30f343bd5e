/* test_projector.c - opening projector files: what they say, damage that is named, other files that
 * are refused; and the arguments, failures and memory of an encoder. */
#include <math.h>

#include "base/bytes.h"
#include "gguf/gguf_writer.h"
#include "lk_test.h"
#include "omni.h"
#include "test_folder.h"

enum { N_MELS = 128, WIDTH = 512 };

typedef enum change_kind {
    NOTHING,
    DROP_KEY,
    SET_INT,
    SET_BOOL,
    SET_TEXT,
    DROP_TENSOR,
    DROP_ROW, /* of the slowest dimension */
    ADD_TENSOR
} change_kind;

typedef struct damage {
    change_kind how;
    const char *name; /* key or tensor */
    double value;
    const char *text;
    lk_status status;
    const char *texts[2]; /* in the message */
} damage;

static const damage damages[] = {
    {NOTHING, "", 0, "", LK_OK, {"", ""}},
    {SET_TEXT, "general.architecture", 0, "llama", LK_E_UNSUPPORTED, {"no projector", "llama"}},
    {DROP_KEY, "general.architecture", 0, "", LK_E_UNSUPPORTED, {"no projector", ""}},
    {SET_TEXT, "clip.projector_type", 0, "ultravox", LK_E_UNSUPPORTED, {"ultravox", ""}},
    {DROP_KEY, "clip.projector_type", 0, "", LK_E_UNSUPPORTED, {"projector_type", ""}},
    {SET_BOOL, "clip.has_audio_encoder", 0, "", LK_E_UNSUPPORTED, {"has_audio_encoder", ""}},
    {DROP_KEY, "clip.audio.block_count", 0, "", LK_E_FORMAT, {"block_count", "missing"}},
    {SET_INT, "clip.audio.block_count", 0, "", LK_E_FORMAT, {"block_count is 0", ""}},
    {SET_INT, "clip.audio.block_count", 5, "", LK_E_UNSUPPORTED, {"a.blk.5", "not known"}},
    {SET_INT, "clip.audio.block_count", 7, "", LK_E_FORMAT, {"a.blk.6", "missing"}},
    {SET_INT, "clip.audio.block_count", 2e9, "", LK_E_FORMAT, {"block_count", "1024"}},
    {SET_INT, "clip.audio.attention.head_count", 0, "", LK_E_FORMAT, {"head_count is 0", ""}},
    {SET_INT, "clip.audio.attention.head_count", 3, "", LK_E_UNSUPPORTED, {"3 heads", "256"}},
    {SET_INT, "clip.audio.num_mel_bins", 80, "", LK_E_FORMAT, {"a.conv1d.1.weight", "128"}},
    {SET_INT, "clip.audio.projection_dim", 500, "", LK_E_FORMAT, {"mm.a.fc.weight", "500"}},
    {SET_INT, "clip.audio.embedding_length", 0, "", LK_E_FORMAT, {"embedding_length is 0", ""}},
    {SET_INT, "clip.audio.unheard_of", 1, "", LK_E_UNSUPPORTED, {"unheard_of", "not known"}},
    {SET_INT, "clip.vision.block_count", 1, "", LK_E_UNSUPPORTED, {"vision", "not known"}},
    {DROP_TENSOR, "a.position_embd.weight", 0, "", LK_E_FORMAT, {"a.position_embd", "missing"}},
    {DROP_TENSOR, "a.blk.3.ln2.bias", 0, "", LK_E_FORMAT, {"a.blk.3.ln2.bias", "missing"}},
    {DROP_ROW, "a.conv1d.2.weight", 0, "", LK_E_FORMAT, {"a.conv1d.2.weight", "255"}},
    {DROP_ROW, "a.blk.0.ffn_up.weight", 0, "", LK_E_FORMAT, {"ffn_up.weight", "1023"}},
    {DROP_ROW, "mm.a.fc.bias", 0, "", LK_E_FORMAT, {"mm.a.fc.bias", "511"}},
    {ADD_TENSOR, "a.blk.0.attn_k.bias", 0, "", LK_E_UNSUPPORTED, {"attn_k.bias", "not known"}},
};

static const char *const file_names[] = {"damaged.gguf", NULL};

static bool is_key_change(change_kind how) {
    return how >= DROP_KEY && how <= SET_TEXT;
}

static void put_key(lk_gguf_writer *w, const damage *d) {
    lk_error err;
    if (d->how == SET_TEXT) {
        REQUIRE_OK(lk_gguf_writer_string(w, d->name, d->text, strlen(d->text), &err), err);
    } else if (d->how == SET_INT || d->how == SET_BOOL) {
        REQUIRE_OK(lk_gguf_writer_int(w, d->name, d->how == SET_INT ? LK_GGUF_U32 : LK_GGUF_BOOL,
                                      (int64_t)d->value, &err),
                   err);
    }
}

/* Declares the tensors, or writes their data. */
static void put_tensors(lk_gguf_writer *w, const lk_gguf *from, const damage *d, bool data) {
    lk_error err;
    static const float zeros[256];
    const uint64_t ne[1] = {256};
    for (uint64_t i = 0; i < lk_gguf_n_tensors(from); i++) {
        lk_gguf_tensor t;
        REQUIRE_OK(lk_gguf_tensor_at(from, i, &t, &err), err);
        const bool is_it = strcmp(t.name, d->name) == 0;
        if (is_it && d->how == DROP_TENSOR) {
            continue;
        }
        if (is_it && d->how == DROP_ROW) {
            uint64_t *last = &t.ne[t.n_dims - 1];
            t.n_bytes = t.n_bytes / *last * (*last - 1);
            (*last)--;
        }
        if (data) {
            REQUIRE_OK(lk_gguf_writer_data(w, t.data, (size_t)t.n_bytes, &err), err);
        } else {
            REQUIRE_OK(lk_gguf_writer_tensor(w, t.name, t.type, t.n_dims, t.ne, &err), err);
        }
    }
    if (d->how == ADD_TENSOR && data) {
        REQUIRE_OK(lk_gguf_writer_data(w, zeros, sizeof zeros, &err), err);
    } else if (d->how == ADD_TENSOR) {
        REQUIRE_OK(lk_gguf_writer_tensor(w, d->name, 0, 1, ne, &err), err);
    }
}

static void rewrite(const damage *d) {
    lk_error err;
    lk_gguf *from = NULL;
    lk_gguf_writer *w = NULL;
    REQUIRE_OK(lk_gguf_open(omni_file("mmproj-tiny-omni-Q8_0.gguf"), NULL, &from, &err), err);
    REQUIRE_OK(lk_gguf_writer_create(test_folder_path(file_names[0]), NULL, &w, &err), err);
    for (uint64_t i = 0; i < lk_gguf_n_meta(from); i++) {
        const char *key = NULL;
        lk_gguf_value value;
        REQUIRE_OK(lk_gguf_meta(from, i, &key, &value, &err), err);
        if (!is_key_change(d->how) || strcmp(key, d->name) != 0) {
            REQUIRE_OK(lk_gguf_writer_copy(w, from, i, &err), err);
        }
    }
    put_key(w, d);
    put_tensors(w, from, d, false);
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    put_tensors(w, from, d, true);
    REQUIRE_OK(lk_gguf_writer_finish(w, &err), err);
    lk_gguf_writer_destroy(w);
    lk_gguf_close(from);
}

LK_TEST(damaged_files) {
    test_folder_make();
    const size_t step = (size_t)lk_test_size(5, 1, 1);
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = LK_MODEL_NO_REPACK;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i += step) {
        const damage *d = &damages[i];
        lk_error err = {.status = LK_OK};
        lk_projector *projector = NULL;
        rewrite(d);
        const lk_status status =
            lk_projector_open(test_folder_path(file_names[0]), &params, &projector, &err);
        CHECK_MSG(status == d->status, "%s: %s, expected %s: %s", d->name, lk_status_name(status),
                  lk_status_name(d->status), err.message);
        CHECK((projector != NULL) == (status == LK_OK));
        for (int k = 0; k < 2; k++) {
            CHECK_MSG(status == LK_OK || strstr(err.message, d->texts[k]) != NULL,
                      "%s: \"%s\" is not in \"%s\"", d->name, d->texts[k], err.message);
        }
        lk_projector_close(projector);
    }
    test_folder_remove(file_names);
}

static lk_projector *open_it(void) {
    lk_error err;
    lk_projector *projector = NULL;
    REQUIRE_OK(lk_projector_open(omni_file("mmproj-tiny-omni-Q8_0.gguf"), NULL, &projector, &err),
               err);
    return projector;
}

LK_TEST(info) {
    lk_error err;
    lk_projector *p = open_it();
    lk_projector_info info = LK_PROJECTOR_INFO_INIT;
    REQUIRE_OK(lk_projector_get_info(p, &info, &err), err);
    CHECK(strcmp(info.type, "qwen2.5o") == 0 && strcmp(info.name, "Tiny Omni") == 0);
    CHECK(info.n_mels == N_MELS && info.n_layers == 6 && info.n_embd == 256);
    CHECK(info.n_out == WIDTH && info.window_frames == 200 && info.n_stages == 9);
    static const uint64_t counts[][2] = {{0, 0},    {1, 0},    {2, 0},      {3, 1},       {4, 1},
                                         {6, 1},    {7, 2},    {190, 47},   {199, 50},    {200, 50},
                                         {202, 50}, {203, 51}, {1100, 275}, {30000, 7500}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t n = lk_projector_n_tokens(p, counts[i][0]);
        CHECK_MSG(n == counts[i][1], "%llu frames: %llu tokens", (unsigned long long)counts[i][0],
                  (unsigned long long)n);
    }
    char name[24];
    static const char *const names[] = {"features", "stem", "layer 0"};
    for (int32_t i = 0; i < 3; i++) {
        REQUIRE_OK(lk_projector_stage(p, i, name, &err), err);
        CHECK(strcmp(name, names[i]) == 0);
    }
    REQUIRE_OK(lk_projector_stage(p, 8, name, &err), err);
    CHECK(strcmp(name, "embeddings") == 0);
    CHECK_STATUS(LK_E_ARG, lk_projector_stage(p, 9, name, &err));
    info.struct_size = 1;
    CHECK_STATUS(LK_E_ARG, lk_projector_get_info(p, &info, &err));
    lk_projector_close(p);
    lk_projector_close(NULL);
    CHECK_STATUS(LK_E_ARG, lk_projector_open(NULL, NULL, &p, &err));
    CHECK_STATUS(LK_E_IO, lk_projector_open("no-such-file", NULL, &p, &err));
}

static int stop_at_once(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    int *n = ctx;
    CHECK(strcmp(phase, "encode") == 0 && done <= total && total == 2);
    return --*n > 0;
}

LK_TEST(encoding) {
    enum { N_FRAMES = 203, N_TOKENS = 51 };
    static float features[N_FRAMES * N_MELS];
    static float out[N_TOKENS * WIDTH];
    static float again[N_TOKENS * WIDTH];
    lk_error err;
    lk_encoder *e = NULL;
    lk_projector *p = open_it();
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    static const int32_t bad_windows[] = {0, -1, LK_MAX_WINDOWS + 1};
    for (size_t i = 0; i < 3; i++) {
        params.max_windows = bad_windows[i];
        CHECK_STATUS(LK_E_ARG, lk_encoder_create(p, &params, &e, &err));
        CHECK(strcmp(err.subject, "max_windows") == 0 && e == NULL);
    }
    params.max_windows = 1;
    params.flags = 1u << 7;
    CHECK_STATUS(LK_E_ARG, lk_encoder_create(p, &params, &e, &err));
    CHECK_STATUS(LK_E_ARG, lk_encoder_create(NULL, NULL, &e, &err));
    params.flags = 0;
    params.n_threads = 1;
    REQUIRE_OK(lk_encoder_create(p, &params, &e, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_encoder_encode(e, NULL, N_FRAMES, out, N_TOKENS * WIDTH, NULL, &err));
    CHECK_STATUS(LK_E_ARG, lk_encoder_encode(e, features, 0, out, 0, NULL, &err));
    CHECK_STATUS(LK_E_ARG, lk_encoder_encode(e, features, N_FRAMES, out, WIDTH, NULL, &err));
    CHECK(strstr(err.message, "51 vectors of 512") != NULL);
    REQUIRE_OK(lk_encoder_encode(e, features, 2, NULL, 0, NULL, &err), err); /* no vector */
    REQUIRE_OK(lk_encoder_encode(e, features, N_FRAMES, out, N_TOKENS * WIDTH, NULL, &err), err);
    /* A value that is not finite is named and leaves nothing behind. */
    features[201 * N_MELS + 5] = NAN;
    CHECK_STATUS(LK_E_NONFINITE,
                 lk_encoder_encode(e, features, N_FRAMES, again, N_TOKENS * WIDTH, NULL, &err));
    CHECK_MSG(err.pos == 201 && strstr(err.message, "frame 201") != NULL, "%s", err.message);
    features[201 * N_MELS + 5] = 0.0f;
    int n_calls = 2;
    lk_encode_params encode = LK_ENCODE_PARAMS_INIT;
    encode.progress = stop_at_once;
    encode.progress_ctx = &n_calls;
    CHECK_STATUS(LK_E_CANCELLED,
                 lk_encoder_encode(e, features, N_FRAMES, again, N_TOKENS * WIDTH, &encode, &err));
    n_calls = 100;
    REQUIRE_OK(lk_encoder_encode(e, features, N_FRAMES, again, N_TOKENS * WIDTH, &encode, &err),
               err);
    CHECK(memcmp(out, again, sizeof out) == 0 && n_calls == 97);
    lk_encoder_destroy(e);
    lk_encoder_destroy(NULL);
    lk_projector_close(p);
}

LK_TEST(short_memory) {
    lk_test_allocator a;
    const uint64_t step = lk_test_size(40, 7, 1);
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    lk_encoder_params encoder_params = LK_ENCODER_PARAMS_INIT;
    params.n_threads = encoder_params.n_threads = 1;
    bool done = false;
    for (uint64_t n = 1; !done; n += step) {
        lk_error err;
        lk_projector *p = NULL;
        lk_encoder *e = NULL;
        lk_test_allocator_init(&a);
        a.fail_at = n;
        params.allocator = encoder_params.allocator = &a.base;
        lk_status status =
            lk_projector_open(omni_file("mmproj-tiny-omni-Q8_0.gguf"), &params, &p, &err);
        if (status == LK_OK) {
            status = lk_encoder_create(p, &encoder_params, &e, &err);
        }
        CHECK(status == LK_E_NOMEM || (status == LK_OK && a.n_failed == 0));
        done = status == LK_OK;
        lk_encoder_destroy(e);
        lk_projector_close(p);
        CHECK(a.n_live == 0 && a.live_bytes == 0);
    }
}

LK_TEST_MAIN(LK_RUN(damaged_files), LK_RUN(info), LK_RUN(encoding), LK_RUN(short_memory))
