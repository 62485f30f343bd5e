/* test_gguf_errors.c - one wrong GGUF file for each rule that the reader enforces, built byte by
 * byte, with the status, file offset and subject of the error that it must give. Right files:
 * test_gguf_read.c; damage at random: tests/fault/test_gguf_damage.c. */
#include <unistd.h>

#include "gguf/gguf_internal.h"
#include "gguf_bytes.h"
#include "lk_test.h"
#include "test_folder.h"

/* Opens a copy of exactly the file's size (so that a sanitizer sees the first byte read beyond),
 * checks the error and frees the bytes. `text` must occur in the message. */
static void expect(int line, bytes *b, lk_status status, size_t offset, const char *subject,
                   const char *text) {
    uint8_t *copy = malloc(b->size != 0 ? b->size : 1);
    if (copy == NULL) {
        exit(1);
    }
    if (b->size != 0) {
        memcpy(copy, b->data, b->size);
    }
    const lk_gguf_buffer file = {copy, b->size};
    lk_gguf *gguf = NULL;
    lk_error err;
    memset(&err, 0, sizeof err);
    lk_test_allocator t;
    lk_test_allocator_init(&t);
    const lk_status found = lk_gguf_open_memory(&file, 1, &t.base, &gguf, &err);
    if (found != status || gguf != NULL || err.status != status || err.offset != offset ||
        strcmp(err.subject, subject) != 0 || strstr(err.message, text) == NULL) {
        lk_test_fail(__FILE__, line,
                     "%s at %llu, subject \"%s\": \"%s\"; expected %s at %zu, \"%s\", \"%s\"",
                     lk_status_name(found), (unsigned long long)err.offset, err.subject,
                     err.message, lk_status_name(status), offset, subject, text);
    }
    char place[64];
    (void)snprintf(place, sizeof place, "buffer 1: byte %zu: ", offset);
    CHECK_MSG(strncmp(err.message, place, strlen(place)) == 0, "line %d: \"%s\" lacks \"%s\"", line,
              err.message, place);
    lk_gguf_close(gguf);
    CHECK(t.n_live == 0 && t.live_bytes == 0);
    free(copy);
    bytes_free(b);
}
#define EXPECT(b, status, offset, subject, text) expect(__LINE__, b, status, offset, subject, text)

LK_TEST(header) {
    bytes b = {0};
    EXPECT(&b, LK_E_FORMAT, 0, "", "0 bytes left");
    put_bytes(&b, "GGU", 3);
    EXPECT(&b, LK_E_FORMAT, 0, "", "3 bytes left");
    put_bytes(&b, "GGML\3\0\0\0", 8);
    EXPECT(&b, LK_E_FORMAT, 0, "magic", "47 47 4d 4c");
    put_bytes(&b, "GGUX\3\0\0\0", 8);
    EXPECT(&b, LK_E_FORMAT, 0, "magic", "47 47 55 58");
    put_bytes(&b, "GGUF\3\0", 6);
    EXPECT(&b, LK_E_FORMAT, 4, "", "version of 4 bytes, but the file has 2");
    put_header(&b, 1, 0, 0);
    EXPECT(&b, LK_E_UNSUPPORTED, 4, "version", "version 1, expected 2 or 3");
    put_header(&b, 4, 0, 0);
    EXPECT(&b, LK_E_UNSUPPORTED, 4, "version", "version 4, expected 2 or 3");
    put_header(&b, 0x03000000u, 0, 0);
    EXPECT(&b, LK_E_UNSUPPORTED, 4, "version", "big-endian");
    put_header(&b, 3, 0, 0);
    b.size = 20;
    EXPECT(&b, LK_E_FORMAT, 16, "", "metadata count");
    b.size = 0;
    put_header(&b, 3, 0, 0);
    b.size = 15;
    EXPECT(&b, LK_E_FORMAT, 8, "", "tensor count");
}

/* Huge counts in tiny files: refused before anything of that size is allocated. */
LK_TEST(counts) {
    bytes b = {0};
    put_header(&b, 3, UINT64_MAX, 0);
    EXPECT(&b, LK_E_FORMAT, 8, "tensor count", "18446744073709551615");
    put_header(&b, 3, 0, UINT64_MAX);
    EXPECT(&b, LK_E_FORMAT, 16, "metadata count", "18446744073709551615");
    put_header(&b, 3, 1, 0);
    put_fill(&b, 0, 32);
    EXPECT(&b, LK_E_FORMAT, 8, "tensor count", "32 bytes that follow hold at most 0");
    put_header(&b, 3, 0, 2);
    put_fill(&b, 0, 27);
    EXPECT(&b, LK_E_FORMAT, 16, "metadata count", "hold at most 1");
    /* The bytes would do before the metadata, but not behind it. */
    put_header(&b, 3, 1, 1);
    put_text(&b, "k", "a text of more than thirty-three bytes, so that it looks enough");
    EXPECT(&b, LK_E_FORMAT, 8, "tensor count", "the 0 bytes that follow");
    put_header(&b, 3, 0, LK_GGUF_MAX_META + 1);
    put_fill(&b, 0, 14 * (LK_GGUF_MAX_META + 1));
    EXPECT(&b, LK_E_LIMIT, 16, "metadata count", "the limit is 65536");
    put_header(&b, 3, LK_GGUF_MAX_TENSORS + 1, 0);
    put_fill(&b, 0, 33 * ((size_t)LK_GGUF_MAX_TENSORS + 1));
    EXPECT(&b, LK_E_LIMIT, 8, "tensor count", "the limit is 1048576");
}

LK_TEST(keys) {
    bytes b = {0};
    put_header(&b, 3, 0, 1);
    put_u64(&b, UINT64_MAX);
    put_fill(&b, 'k', 20);
    EXPECT(&b, LK_E_FORMAT, 24, "", "metadata key of 18446744073709551615 bytes");
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "", 0, 1, 1);
    put_fill(&b, 0, 20);
    EXPECT(&b, LK_E_FORMAT, 24, "", "metadata key 0 is empty");
    put_header(&b, 3, 0, 2);
    put_scalar(&b, "good", 0, 1, 1);
    const size_t second = b.size;
    put_scalar(&b, "ba\nd", 0, 1, 1);
    EXPECT(&b, LK_E_FORMAT, second + 8 + 2, "", "metadata key 1 holds the byte 0a");
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "b\xc3\xa4", 0, 1, 1);
    EXPECT(&b, LK_E_FORMAT, 33, "", "holds the byte c3");
    put_header(&b, 3, 0, 1);
    put_u64(&b, LK_GGUF_MAX_KEY_BYTES + 1);
    put_fill(&b, 'k', LK_GGUF_MAX_KEY_BYTES + 20);
    EXPECT(&b, LK_E_LIMIT, 24, "", "65536 bytes, the limit is 65535");
}

LK_TEST(duplicate_keys) {
    bytes b = {0};
    put_header(&b, 3, 0, 4);
    put_scalar(&b, "b", 0, 1, 1);
    put_scalar(&b, "a", 0, 1, 1);
    put_scalar(&b, "c", 0, 1, 1);
    const size_t again = b.size;
    put_text(&b, "a", "x");
    EXPECT(&b, LK_E_FORMAT, again, "a", "appears twice, first at byte 38");
}

LK_TEST(values) {
    bytes b = {0};
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "k", 13, 0, 4);
    EXPECT(&b, LK_E_FORMAT, 33, "k", "value type 13, expected 0 to 12");
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "k", UINT32_MAX, 0, 4);
    EXPECT(&b, LK_E_FORMAT, 33, "k", "value type 4294967295");
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "k", 7, 2, 1);
    EXPECT(&b, LK_E_FORMAT, 37, "k", "bool value 2, expected 0 or 1");
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "k", 10, 0, 7);
    EXPECT(&b, LK_E_FORMAT, 37, "k", "k: u64 of 8 bytes, but the file has 7 bytes left");
    put_header(&b, 3, 0, 1);
    put_string(&b, "kkkk");
    put_uint(&b, 0, 2);
    EXPECT(&b, LK_E_FORMAT, 36, "kkkk", "value type of 4 bytes, but the file has 2");
    put_header(&b, 3, 0, 1);
    put_string(&b, "k");
    put_u32(&b, 8);
    put_u64(&b, 10);
    put_fill(&b, 'x', 9);
    EXPECT(&b, LK_E_FORMAT, 37, "k", "string of 10 bytes, but the file has 9 bytes left");
    put_header(&b, 3, 0, 1);
    put_string(&b, "k");
    put_u32(&b, 8);
    put_u64(&b, UINT64_MAX - 3); /* start + length would overflow */
    EXPECT(&b, LK_E_FORMAT, 37, "k", "0 bytes left");
}

LK_TEST(arrays) {
    bytes b = {0};
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 9, 1);
    put_u32(&b, 0);
    put_u64(&b, 0);
    EXPECT(&b, LK_E_UNSUPPORTED, 37, "k", "an array of arrays");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 13, 1);
    EXPECT(&b, LK_E_FORMAT, 37, "k", "array of value type 13");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 4, 0x4000000000000001u); /* times 4 would overflow to 4 */
    put_u32(&b, 0);
    EXPECT(&b, LK_E_FORMAT, 41, "k", "4611686018427387905 elements of type u32, but 4 bytes");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 8, UINT64_MAX);
    EXPECT(&b, LK_E_FORMAT, 41, "k", "elements of type string, but 0 bytes");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 8, 2);
    put_u64(&b, 0);
    EXPECT(&b, LK_E_FORMAT, 41, "k", "array of 2 elements of type string, but 8 bytes");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 8, 2);
    put_string(&b, "ab");
    const size_t second = b.size;
    put_u64(&b, 3);
    put_bytes(&b, "cd", 2);
    EXPECT(&b, LK_E_FORMAT, second, "k", "array string of 3 bytes, but the file has 2");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 7, 3);
    put_bytes(&b, "\0\1\7", 3);
    EXPECT(&b, LK_E_FORMAT, 51, "k", "bool value 7");
    put_header(&b, 3, 0, 1);
    put_string(&b, "k");
    put_u32(&b, 9);
    put_u32(&b, 0);
    put_u32(&b, 0);
    EXPECT(&b, LK_E_FORMAT, 41, "k", "array length of 8 bytes");
}

LK_TEST(alignment_key) {
    static const struct {
        uint32_t type;
        uint64_t value;
        size_t n_bytes;
        const char *text;
    } cases[] = {
        {4, 0, 4, "is 0, expected a power of two"},
        {4, 4, 4, "is 4, expected a power of two from 8 to 1048576"},
        {4, 24, 4, "is 24, expected"},
        {4, 2097152, 4, "is 2097152, expected"},
        {4, 0xffffffffu, 4, "is 4294967295, expected"},
    };
    bytes b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_header(&b, 3, 0, 1);
        put_scalar(&b, "general.alignment", cases[i].type, cases[i].value, cases[i].n_bytes);
        EXPECT(&b, LK_E_FORMAT, 24 + 8 + 17 + 4, "general.alignment", cases[i].text);
    }
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "general.alignment", 10, 32, 8);
    EXPECT(&b, LK_E_FORMAT, 24 + 8 + 17, "general.alignment", "has type u64, expected u32");
    put_header(&b, 3, 0, 1);
    put_text(&b, "general.alignment", "32");
    EXPECT(&b, LK_E_FORMAT, 24 + 8 + 17, "general.alignment", "has type string, expected u32");
}

/* One tensor "t" with the given entry and `n_data` bytes behind the padded directory. */
static void one_tensor(bytes *b, uint32_t n_dims, const uint64_t *ne, uint32_t type,
                       uint64_t offset, size_t n_data) {
    put_header(b, 3, 1, 0);
    put_tensor(b, "t", n_dims, ne, type, offset);
    put_padding(b, 32);
    put_fill(b, 0, n_data);
}

LK_TEST(tensor_names) {
    bytes b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "", 1, (const uint64_t[]){1}, 0, 0);
    put_fill(&b, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 24, "", "the name of tensor 0 is empty");
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "a\x1b[0m", 1, (const uint64_t[]){1}, 0, 0);
    put_fill(&b, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 33, "", "holds the byte 1b");
    static const char *const ill_formed[] = {"\x80",
                                             "\xc1\x81",
                                             "\xc3",
                                             "\xe0\x9f\x80",
                                             "\xed\xa0\x80",
                                             "\xf0\x8f\x80\x80",
                                             "\xf4\x90\x80\x80",
                                             "\xe2\x82(",
                                             "\xf5\x80\x80\x80",
                                             "\xc2\x9b",
                                             "\x7f"};
    for (size_t i = 0; i < sizeof ill_formed / sizeof ill_formed[0]; i++) {
        put_header(&b, 3, 1, 0);
        put_tensor(&b, ill_formed[i], 1, (const uint64_t[]){1}, 0, 0);
        put_fill(&b, 0, 64);
        EXPECT(&b, LK_E_FORMAT, 32, "", "expected UTF-8 without control characters");
    }
    /* A character that the name cuts short and the next field would complete. */
    put_header(&b, 3, 1, 0);
    put_string(&b, "\xe2\x82");
    put_fill(&b, 0xac, 64);
    EXPECT(&b, LK_E_FORMAT, 32, "", "holds the byte e2");
    put_header(&b, 3, 1, 0);
    put_u64(&b, LK_GGUF_MAX_NAME_BYTES + 1);
    put_fill(&b, 'n', LK_GGUF_MAX_NAME_BYTES + 64);
    EXPECT(&b, LK_E_LIMIT, 24, "", "1025 bytes, the limit is 1024");
    put_header(&b, 3, 3, 0);
    put_tensor(&b, "t", 1, (const uint64_t[]){1}, 0, 0);
    put_tensor(&b, "s", 1, (const uint64_t[]){1}, 0, 32);
    const size_t again = b.size;
    put_tensor(&b, "t", 1, (const uint64_t[]){1}, 0, 64);
    put_padding(&b, 32);
    put_fill(&b, 0, 68);
    EXPECT(&b, LK_E_FORMAT, again, "t", "appears twice, first at byte 24");
}

LK_TEST(tensor_shapes) {
    bytes b = {0};
    one_tensor(&b, 0, NULL, 0, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 33, "t", "0 dimensions, expected 1 to 4");
    one_tensor(&b, 5, (const uint64_t[]){1, 1, 1, 1, 1}, 0, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 33, "t", "5 dimensions, expected 1 to 4");
    one_tensor(&b, 2, (const uint64_t[]){4, 0}, 0, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 45, "t", "dimension 1 is 0");
    one_tensor(&b, 2, (const uint64_t[]){1ull << 32, 1ull << 32}, 0, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 45, "t", "exceeds 2^63 - 1");
    one_tensor(&b, 1, (const uint64_t[]){1ull << 63}, 0, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 37, "t", "exceeds 2^63 - 1");
    one_tensor(&b, 4, (const uint64_t[]){1ull << 20, 1ull << 20, 1ull << 20, 8}, 0, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 61, "t", "exceeds 2^63 - 1");
    one_tensor(&b, 1, (const uint64_t[]){1ull << 62}, 0, 0, 64); /* times 4 would be 0 */
    EXPECT(&b, LK_E_FORMAT, 45, "t", "exceed 2^64 bytes");
    put_header(&b, 3, 1, 0);
    put_string(&b, "name");
    put_u32(&b, 4);
    put_u64(&b, 1);
    put_u64(&b, 1);
    put_fill(&b, 1, 4);
    EXPECT(&b, LK_E_FORMAT, 56, "name", "dimension of 8 bytes, but the file has 4");
}

LK_TEST(tensor_formats) {
    bytes b = {0};
    one_tensor(&b, 1, (const uint64_t[]){32}, 4, 0, 128);
    EXPECT(&b, LK_E_UNSUPPORTED, 45, "t", "format number 4 is unknown");
    one_tensor(&b, 1, (const uint64_t[]){32}, UINT32_MAX, 0, 128);
    EXPECT(&b, LK_E_UNSUPPORTED, 45, "t", "format number 4294967295 is unknown");
    one_tensor(&b, 2, (const uint64_t[]){128, 2}, 12, 0, 144);
    EXPECT(&b, LK_E_FORMAT, 53, "t",
           "rows of 128 elements, but format Q4_K needs a multiple of 256");
}

LK_TEST(tensor_extents) {
    bytes b = {0};
    one_tensor(&b, 1, (const uint64_t[]){4}, 0, 8, 64);
    EXPECT(&b, LK_E_FORMAT, 49, "t", "data offset 8, expected a multiple of the alignment 32");
    one_tensor(&b, 1, (const uint64_t[]){4}, 0, 0, 15);
    EXPECT(&b, LK_E_FORMAT, 49, "t", "16 bytes at data offset 0, but the file has 15");
    one_tensor(&b, 1, (const uint64_t[]){4}, 0, 64, 64);
    EXPECT(&b, LK_E_FORMAT, 49, "t", "16 bytes at data offset 64, but the file has 64");
    one_tensor(&b, 1, (const uint64_t[]){4}, 0, UINT64_MAX - 31, 64);
    EXPECT(&b, LK_E_FORMAT, 49, "t", "at data offset 18446744073709551584");
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "t", 1, (const uint64_t[]){4}, 0, 0);
    EXPECT(&b, LK_E_FORMAT, 57, "",
           "the file ends before its tensor data, which begins at byte 64");
}

LK_TEST(tensor_overlaps) {
    bytes b = {0};
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "big", 1, (const uint64_t[]){9}, 0, 0);
    const size_t second = b.size;
    put_tensor(&b, "small", 1, (const uint64_t[]){1}, 0, 32);
    put_padding(&b, 32);
    const size_t start = b.size;
    put_fill(&b, 0, 64);
    char text[100];
    (void)snprintf(text, sizeof text, "begins at byte %zu, inside big, which ends at %zu",
                   start + 32, start + 36);
    EXPECT(&b, LK_E_FORMAT, second + 8 + 5 + 4 + 8 + 4, "small", text);
    /* The same place twice, and in reverse order. */
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "a", 1, (const uint64_t[]){1}, 0, 32);
    put_tensor(&b, "b", 1, (const uint64_t[]){1}, 0, 32);
    put_padding(&b, 32);
    put_fill(&b, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 24 + 33 + 25, "b", "inside a");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "a", 1, (const uint64_t[]){1}, 0, 32);
    put_tensor(&b, "b", 1, (const uint64_t[]){9}, 0, 0);
    put_padding(&b, 32);
    put_fill(&b, 0, 64);
    EXPECT(&b, LK_E_FORMAT, 24 + 25, "a", "inside b");
}

/* The least overlap: the last byte of one is the first of the next. */
LK_TEST(tensor_overlap_of_one_byte) {
    bytes b = {0};
    for (uint64_t n = 8; n <= 9; n++) {
        put_header(&b, 3, 2, 1);
        put_scalar(&b, "general.alignment", 4, 8, 4);
        put_tensor(&b, "a", 1, &n, 24, 0);
        const size_t second = b.size;
        put_tensor(&b, "b", 1, &n, 24, 8);
        put_padding(&b, 8);
        put_fill(&b, 0, 17);
        if (n == 9) {
            EXPECT(&b, LK_E_FORMAT, second + 25, "b", "inside a");
        } else {
            lk_gguf *gguf = NULL;
            const lk_gguf_buffer file = {b.data, b.size};
            CHECK_STATUS(LK_OK, lk_gguf_open_memory(&file, 1, NULL, &gguf, NULL));
            lk_gguf_close(gguf);
            bytes_free(&b);
        }
    }
}

/* File `number` of a split model whose keys say what is given; -1 leaves a key out. */
static void put_split(bytes *b, int64_t number, int64_t count, int64_t n_tensors,
                      const char *tensor) {
    const int64_t values[3] = {number, count, n_tensors};
    static const char *const keys[3] = {"split.no", "split.count", "split.tensors.count"};
    uint64_t n_meta = 0;
    for (int i = 0; i < 3; i++) {
        n_meta += values[i] >= 0;
    }
    put_header(b, 3, 1, n_meta);
    for (int i = 0; i < 3; i++) {
        if (values[i] >= 0) {
            put_scalar(b, keys[i], 5, (uint64_t)values[i], 4);
        }
    }
    put_tensor(b, tensor, 1, (const uint64_t[]){1}, 0, 0);
    put_padding(b, 32);
    put_fill(b, 0, 4);
}

static void expect_split(int line, bytes *a, bytes *b, uint32_t n_files, lk_status status,
                         const char *subject, const char *text) {
    const lk_gguf_buffer files[2] = {{a->data, a->size}, {b->data, b->size}};
    lk_gguf *gguf = NULL;
    lk_error err;
    memset(&err, 0, sizeof err);
    const lk_status found = lk_gguf_open_memory(files, n_files, NULL, &gguf, &err);
    if (found != status || gguf != NULL || strcmp(err.subject, subject) != 0 ||
        strstr(err.message, text) == NULL) {
        lk_test_fail(__FILE__, line, "%s, subject \"%s\": \"%s\"; expected %s, \"%s\", \"%s\"",
                     lk_status_name(found), err.subject, err.message, lk_status_name(status),
                     subject, text);
    }
    lk_gguf_close(gguf);
    bytes_free(a);
    bytes_free(b);
}
#define EXPECT_SPLIT(n_files, status, subject, text)                                               \
    expect_split(__LINE__, &a, &b, n_files, status, subject, text)

LK_TEST(split_files) {
    bytes a = {0};
    bytes b = {0};
    put_split(&a, 0, 3, 2, "t");
    put_split(&b, 1, 3, 2, "u");
    EXPECT_SPLIT(2, LK_E_FORMAT, "split.count", "split.count is 3, but 2 files were given");
    put_split(&a, 0, 2000, 2, "t");
    EXPECT_SPLIT(1, LK_E_LIMIT, "split.count", "split.count is 2000, the limit is 1024");
    put_split(&a, 1, 2, 2, "t");
    EXPECT_SPLIT(1, LK_E_ARG, "split.no", "open the first file");
    put_split(&a, 0, 2, 2, "t");
    put_split(&b, 2, 2, 2, "u");
    EXPECT_SPLIT(2, LK_E_FORMAT, "split.no", "buffer 2: byte 44: split.no is 2, expected 1");
    put_split(&a, 0, 2, 2, "t");
    put_split(&b, 1, 3, 2, "u");
    EXPECT_SPLIT(2, LK_E_FORMAT, "split.count", "split.count is 3, expected 2");
    put_split(&a, 0, 2, 2, "t");
    put_split(&b, 1, -1, 2, "u");
    EXPECT_SPLIT(2, LK_E_FORMAT, "split.count", "split.count is missing, expected 2");
    put_split(&a, 0, 2, 3, "t");
    put_split(&b, 1, 2, 2, "u");
    EXPECT_SPLIT(2, LK_E_FORMAT, "split.tensors.count", "but the 2 files hold 2 tensors");
    put_split(&a, 0, 2, -1, "t");
    put_split(&b, 1, 2, 2, "u");
    EXPECT_SPLIT(2, LK_E_FORMAT, "split.tensors.count", "is missing, expected 2");
    put_split(&a, 0, 2, 2, "t");
    put_split(&b, 1, 2, 2, "t");
    EXPECT_SPLIT(2, LK_E_FORMAT, "t", "buffer 2: byte 110: tensor t appears twice");
    put_split(&a, 0, 0xffffffff, 2, "t");
    EXPECT_SPLIT(1, LK_E_FORMAT, "split.count", "split.count is -1, expected 0 or more");
    put_header(&a, 3, 0, 1);
    put_text(&a, "split.count", "2");
    EXPECT_SPLIT(1, LK_E_FORMAT, "split.count", "has type string, expected an integer");
}

static void write_file(const char *path, const bytes *b) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(b->data, 1, b->size, file) != b->size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* On disk: names of the files, a missing one, and what is no file at all. */
LK_TEST(paths) {
    static const char *const names[] = {"model.gguf", "m-00001-of-00002.gguf",
                                        "m-00002-of-00002.gguf", NULL};
    lk_gguf *gguf = NULL;
    lk_error err;
    test_folder_make();
    const char *const model = test_folder_path(names[0]);
    const char *const first = test_folder_path(names[1]);
    const char *const second = test_folder_path(names[2]);
    bytes a = {0};
    bytes b = {0};
    put_split(&a, 0, 2, 2, "t");
    put_split(&b, 1, 2, 2, "u");
    write_file(model, &a);
    write_file(first, &a);
    CHECK_STATUS(LK_E_FORMAT, lk_gguf_open(model, NULL, &gguf, &err));
    CHECK(strstr(err.message, "model.gguf: byte ") != NULL &&
          strstr(err.message, "should end in -00001-of-00002.gguf") != NULL);
    CHECK_STATUS(LK_E_IO, lk_gguf_open(first, NULL, &gguf, &err));
    CHECK(strcmp(err.subject, second) == 0);
    write_file(second, &b);
    CHECK_STATUS(LK_E_ARG, lk_gguf_open(second, NULL, &gguf, &err));
    REQUIRE_OK(lk_gguf_open(first, NULL, &gguf, &err), err);
    lk_gguf_tensor tensor;
    CHECK_STATUS(LK_OK, lk_gguf_find_tensor(gguf, "u", &tensor, &err));
    CHECK(tensor.i_file == 1 && lk_gguf_n_tensors(gguf) == 2);
    lk_gguf_close(gguf);
    b.data[0] = 'X';
    write_file(second, &b);
    CHECK_STATUS(LK_E_FORMAT, lk_gguf_open(first, NULL, &gguf, &err));
    CHECK(strncmp(err.message, "m-00002-of-00002.gguf: byte 0: ", 31) == 0);
    CHECK(gguf == NULL);
    (void)unlink(model);
    CHECK_STATUS(LK_E_IO, lk_gguf_open(model, NULL, &gguf, &err));
    CHECK_STATUS(LK_E_IO, lk_gguf_open(".", NULL, &gguf, &err));
    CHECK_STATUS(LK_E_IO, lk_gguf_open("", NULL, &gguf, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_open(NULL, NULL, &gguf, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_open("x", NULL, NULL, &err));
    test_folder_remove(names);
    bytes_free(&a);
    bytes_free(&b);
}

/* A directory longer than the limit: a sparse file, of which almost nothing is read. */
LK_TEST(directory_limit) {
    char path[] = "gguf_limit_test_XXXXXX";
    const int fd = mkstemp(path);
    bytes b = {0};
    put_header(&b, 3, 0, 2);
    put_array(&b, "big", 0, LK_GGUF_MAX_DIRECTORY_BYTES - 512);
    CHECK(fd >= 0 && write(fd, b.data, b.size) == (ssize_t)b.size);
    const size_t second = b.size + LK_GGUF_MAX_DIRECTORY_BYTES - 512;
    b.size = 0;
    put_array(&b, "more", 0, 1024);
    CHECK(pwrite(fd, b.data, b.size, (off_t)second) == (ssize_t)b.size);
    CHECK(ftruncate(fd, (off_t)(second + b.size + 1024)) == 0 && close(fd) == 0);
    lk_gguf *gguf = NULL;
    lk_error err;
    CHECK_STATUS(LK_E_LIMIT, lk_gguf_open(path, NULL, &gguf, &err));
    CHECK(err.offset == second + b.size && strcmp(err.subject, "more") == 0);
    (void)unlink(path);
    bytes_free(&b);
}

LK_TEST_MAIN(LK_RUN(header), LK_RUN(counts), LK_RUN(keys), LK_RUN(duplicate_keys), LK_RUN(values),
             LK_RUN(arrays), LK_RUN(alignment_key), LK_RUN(tensor_names), LK_RUN(tensor_shapes),
             LK_RUN(tensor_formats), LK_RUN(tensor_extents), LK_RUN(tensor_overlaps),
             LK_RUN(tensor_overlap_of_one_byte), LK_RUN(split_files), LK_RUN(paths),
             LK_RUN(directory_limit))
