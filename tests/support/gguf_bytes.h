/* gguf_bytes.h - builds GGUF files in memory byte by byte, right or deliberately wrong, and
 * remembers nothing but bytes: independent of the library's writer.
 * Invariant: what is appended is exactly what the call says; a full buffer ends the program. */
#ifndef LK_TEST_GGUF_BYTES_H
#define LK_TEST_GGUF_BYTES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    uint8_t *data;
    size_t size;
    size_t capacity;
} bytes;

static inline void bytes_free(bytes *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

static inline void put_bytes(bytes *b, const void *data, size_t n) {
    if (b->size + n > b->capacity) {
        b->capacity = (b->size + n) * 2 + 256;
        b->data = realloc(b->data, b->capacity);
        if (b->data == NULL) {
            (void)fprintf(stderr, "out of memory\n");
            exit(1);
        }
    }
    if (n != 0) {
        memcpy(b->data + b->size, data, n);
    }
    b->size += n;
}

/* Little endian, n bytes of v. */
static inline void put_uint(bytes *b, uint64_t v, size_t n) {
    uint8_t le[8];
    for (size_t i = 0; i < 8; i++) {
        le[i] = (uint8_t)(v >> (8 * i));
    }
    put_bytes(b, le, n);
}
static inline void put_u32(bytes *b, uint64_t v) {
    put_uint(b, v, 4);
}
static inline void put_u64(bytes *b, uint64_t v) {
    put_uint(b, v, 8);
}
static inline void put_string(bytes *b, const char *s) {
    put_u64(b, strlen(s));
    put_bytes(b, s, strlen(s));
}
static inline void put_header(bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_meta) {
    put_bytes(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_meta);
}
/* A scalar entry: key, type, n bytes of v. */
static inline void put_scalar(bytes *b, const char *key, uint32_t type, uint64_t v, size_t n) {
    put_string(b, key);
    put_u32(b, type);
    put_uint(b, v, n);
}
static inline void put_text(bytes *b, const char *key, const char *value) {
    put_string(b, key);
    put_u32(b, 8);
    put_string(b, value);
}
static inline void put_array(bytes *b, const char *key, uint32_t elem_type, uint64_t n) {
    put_string(b, key);
    put_u32(b, 9);
    put_u32(b, elem_type);
    put_u64(b, n);
}
/* A directory entry of n_dims dimensions ne[]. */
static inline void put_tensor(bytes *b, const char *name, uint32_t n_dims, const uint64_t *ne,
                              uint32_t type, uint64_t offset) {
    put_string(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) {
        put_u64(b, ne[i]);
    }
    put_u32(b, type);
    put_u64(b, offset);
}
static inline void put_padding(bytes *b, size_t alignment) {
    while (b->size % alignment != 0) {
        put_uint(b, 0, 1);
    }
}
static inline void put_fill(bytes *b, uint8_t v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        put_uint(b, v, 1);
    }
}

#endif
