/* test_utf8.c - well-formedness, repair and streaming of UTF-8: the examples of the Unicode
 * standard, every short sequence, and random bytes in random pieces. */
#include "base/alloc.h"
#include "lk/tokenizer.h"
#include "lk_test.h"
#include "text/unicode/normalize.h"
#include "text/unicode/unicode.h"

#define FFFD "\xEF\xBF\xBD"

static void check_repair(const char *bytes, size_t n, const char *expected) {
    lk_text_buffer out;
    lk_text_buffer_init(&out, &lk_allocator_default);
    CHECK(lk_utf8_repair((const uint8_t *)bytes, n, &out));
    CHECK_MSG(out.n == strlen(expected) && (out.n == 0 || memcmp(out.data, expected, out.n) == 0),
              "%zu bytes give %zu bytes, expected %s", n, out.n, expected);
    lk_text_buffer_deinit(&out);
}

/* Tables 3-8 to 3-11 of the standard. */
LK_TEST(examples_of_the_standard) {
    check_repair("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 9,
                 FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    check_repair("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 9,
                 FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    check_repair("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", 9,
                 FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B");
    check_repair("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 9, FFFD FFFD FFFD FFFD "A");
    check_repair("\xF0\x9F\x98", 3, FFFD);
    check_repair("", 0, "");
}

/* The code point of a sequence by the definition alone, or -1. */
static int64_t decode(const uint8_t *s, size_t n) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = s[0] < 0x80       ? 1
                          : s[0] >> 5 == 6  ? 2
                          : s[0] >> 4 == 14 ? 3
                          : s[0] >> 3 == 30 ? 4
                                            : 0;
    if (length == 0 || length > n) {
        return -1;
    }
    uint32_t cp = length == 1 ? s[0] : s[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (s[i] >> 6 != 2) {
            return -1;
        }
        cp = cp << 6 | (s[i] & 0x3Fu);
    }
    const int bad = cp < least[length] || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF);
    return bad ? -1 : (int64_t)cp;
}

LK_TEST(every_code_point) {
    for (uint32_t cp = 0; cp < 0x200000; cp++) {
        uint8_t text[4];
        size_t n_bad = 0, length = 0;
        const size_t n = lk_utf8_put(cp, text);
        const size_t found = lk_utf8_sequence(text, n, &n_bad);
        const int good = cp <= 0x10FFFF && (cp < 0xD800 || cp > 0xDFFF);
        CHECK_MSG(good ? found == n && lk_utf8_get(text, &length) == cp && length == n &&
                             lk_utf8_length(text[0]) == n
                       : found == 0 && n_bad == 1,
                  "%06lx", (unsigned long)cp);
    }
}

LK_TEST(every_three_bytes) {
    for (uint32_t i = 0; i < 0x1000000; i += 1 + (uint32_t)lk_test_size(6, 0, 0)) {
        const uint8_t text[4] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i, 0x80};
        size_t n_bad = 0;
        const size_t found = lk_utf8_sequence(text, 4, &n_bad);
        if ((found != 0) != (decode(text, 4) >= 0) || (found == 0 && (n_bad < 1 || n_bad > 3))) {
            lk_test_fail(__FILE__, __LINE__, "%06lx 80: %zu", (unsigned long)i, found);
            return;
        }
    }
}

static void check_stream(uint64_t *seed, const char *bytes, size_t n) {
    static char out[4096];
    lk_utf8_stream stream = {{0}, 0};
    lk_text_buffer expected;
    lk_error err = {0};
    size_t total = 0;
    lk_text_buffer_init(&expected, &lk_allocator_default);
    CHECK(lk_utf8_repair((const uint8_t *)bytes, n, &expected));
    for (size_t pos = 0; pos < n;) {
        size_t piece = lk_test_random(seed) % 6, written = 0;
        piece = piece < n - pos ? piece : n - pos;
        REQUIRE_OK(lk_utf8_stream_push(&stream, bytes + pos, piece, out + total, 3 * (piece + 3),
                                       &written, &err),
                   err);
        CHECK(lk_utf8_is_valid((const uint8_t *)out + total, written)); /* whole characters only */
        total += written;
        pos += piece;
    }
    size_t written = 0;
    REQUIRE_OK(lk_utf8_stream_finish(&stream, out + total, 12, &written, &err), err);
    total += written;
    CHECK_MSG(total == expected.n && memcmp(out, expected.data, total) == 0,
              "%zu bytes stream to %zu", n, total);
    CHECK(stream.n_pending == 0);
    lk_text_buffer_deinit(&expected);
}

LK_TEST(streams_of_random_bytes) {
    uint64_t seed = lk_test_seed(20261130);
    static const char leads[] =
        "\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF";
    for (size_t i = 0; i < lk_test_size(2000, 50000, 500000); i++) {
        char bytes[200];
        const size_t n = 1 + lk_test_random(&seed) % sizeof bytes;
        for (size_t k = 0; k < n; k++) {
            const uint64_t r = lk_test_random(&seed);
            bytes[k] = r % 3 == 0 ? (char)(r >> 8) : leads[(r >> 8) % (sizeof leads - 1)];
        }
        check_stream(&seed, bytes, n);
    }
}

LK_TEST(stream_arguments) {
    lk_utf8_stream stream = {{0}, 0};
    char out[16];
    size_t n = 5;
    lk_error err = {0};
    CHECK_STATUS(LK_E_LIMIT, lk_utf8_stream_push(&stream, "\xE4", 1, out, 11, &n, &err));
    CHECK(n == 0 && stream.n_pending == 0);
    REQUIRE_OK(lk_utf8_stream_push(&stream, "\xE4", 1, out, 12, &n, &err), err);
    CHECK(n == 0 && stream.n_pending == 1);
    CHECK_STATUS(LK_E_LIMIT, lk_utf8_stream_push(&stream, "x", SIZE_MAX - 1, out, 16, &n, &err));
    CHECK_STATUS(LK_E_LIMIT, lk_utf8_stream_finish(&stream, out, 11, &n, &err));
    CHECK(stream.n_pending == 1);
    CHECK_STATUS(LK_E_ARG, lk_utf8_stream_push(NULL, "x", 1, out, 16, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_utf8_stream_push(&stream, NULL, 1, out, 16, &n, &err));
    stream.n_pending = 77;
    CHECK_STATUS(LK_E_ARG, lk_utf8_stream_push(&stream, "x", 1, out, 16, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_utf8_stream_finish(&stream, out, 16, &n, &err));
}

LK_TEST_MAIN(LK_RUN(examples_of_the_standard), LK_RUN(every_code_point), LK_RUN(every_three_bytes),
             LK_RUN(streams_of_random_bytes), LK_RUN(stream_arguments))
