/* test_gguf_read.c - the GGUF reader on right files: values of every type, strings, arrays,
 * tensors, split models, look-ups and the digest. Wrong files: test_gguf_errors.c. */
#include <pthread.h>

#include "base/bytes.h"
#include "base/sha256.h"
#include "gguf/gguf_internal.h"
#include "gguf_bytes.h"
#include "lk_test.h"

static lk_gguf *open_bytes(const bytes *b) {
    lk_gguf *gguf = NULL;
    lk_error err;
    const lk_gguf_buffer file = {b->data, b->size};
    REQUIRE_OK(lk_gguf_open_memory(&file, 1, NULL, &gguf, &err), err);
    return gguf;
}

static lk_gguf_value get(const lk_gguf *gguf, const char *key) {
    lk_gguf_value value;
    lk_error err;
    REQUIRE_OK(lk_gguf_find(gguf, key, &value, &err), err);
    return value;
}

/* One entry of each type, an array of strings, two tensors of different formats. */
static void put_sample(bytes *b, uint32_t version) {
    put_header(b, version, 2, 16);
    put_scalar(b, "a.u8", 0, 200, 1);
    put_scalar(b, "a.i8", 1, (uint64_t)-5, 1);
    put_scalar(b, "a.u16", 2, 60000, 2);
    put_scalar(b, "a.i16", 3, (uint64_t)-300, 2);
    put_scalar(b, "a.u32", 4, 4000000000u, 4);
    put_scalar(b, "a.i32", 5, (uint64_t)-70000, 4);
    put_scalar(b, "a.f32", 6, 0x3fc00000u, 4);
    put_scalar(b, "a.bool", 7, 1, 1);
    put_text(b, "a.string", "na\xc3\xafve");
    put_scalar(b, "a.u64", 10, 0xfedcba9876543210u, 8);
    put_scalar(b, "a.i64", 11, (uint64_t)-1, 8);
    put_scalar(b, "a.f64", 12, 0xc000000000000000u, 8);
    put_array(b, "z.strings", 8, 4);
    put_string(b, "one");
    put_string(b, "");
    put_string(b, "three");
    put_string(b, "\n");
    put_array(b, "y.i16s", 3, 3);
    put_uint(b, 1, 2);
    put_uint(b, 0xffff, 2);
    put_uint(b, 3, 2);
    put_array(b, "x.empty", 8, 0);
    put_array(b, "w.bools", 7, 2);
    put_uint(b, 0x0001, 2);
    put_tensor(b, "weights", 2, (const uint64_t[]){64, 3}, 8, 64); /* Q8_0 */
    put_tensor(b, "bias", 1, (const uint64_t[]){5}, 0, 0);
    put_padding(b, 32);
    put_fill(b, 0x11, 20);
    put_padding(b, 32);
    put_fill(b, 0, 32);
    put_fill(b, 0x22, 6 * 34);
}

static void check_scalars(const lk_gguf *gguf) {
    CHECK(get(gguf, "a.u8").i == 200 && get(gguf, "a.u8").type == LK_GGUF_U8);
    CHECK(get(gguf, "a.i8").i == -5);
    CHECK(get(gguf, "a.u16").i == 60000);
    CHECK(get(gguf, "a.i16").i == -300);
    CHECK(get(gguf, "a.u32").i == 4000000000);
    CHECK(get(gguf, "a.i32").i == -70000);
    CHECK(lk_f64_bits(get(gguf, "a.f32").f) == lk_f64_bits(1.5));
    CHECK(get(gguf, "a.bool").i == 1 && get(gguf, "a.bool").type == LK_GGUF_BOOL);
    CHECK((uint64_t)get(gguf, "a.u64").i == 0xfedcba9876543210u);
    CHECK(get(gguf, "a.i64").i == -1);
    CHECK(lk_f64_bits(get(gguf, "a.f64").f) == lk_f64_bits(-2.0));
    const lk_gguf_value s = get(gguf, "a.string");
    CHECK(s.type == LK_GGUF_STRING && s.n == 6 && memcmp(s.str, "na\xc3\xafve", 6) == 0);
}

static void check_arrays(const lk_gguf *gguf) {
    lk_gguf_value a = get(gguf, "z.strings");
    CHECK(a.type == LK_GGUF_ARRAY && a.elem_type == LK_GGUF_STRING && a.n == 4);
    static const char *const expected[4] = {"one", "", "three", "\n"};
    const char *str;
    uint64_t n;
    lk_error err;
    for (uint64_t i = 0; i < 4; i++) {
        REQUIRE_OK(lk_gguf_array_string(gguf, &a, i, &str, &n, &err), err);
        CHECK(n == strlen(expected[i]) && memcmp(str, expected[i], n) == 0);
    }
    CHECK_STATUS(LK_E_ARG, lk_gguf_array_string(gguf, &a, 4, &str, &n, &err));
    CHECK(str == NULL && n == 0);
    const lk_gguf_value i16 = get(gguf, "y.i16s");
    CHECK(i16.n == 3 && lk_load_u16((const uint8_t *)i16.arr + 2) == 0xffff);
    CHECK_STATUS(LK_E_ARG, lk_gguf_array_string(gguf, &i16, 0, &str, &n, &err));
    const lk_gguf_value empty = get(gguf, "x.empty");
    CHECK(empty.n == 0);
    CHECK_STATUS(LK_E_ARG, lk_gguf_array_string(gguf, &empty, 0, &str, &n, &err));
    lk_gguf_value other = a;
    other.arr = (const uint8_t *)a.arr + 1;
    CHECK_STATUS(LK_E_ARG, lk_gguf_array_string(gguf, &other, 0, &str, &n, &err));
    a.i_meta = 99999;
    CHECK_STATUS(LK_E_ARG, lk_gguf_array_string(gguf, &a, 0, &str, &n, &err));
    CHECK(get(gguf, "w.bools").n == 2);
}

static void check_tensors(const lk_gguf *gguf, const bytes *b) {
    lk_gguf_tensor t;
    lk_error err;
    CHECK(lk_gguf_n_tensors(gguf) == 2);
    REQUIRE_OK(lk_gguf_tensor_at(gguf, 0, &t, &err), err);
    CHECK(strcmp(t.name, "weights") == 0 && t.type == 8 && t.n_dims == 2);
    CHECK(t.ne[0] == 64 && t.ne[1] == 3 && t.ne[2] == 1 && t.ne[3] == 1);
    CHECK(t.n_bytes == 6 * 34 && t.offset == b->size - 6 * 34);
    CHECK((const uint8_t *)t.data == b->data + t.offset && t.i_file == 0);
    REQUIRE_OK(lk_gguf_find_tensor(gguf, "bias", &t, &err), err);
    CHECK(t.n_bytes == 20 && t.n_dims == 1 && ((const uint8_t *)t.data)[19] == 0x11);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_gguf_find_tensor(gguf, "bia", &t, &err));
    CHECK(t.name == NULL && strcmp(err.subject, "bia") == 0);
    CHECK_STATUS(LK_E_NOT_FOUND, lk_gguf_find_tensor(gguf, NULL, &t, &err));
    lk_gguf_value value;
    CHECK_STATUS(LK_E_NOT_FOUND, lk_gguf_find(gguf, NULL, &value, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_tensor_at(gguf, 2, &t, &err));
}

LK_TEST(every_value_type) {
    for (uint32_t version = 2; version <= 3; version++) {
        bytes b = {0};
        put_sample(&b, version);
        lk_gguf *gguf = open_bytes(&b);
        CHECK(lk_gguf_version(gguf) == version && lk_gguf_n_files(gguf) == 1);
        CHECK(lk_gguf_n_meta(gguf) == 16 && lk_gguf_file_bytes(gguf) == b.size);
        check_scalars(gguf);
        check_arrays(gguf);
        check_tensors(gguf, &b);
        const char *key;
        lk_gguf_value value;
        lk_error err;
        REQUIRE_OK(lk_gguf_meta(gguf, 12, &key, &value, &err), err);
        CHECK(strcmp(key, "z.strings") == 0 && value.i_meta == 12);
        CHECK_STATUS(LK_E_ARG, lk_gguf_meta(gguf, 16, &key, &value, &err));
        CHECK_STATUS(LK_E_NOT_FOUND, lk_gguf_find(gguf, "a.u", &value, &err));
        lk_gguf_close(gguf);
        bytes_free(&b);
    }
}

LK_TEST(smallest_file) {
    bytes b = {0};
    put_header(&b, 3, 0, 0);
    lk_gguf *gguf = open_bytes(&b);
    CHECK(lk_gguf_n_meta(gguf) == 0 && lk_gguf_n_tensors(gguf) == 0);
    uint8_t digest[32];
    lk_error err;
    REQUIRE_OK(lk_gguf_digest(gguf, 1, NULL, NULL, digest, &err), err);
    lk_gguf_close(gguf);
    bytes_free(&b);
}

LK_TEST(alignment_is_honoured) {
    bytes b = {0};
    put_header(&b, 3, 2, 1);
    put_scalar(&b, "general.alignment", 4, 8, 4);
    put_tensor(&b, "a", 1, (const uint64_t[]){1}, 0, 0);
    put_tensor(&b, "b", 1, (const uint64_t[]){1}, 0, 8);
    put_padding(&b, 8);
    const size_t start = b.size;
    put_fill(&b, 7, 12);
    lk_gguf *gguf = open_bytes(&b);
    lk_gguf_tensor t;
    lk_error err;
    REQUIRE_OK(lk_gguf_find_tensor(gguf, "b", &t, &err), err);
    CHECK(t.offset == start + 8);
    lk_gguf_close(gguf);
    bytes_free(&b);
}

/* Many names, so that sorting and searching see more than a handful; some are prefixes of others.
 */
LK_TEST(many_names) {
    enum { N = 3000 };
    bytes b = {0};
    put_header(&b, 3, N, N);
    char name[64];
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "k.%d", (i * 7919) % N);
        put_scalar(&b, name, 4, (uint64_t)((i * 7919) % N), 4);
    }
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "t.%d", (i * 7919) % N);
        put_tensor(&b, name, 1, (const uint64_t[]){8}, 0, 32u * (uint64_t)((i * 1013) % N));
    }
    put_padding(&b, 32);
    put_fill(&b, 0, 32 * N);
    lk_gguf *gguf = open_bytes(&b);
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "k.%d", i);
        CHECK(get(gguf, name).i == i);
        (void)snprintf(name, sizeof name, "t.%d", (i * 7919) % N);
        lk_gguf_tensor t;
        CHECK_STATUS(LK_OK, lk_gguf_find_tensor(gguf, name, &t, NULL));
        CHECK(t.offset == b.size - 32 * N + 32u * (uint64_t)((i * 1013) % N));
    }
    lk_gguf_close(gguf);
    bytes_free(&b);
}

static void put_split(bytes *b, uint32_t number, uint32_t count, uint32_t n_tensors,
                      const char *tensor) {
    put_header(b, 3, 1, number == 0 ? 4 : 3);
    put_scalar(b, "split.no", 2, number, 2);
    put_scalar(b, "split.count", 2, count, 2);
    put_scalar(b, "split.tensors.count", 5, n_tensors, 4);
    if (number == 0) {
        put_text(b, "general.name", "in parts");
    }
    put_tensor(b, tensor, 1, (const uint64_t[]){4}, 0, 0);
    put_padding(b, 32);
    put_fill(b, (uint8_t)(number + 1), 16);
}

LK_TEST(split_in_memory) {
    bytes b[3] = {{0}};
    static const char *const names[3] = {"c", "a", "b"};
    lk_gguf_buffer files[3];
    for (uint32_t i = 0; i < 3; i++) {
        put_split(&b[i], i, 3, 3, names[i]);
        files[i] = (lk_gguf_buffer){b[i].data, b[i].size};
    }
    lk_gguf *gguf = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_open_memory(files, 3, NULL, &gguf, &err), err);
    CHECK(lk_gguf_n_files(gguf) == 3 && lk_gguf_n_tensors(gguf) == 3 && lk_gguf_n_meta(gguf) == 4);
    CHECK(lk_gguf_file_bytes(gguf) == b[0].size + b[1].size + b[2].size);
    for (uint32_t i = 0; i < 3; i++) {
        lk_gguf_tensor t;
        REQUIRE_OK(lk_gguf_find_tensor(gguf, names[i], &t, &err), err);
        CHECK(t.i_file == i && *(const uint8_t *)t.data == i + 1);
    }
    lk_gguf_close(gguf);
    for (uint32_t i = 0; i < 3; i++) {
        bytes_free(&b[i]);
    }
}

/* The digest by its definition, with one call of SHA-256 per piece. */
static void expected_digest(const uint8_t *data, size_t size, size_t directory, uint8_t out[32]) {
    lk_sha256 all;
    uint8_t piece[32];
    lk_sha256_init(&all);
    lk_sha256_of(data, directory, piece);
    lk_sha256_update(&all, piece, 32);
    for (size_t at = directory; at < size; at += (size_t)4 << 20) {
        const size_t left = size - at;
        lk_sha256_of(data + at, left < (size_t)4 << 20 ? left : (size_t)4 << 20, piece);
        lk_sha256_update(&all, piece, 32);
    }
    lk_sha256_final(&all, out);
}

static int count_progress(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    int *calls = ctx;
    CHECK(strcmp(phase, "digest") == 0 && done <= total);
    (*calls)++;
    return *calls < 100;
}
static int stop_at_once(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    (void)phase;
    (void)done;
    (void)total;
    return --*(int *)ctx > 0;
}

LK_TEST(digest_definition) {
    bytes b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "t", 1, (const uint64_t[]){9000001}, 24, 0); /* i8 */
    put_padding(&b, 32);
    const size_t directory = b.size;
    for (uint32_t i = 0; i < 9000001; i += 64) {
        put_fill(&b, (uint8_t)(i >> 8), i + 64 <= 9000001 ? 64 : 9000001 - i);
    }
    uint8_t expected[32];
    expected_digest(b.data, b.size, directory, expected);
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
        lk_gguf *gguf = open_bytes(&b);
        uint8_t digest[32];
        lk_error err;
        int calls = n_threads == 1 ? 1 : 2;
        CHECK_STATUS(LK_E_CANCELLED,
                     lk_gguf_digest(gguf, n_threads, stop_at_once, &calls, digest, &err));
        calls = 0;
        REQUIRE_OK(lk_gguf_digest(gguf, n_threads, count_progress, &calls, digest, &err), err);
        CHECK(calls >= 2 && memcmp(digest, expected, 32) == 0);
        memset(digest, 0, 32);
        REQUIRE_OK(lk_gguf_digest(gguf, 1, NULL, NULL, digest, &err), err);
        CHECK(memcmp(digest, expected, 32) == 0);
        lk_gguf_close(gguf);
    }
    bytes_free(&b);
}

typedef struct digest_caller {
    lk_gguf *gguf;
    uint8_t digest[32];
    lk_status status;
} digest_caller;

static void *call_digest(void *arg) {
    digest_caller *c = arg;
    c->status = lk_gguf_digest(c->gguf, 2, NULL, NULL, c->digest, NULL);
    return NULL;
}

/* Threads that meet in the first call all get the digest. */
LK_TEST(digest_from_many_threads) {
    bytes b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "t", 1, (const uint64_t[]){300000}, 24, 0);
    put_padding(&b, 32);
    put_fill(&b, 5, 300000);
    uint8_t expected[32];
    expected_digest(b.data, b.size, 64, expected);
    for (int round = 0; round < 20; round++) {
        enum { N = 4 };
        lk_gguf *gguf = open_bytes(&b);
        digest_caller callers[N];
        pthread_t threads[N];
        for (int i = 0; i < N; i++) {
            callers[i] = (digest_caller){gguf, {0}, LK_E_INTERNAL};
            CHECK(pthread_create(&threads[i], NULL, call_digest, &callers[i]) == 0);
        }
        for (int i = 0; i < N; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            CHECK(callers[i].status == LK_OK && memcmp(callers[i].digest, expected, 32) == 0);
        }
        lk_gguf_close(gguf);
    }
    bytes_free(&b);
}

/* What was mapped is unmapped, also when the file is refused (Linux shows the mappings). */
LK_TEST(mappings_are_given_back) {
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL) {
        return;
    }
    (void)fclose(maps);
    lk_gguf *gguf = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &gguf, &err), err);
    lk_gguf_close(gguf);
    CHECK_STATUS(LK_E_FORMAT, lk_gguf_open(LK_SOURCE_DIR "/LICENSE", NULL, &gguf, &err));
    maps = fopen("/proc/self/maps", "r");
    char line[1024];
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        CHECK(strstr(line, "tiny-q4_k_m.gguf") == NULL && strstr(line, "/LICENSE") == NULL);
    }
    CHECK(maps != NULL && fclose(maps) == 0);
}

LK_TEST(names_of_formats) {
    CHECK(strcmp(lk_format_name(12), "Q4_K") == 0 && lk_format_is_supported(12));
    CHECK(strcmp(lk_format_name(16), "IQ2_XXS") == 0 && !lk_format_is_supported(16));
    CHECK(lk_format_name(4) == NULL && lk_format_name(UINT32_MAX) == NULL);
    CHECK(!lk_format_is_supported(UINT32_MAX));
    CHECK(strcmp(lk_gguf_type_name(LK_GGUF_F64), "f64") == 0);
    CHECK(strcmp(lk_gguf_type_name((lk_gguf_type)13), "?") == 0);
}

LK_TEST_MAIN(LK_RUN(every_value_type), LK_RUN(smallest_file), LK_RUN(alignment_is_honoured),
             LK_RUN(many_names), LK_RUN(split_in_memory), LK_RUN(digest_definition),
             LK_RUN(digest_from_many_threads), LK_RUN(mappings_are_given_back),
             LK_RUN(names_of_formats))
