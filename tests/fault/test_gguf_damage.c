/* test_gguf_damage.c - the tiny model cut short, with flipped bits and overwritten fields, and
 * every failing allocation: each open ends in success or a status with details, in bounded memory
 * and time, and what opens can be walked to its last byte. Run it with a sanitizer: the copies are
 * allocated at exactly the file's size. */
#include <stdbool.h>
#include <time.h>

#include "gguf/gguf_internal.h"
#include "gguf_bytes.h"
#include "lk_test.h"

/* An allocator that remembers the most bytes in use. */
typedef struct peak_allocator {
    lk_allocator base;
    size_t live;
    size_t peak;
} peak_allocator;

static void *peak_alloc(void *ctx, size_t size, size_t align) {
    peak_allocator *p = ctx;
    p->live += size;
    p->peak = p->live > p->peak ? p->live : p->peak;
    return aligned_alloc(align, (size + align - 1) & ~(align - 1));
}
static void peak_free(void *ctx, void *ptr, size_t size, size_t align) {
    peak_allocator *p = ctx;
    (void)align;
    p->live -= size;
    free(ptr);
}

static double cpu_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Reads everything that the API gives out; the sum keeps the reads alive. */
static uint64_t walk(const lk_gguf *gguf) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < lk_gguf_n_meta(gguf); i++) {
        const char *key;
        lk_gguf_value v;
        lk_gguf_value again;
        CHECK_STATUS(LK_OK, lk_gguf_meta(gguf, i, &key, &v, NULL));
        CHECK_STATUS(LK_OK, lk_gguf_find(gguf, key, &again, NULL));
        CHECK(again.i_meta == i);
        if (v.type == LK_GGUF_STRING && v.n != 0) {
            sum += (uint8_t)v.str[0] + (uint8_t)v.str[v.n - 1];
        }
        if (v.type == LK_GGUF_ARRAY && v.elem_type != LK_GGUF_STRING && v.n != 0) {
            const uint8_t *arr = v.arr;
            sum += arr[0] + arr[v.n * lk_gguf_type_bytes(v.elem_type) - 1];
        }
        for (uint64_t k = 0; v.elem_type == LK_GGUF_STRING && k < v.n; k++) {
            const char *str;
            uint64_t n;
            CHECK_STATUS(LK_OK, lk_gguf_array_string(gguf, &v, k, &str, &n, NULL));
            sum += n != 0 ? (uint8_t)str[0] + (uint8_t)str[n - 1] : 1;
        }
    }
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        lk_gguf_tensor t;
        CHECK_STATUS(LK_OK, lk_gguf_tensor_at(gguf, i, &t, NULL));
        CHECK(lk_format_name(t.type) != NULL && t.n_bytes != 0);
        sum += ((const uint8_t *)t.data)[0] + ((const uint8_t *)t.data)[t.n_bytes - 1];
    }
    return sum;
}

typedef struct tally {
    uint64_t n_ok;
    uint64_t n_failed;
    double slowest;
} tally;

/* Opens the bytes and checks what must hold for any input. */
static lk_status try_open(const uint8_t *data, size_t size, tally *t) {
    peak_allocator p = {{&p, peak_alloc, peak_free}, 0, 0};
    const lk_gguf_buffer file = {data, size};
    lk_gguf *gguf = NULL;
    lk_error err = {0};
    const double start = cpu_seconds();
    const lk_status status = lk_gguf_open_memory(&file, 1, &p.base, &gguf, &err);
    const double seconds = cpu_seconds() - start;
    t->slowest = seconds > t->slowest ? seconds : t->slowest;
    if (status == LK_OK) {
        t->n_ok++;
        (void)walk(gguf);
        lk_gguf_close(gguf);
    } else {
        t->n_failed++;
        CHECK(gguf == NULL);
        CHECK_MSG(status == LK_E_FORMAT || status == LK_E_UNSUPPORTED || status == LK_E_LIMIT ||
                      status == LK_E_ARG,
                  "%s: %s", lk_status_name(status), err.message);
        CHECK_MSG(err.status == status && err.message[0] != '\0' && err.offset <= size,
                  "%s at %llu: %s", lk_status_name(status), (unsigned long long)err.offset,
                  err.message);
    }
    CHECK(p.live == 0);
    CHECK_MSG(p.peak <= 12 * size + 16384, "%zu bytes of memory for a file of %zu", p.peak, size);
    return status;
}

static void report(const char *what, const tally *t) {
    (void)printf("  %s: %llu opened, %llu refused, slowest %.1f ms\n", what,
                 (unsigned long long)t->n_ok, (unsigned long long)t->n_failed, t->slowest * 1e3);
    CHECK_MSG(t->slowest < 5.0, "one open took %.3f s of processor time", t->slowest);
}

static uint8_t *load_tiny(size_t *size, size_t *directory) {
    uint8_t *data = lk_test_read(lk_test_data("models/tiny-q4_k_m.gguf"), size);
    const lk_gguf_buffer file = {data, *size};
    lk_gguf *gguf = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_open_memory(&file, 1, NULL, &gguf, &err), err);
    *directory = (size_t)gguf->parts[0].data_start;
    lk_gguf_close(gguf);
    return data;
}

/* LK_FULL=1: every byte of the directory, not only the marked ones and a sample. */
static bool is_full(void) {
    const char *text = getenv("LK_FULL");
    return text != NULL && text[0] != '\0';
}

/* Marks the start of every field of the directory, and the bytes just before and behind. */
static uint8_t *mark_boundaries(const uint8_t *data, size_t size, size_t directory) {
    uint8_t *marks = calloc(directory + 16, 1);
    const lk_gguf_buffer file = {data, size};
    lk_gguf *gguf = NULL;
    if (marks == NULL || lk_gguf_open_memory(&file, 1, NULL, &gguf, NULL) != LK_OK) {
        exit(1);
    }
    const lk_gguf_part *part = &gguf->parts[0];
    for (uint64_t i = 0; i < part->n_meta; i++) {
        const lk_gguf_entry *e = &part->entries[i];
        const uint64_t at[5] = {e->key_offset, e->key_offset + 8, e->type_offset, e->value.offset,
                                e->end_offset};
        for (int k = 0; k < 5; k++) {
            memset(marks + at[k] - 1, 1, 3);
        }
        if (e->value.type == LK_GGUF_ARRAY) {
            memset(marks + e->value.offset, 1, 14); /* type, count, first bytes */
        }
        for (uint64_t k = 0; e->starts != NULL && k <= e->value.n; k += 97) {
            memset(marks + e->starts[k] - 1, 1, 11);
        }
    }
    for (uint64_t i = 0; i < gguf->n_tensors; i++) {
        const size_t start = (size_t)gguf->tensors[i].entry_offset;
        const size_t end = (size_t)gguf->tensors[i].offset_offset + 8;
        memset(marks + start, 1, end - start);
    }
    memset(marks, 1, 4096);
    lk_gguf_close(gguf);
    return marks;
}

LK_TEST(truncated) {
    size_t size;
    size_t directory;
    uint8_t *data = load_tiny(&size, &directory);
    uint8_t *marks = mark_boundaries(data, size, directory);
    uint64_t seed = lk_test_seed(1);
    const bool full = is_full();
    tally t = {0};
    for (size_t n = 0; n < directory; n++) {
        if (full || marks[n] || lk_test_random(&seed) % 251 == 0) {
            uint8_t *copy = malloc(n != 0 ? n : 1);
            if (copy == NULL) {
                exit(1);
            }
            memcpy(copy, data, n);
            CHECK_MSG(try_open(copy, n, &t) == LK_E_FORMAT, "cut at byte %zu", n);
            free(copy);
        }
    }
    /* In the tensor data: the file is complete only with its last tensor. */
    for (int i = 0; i < 60; i++) {
        const size_t n = i < 20 ? size - 32 - (size_t)i
                                : directory + lk_test_random(&seed) % (size - 64 - directory);
        CHECK_MSG(try_open(data, n, &t) == LK_E_FORMAT, "cut at byte %zu", n);
    }
    report("truncated", &t);
    CHECK(t.n_ok == 0 && try_open(data, size, &t) == LK_OK);
    free(marks);
    free(data);
}

/* One flipped bit per marked byte, another one each time the test meets the byte's number. */
LK_TEST(flipped_bits) {
    size_t size;
    size_t directory;
    uint8_t *data = load_tiny(&size, &directory);
    uint8_t *marks = mark_boundaries(data, size, directory);
    uint64_t seed = lk_test_seed(2);
    const bool full = is_full();
    tally t = {0};
    for (size_t i = 0; i < directory; i++) {
        if (full || marks[i] || lk_test_random(&seed) % 251 == 0) {
            const uint8_t flip = (uint8_t)(1u << (lk_test_random(&seed) % 8));
            data[i] ^= flip;
            (void)try_open(data, size, &t);
            data[i] ^= flip;
        }
    }
    report("flipped bits", &t);
    CHECK(t.n_ok != 0 && t.n_failed != 0);
    free(marks);
    free(data);
}

/* Whole fields replaced by the values that break arithmetic. */
LK_TEST(hostile_fields) {
    static const uint64_t values[] = {0,
                                      1,
                                      0x7fffffffu,
                                      0x80000000u,
                                      0xffffffffu,
                                      0x100000000u,
                                      0x7fffffffffffffffu,
                                      0x8000000000000000u,
                                      0xffffffffffffffe0u,
                                      0xfffffffffffffff8u,
                                      0xffffffffffffffffu};
    size_t size;
    size_t directory;
    uint8_t *data = load_tiny(&size, &directory);
    uint8_t *marks = mark_boundaries(data, size, directory);
    uint64_t seed = lk_test_seed(3);
    tally t = {0};
    for (size_t i = 0; i + 8 < directory; i++) {
        if (marks[i] && (i < 512 || lk_test_random(&seed) % 8 == 0)) {
            uint8_t kept[8];
            const uint64_t v = values[lk_test_random(&seed) % (sizeof values / sizeof values[0])];
            memcpy(kept, data + i, 8);
            for (size_t k = 0; k < 8; k++) {
                data[i + k] = (uint8_t)(v >> (8 * k));
            }
            (void)try_open(data, size, &t);
            memcpy(data + i, kept, 8);
        }
    }
    report("hostile fields", &t);
    free(marks);
    free(data);
}

/* Many long names with one beginning, in the order that is worst for a heap: no quadratic time. */
LK_TEST(long_common_names) {
    enum { N = 12000, PREFIX = 500 };
    bytes b = {0};
    char name[PREFIX + 16];
    memset(name, 'a', PREFIX);
    put_header(&b, 3, N, N);
    for (int i = 0; i < N; i++) {
        (void)snprintf(name + PREFIX, 16, "%07d", (N - i) * 31 % N + (i & 1) * N);
        put_scalar(&b, name, 0, 1, 1);
    }
    for (int i = 0; i < N; i++) {
        (void)snprintf(name + PREFIX, 16, "%07d", N - i);
        put_tensor(&b, name, 1, (const uint64_t[]){1}, 24, 32u * (uint64_t)(N - i - 1));
    }
    put_padding(&b, 32);
    put_fill(&b, 0, 32 * N);
    tally t = {0};
    CHECK(try_open(b.data, b.size, &t) == LK_OK);
    report("long common names", &t);
    bytes_free(&b);
}

static void put_split(bytes *b, uint32_t number) {
    put_header(b, 3, 1, 4);
    put_scalar(b, "split.no", 2, number, 2);
    put_scalar(b, "split.count", 2, 2, 2);
    put_scalar(b, "split.tensors.count", 5, 2, 4);
    put_array(b, "words", 8, 2);
    put_string(b, "one");
    put_string(b, "two");
    put_tensor(b, number == 0 ? "a" : "b", 1, (const uint64_t[]){1}, 0, 0);
    put_padding(b, 32);
    put_fill(b, 0, 4);
}

/* Opens with the n-th allocation failing, for every n, once and from then on. */
static void fail_allocations(const char *path, const lk_gguf_buffer *files, uint32_t n_files) {
    for (int persistent = 0; persistent < 2; persistent++) {
        for (uint64_t n = 1;; n++) {
            lk_test_allocator t;
            lk_test_allocator_init(&t);
            t.fail_at = n;
            t.persistent = persistent;
            lk_gguf *gguf = NULL;
            lk_error err;
            lk_status status = path != NULL
                                   ? lk_gguf_open(path, &t.base, &gguf, &err)
                                   : lk_gguf_open_memory(files, n_files, &t.base, &gguf, &err);
            uint8_t digest[32];
            if (status == LK_OK) {
                status = lk_gguf_digest(gguf, 2, NULL, NULL, digest, &err);
                if (status != LK_OK) { /* the file stays usable */
                    t.fail_at = 0;
                    CHECK_STATUS(LK_OK, lk_gguf_digest(gguf, 2, NULL, NULL, digest, &err));
                }
                (void)walk(gguf);
            }
            lk_gguf_close(gguf);
            CHECK(t.n_live == 0 && t.live_bytes == 0);
            if (t.n_failed == 0) {
                CHECK(status == LK_OK && n > 5);
                break;
            }
            CHECK_MSG(status == LK_E_NOMEM && err.status == LK_E_NOMEM, "allocation %llu: %s",
                      (unsigned long long)n, lk_status_name(status));
        }
    }
}

LK_TEST(failing_allocations) {
    fail_allocations(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, 0);
    bytes a = {0};
    bytes b = {0};
    put_split(&a, 0);
    put_split(&b, 1);
    const lk_gguf_buffer files[2] = {{a.data, a.size}, {b.data, b.size}};
    fail_allocations(NULL, files, 2);
    bytes_free(&a);
    bytes_free(&b);
}

LK_TEST_MAIN(LK_RUN(truncated), LK_RUN(flipped_bits), LK_RUN(hostile_fields),
             LK_RUN(long_common_names), LK_RUN(failing_allocations))
