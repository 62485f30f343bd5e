/* fuzz_gguf.c - the GGUF reader on any bytes. An input is one file, or, when it begins with "SPLT"
 * and a 32-bit length, two files of a split model: the first of that length, then the rest.
 * Invariants: a status with a message or a file that can be walked wholly; memory in proportion to
 * the input and all given back. The inputs are copied to their exact size, so that a sanitizer sees
 * any byte read beyond. */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "gguf/gguf_internal.h"

static uint32_t sum_of(const void *data, uint64_t n) {
    const uint8_t *p = data;
    uint32_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        sum += p[i];
    }
    return sum;
}

static uint32_t walk_meta(const lk_gguf *gguf) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < lk_gguf_n_meta(gguf); i++) {
        const char *key;
        lk_gguf_value v;
        lk_gguf_value found;
        fuzz_check(lk_gguf_meta(gguf, i, &key, &v, NULL) == LK_OK);
        fuzz_check(lk_gguf_find(gguf, key, &found, NULL) == LK_OK && found.i_meta == i);
        fuzz_check(v.type != LK_GGUF_BOOL || v.i == 0 || v.i == 1);
        if (v.type == LK_GGUF_STRING) {
            sum += sum_of(v.str, v.n);
        } else if (v.type == LK_GGUF_ARRAY && v.elem_type != LK_GGUF_STRING) {
            sum += sum_of(v.arr, v.n * lk_gguf_type_bytes(v.elem_type));
        } else if (v.type == LK_GGUF_ARRAY) {
            for (uint64_t k = 0; k < v.n; k++) {
                const char *str;
                uint64_t n;
                fuzz_check(lk_gguf_array_string(gguf, &v, k, &str, &n, NULL) == LK_OK);
                sum += sum_of(str, n);
            }
        }
    }
    return sum;
}

static uint32_t walk_tensors(const lk_gguf *gguf) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        lk_gguf_tensor t;
        lk_gguf_tensor found;
        fuzz_check(lk_gguf_tensor_at(gguf, i, &t, NULL) == LK_OK);
        fuzz_check(lk_gguf_find_tensor(gguf, t.name, &found, NULL) == LK_OK);
        fuzz_check(found.data == t.data && t.n_dims >= 1 && t.n_dims <= 4);
        fuzz_check(lk_format_name(t.type) != NULL);
        sum += sum_of(t.data, t.n_bytes);
    }
    return sum;
}

static void try_files(const lk_gguf_buffer *files, uint32_t n_files, size_t size) {
    fuzz_memory c;
    fuzz_memory_init(&c);
    lk_gguf *gguf = NULL;
    lk_error err = {0};
    const lk_status status = lk_gguf_open_memory(files, n_files, &c.base, &gguf, &err);
    if (status == LK_OK) {
        static volatile uint32_t sink;
        uint8_t digest[32];
        sink = walk_meta(gguf) + walk_tensors(gguf);
        (void)sink;
        fuzz_check(lk_gguf_digest(gguf, 1, NULL, NULL, digest, NULL) == LK_OK);
        lk_gguf_close(gguf);
    } else {
        fuzz_check(gguf == NULL && err.status == status && err.message[0] != '\0');
        fuzz_check(status == LK_E_FORMAT || status == LK_E_UNSUPPORTED || status == LK_E_LIMIT ||
                   status == LK_E_ARG);
    }
    fuzz_check(c.live == 0);
    fuzz_check(c.peak <= 12 * size + 16384);
}

static void *exact_copy(const uint8_t *data, size_t size) {
    void *copy = malloc(size != 0 ? size : 1);
    fuzz_check(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lk_gguf_buffer files[2];
    uint32_t n_files = 1;
    const size_t whole = size;
    if (size >= 8 && memcmp(data, "SPLT", 4) == 0) {
        const uint32_t first = lk_load_u32(data + 4);
        data += 8;
        size -= 8;
        if (first <= size) {
            n_files = 2;
            files[1] = (lk_gguf_buffer){exact_copy(data + first, size - first), size - first};
            size = first;
        }
    }
    files[0] = (lk_gguf_buffer){exact_copy(data, size), size};
    try_files(files, n_files, whole);
    for (uint32_t i = 0; i < n_files; i++) {
        void *copy;
        memcpy(&copy, &files[i].data, sizeof copy);
        free(copy);
    }
    return 0;
}
