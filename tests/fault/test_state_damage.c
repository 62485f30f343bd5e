/* test_state_damage.c - damaged state files over the fake backend: every byte changed, every
 * length, appended bytes, a file that is no state at all. Always an error, and the context as
 * before. */
#include <fcntl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/sha256.h"
#include "engine/state.h"
#include "fake_backend.h"
#include "lk_test.h"

static const uint8_t digest[32] = {7};

static const char *file_path(void) {
    static char path[128];
    (void)snprintf(path, sizeof path, "test_state_damage.%ld.lkstate", (long)getpid());
    return path;
}

static void write_file(const uint8_t *bytes, size_t n) {
    FILE *file = fopen(file_path(), "wb");
    if (file == NULL || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) {
        (void)fprintf(stderr, "cannot write %s\n", file_path());
        exit(1);
    }
}

/* Changes one byte of the file. */
static void poke(size_t at, uint8_t byte) {
    const int fd = open(file_path(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &byte, 1, (off_t)at) != 1 || close(fd) != 0) {
        (void)fprintf(stderr, "cannot change %s\n", file_path());
        exit(1);
    }
}

static lk_context *make(void) {
    lk_error err;
    lk_context *c = NULL;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.n_sequences = 2;
    params.kv_positions = 300;
    params.n_threads = 1;
    params.flags = LK_CONTEXT_POISON;
    REQUIRE_OK(fake_context(&params, &c, &err), err);
    return c;
}

static void extend(lk_context *c, int32_t seq, int64_t n) {
    lk_error err;
    int64_t pos = 0;
    REQUIRE_OK(lk_sequence_length(c, seq, &pos, &err), err);
    for (int64_t end = pos + n; pos < end; pos++) {
        const lk_row row = {(int32_t)((pos * 3 + seq) % FAKE_BAD_TOKEN), seq, pos, LK_ROW_LOGITS,
                            0};
        REQUIRE_OK(lk_context_decode(c, &row, 1, NULL, &err), err);
    }
}

/* A saved sequence of 70 tokens, in memory that the caller frees. */
static uint8_t *make_state(size_t *size) {
    lk_error err;
    lk_context *c = make();
    extend(c, 0, 70);
    REQUIRE_OK(lk_state_save(c, 0, file_path(), digest, &err), err);
    lk_context_destroy(c);
    return lk_test_read(file_path(), size);
}

/* A context that must stay as it is: sequence 0 of 10 tokens, sequence 1 of 66. */
typedef struct witness {
    lk_context *context;
    float logits[2][FAKE_VOCAB]; /* of the row that would come next */
} witness;

static void next_logits(lk_context *c, int32_t seq, float *out) {
    lk_error err;
    const float *logits = NULL;
    int64_t length = 0;
    extend(c, seq, 1);
    REQUIRE_OK(lk_context_logits(c, 0, &logits, &err), err);
    memcpy(out, logits, FAKE_VOCAB * sizeof out[0]);
    REQUIRE_OK(lk_sequence_length(c, seq, &length, &err), err);
    REQUIRE_OK(lk_sequence_truncate(c, seq, length - 1, &err), err);
}

static witness make_witness(void) {
    witness w = {make(), {{0}}};
    extend(w.context, 0, 10);
    extend(w.context, 1, 66);
    next_logits(w.context, 0, w.logits[0]);
    next_logits(w.context, 1, w.logits[1]);
    return w;
}

static bool is_unharmed(const witness *w) {
    float now[FAKE_VOCAB];
    if (!fake_is_consistent(w->context) || w->context->seqs[0].length != 10 ||
        w->context->seqs[1].length != 66) {
        return false;
    }
    for (int32_t seq = 0; seq < 2; seq++) {
        next_logits(w->context, seq, now);
        if (memcmp(now, w->logits[seq], sizeof now) != 0) {
            return false;
        }
    }
    return true;
}

static void check_refused(const witness *w, const char *what, size_t at, lk_status expected) {
    lk_error err = {0};
    const lk_status status = lk_state_load(w->context, 0, file_path(), digest, &err);
    CHECK_MSG(status == expected, "%s at byte %zu: %s", what, at, lk_status_name(status));
    CHECK_MSG(err.message[0] != '\0' && is_unharmed(w), "%s at byte %zu", what, at);
}

LK_TEST(every_byte) {
    size_t size = 0;
    uint8_t *bytes = make_state(&size);
    const witness w = make_witness();
    uint64_t rng = lk_test_seed(3);
    for (size_t i = 0; i < size; i++) {
        const uint8_t change = (uint8_t)(1 + lk_test_random(&rng) % 255);
        poke(i, bytes[i] ^ change);
        check_refused(&w, "changed", i, LK_E_FORMAT);
        poke(i, bytes[i]);
    }
    lk_error err;
    REQUIRE_OK(lk_state_load(w.context, 0, file_path(), digest, &err), err); /* it can pass */
    lk_context_destroy(w.context);
    free(bytes);
    (void)unlink(file_path());
}

LK_TEST(every_length) {
    size_t size = 0;
    uint8_t *bytes = make_state(&size);
    const witness w = make_witness();
    for (size_t n = size; n-- > 0;) {
        if (truncate(file_path(), (off_t)n) != 0) {
            (void)fprintf(stderr, "cannot cut %s\n", file_path());
            exit(1);
        }
        check_refused(&w, "cut", n, LK_E_FORMAT);
    }
    bytes[size] = 0; /* lk_test_read leaves room for one byte */
    write_file(bytes, size + 1);
    check_refused(&w, "grown", size, LK_E_FORMAT);
    lk_context_destroy(w.context);
    free(bytes);
    (void)unlink(file_path());
}

static void hash_head(uint8_t *bytes) {
    lk_sha256_of(bytes, 112, bytes + 112);
}

/* Heads with a right checksum and wrong content: sizes, versions, tokens. */
LK_TEST(crafted_heads) {
    size_t size = 0;
    uint8_t *bytes = make_state(&size);
    const witness w = make_witness();
    static const uint64_t counts[] = {0, 1, 69, 71, 192, 1000000, UINT64_MAX, (uint64_t)1 << 63};
    static const lk_status expected[] = {LK_E_FORMAT, LK_E_FORMAT, LK_E_FORMAT, LK_E_FORMAT,
                                         LK_E_FORMAT, LK_E_FULL,   LK_E_FORMAT, LK_E_FORMAT};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        lk_store_u64(bytes + 88, counts[i]);
        hash_head(bytes);
        write_file(bytes, size);
        check_refused(&w, "token count", 88, expected[i]);
    }
    lk_store_u64(bytes + 88, 70);
    lk_store_u64(bytes + 80, UINT64_MAX);
    hash_head(bytes);
    write_file(bytes, size);
    check_refused(&w, "page size", 80, LK_E_MISMATCH);
    lk_store_u64(bytes + 80, 512);
    lk_store_u32(bytes + 8, 1);
    hash_head(bytes);
    write_file(bytes, size);
    check_refused(&w, "layout version", 8, LK_E_UNSUPPORTED);
    lk_store_u32(bytes + 8, 2);
    lk_store_u32(bytes + 96, 1);
    hash_head(bytes);
    write_file(bytes, size);
    check_refused(&w, "first window page", 96, LK_E_FORMAT);
    lk_store_u32(bytes + 96, 0);
    hash_head(bytes);
    lk_store_u32(bytes + 144, FAKE_VOCAB); /* a token too large, all checksums right */
    lk_sha256_of(bytes + 144, 70 * 4, bytes + 144 + 70 * 4);
    lk_sha256_of(bytes, size - 32, bytes + size - 32);
    write_file(bytes, size);
    check_refused(&w, "token", 144, LK_E_FORMAT);
    lk_context_destroy(w.context);
    free(bytes);
    (void)unlink(file_path());
}

LK_TEST_MAIN(LK_RUN(every_byte), LK_RUN(every_length), LK_RUN(crafted_heads))
