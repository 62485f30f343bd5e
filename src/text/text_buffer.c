/* text_buffer.c - see text_buffer.h. */
#include "text/text_buffer.h"

#include <string.h>

#include "text/unicode/unicode.h"

void lk_text_buffer_init(lk_text_buffer *b, const lk_allocator *allocator) {
    *b = (lk_text_buffer){.allocator = allocator};
}

void lk_text_buffer_deinit(lk_text_buffer *b) {
    lk_free(b->allocator, b->data, b->capacity);
    *b = (lk_text_buffer){.allocator = b->allocator};
}

bool lk_text_buffer_reserve(lk_text_buffer *b, size_t n) {
    size_t needed = 0;
    if (!lk_add_size(b->n, n, &needed)) {
        return false;
    }
    if (needed <= b->capacity) {
        return true;
    }
    const size_t grown = b->capacity + b->capacity / 2;
    const size_t capacity = needed > grown ? needed : grown;
    uint8_t *data = lk_alloc(b->allocator, capacity);
    if (data == NULL) {
        return false;
    }
    if (b->n != 0) {
        memcpy(data, b->data, b->n);
    }
    lk_free(b->allocator, b->data, b->capacity);
    b->data = data;
    b->capacity = capacity;
    return true;
}

bool lk_text_buffer_append(lk_text_buffer *b, const void *data, size_t n) {
    if (!lk_text_buffer_reserve(b, n)) {
        return false;
    }
    if (n != 0) {
        memcpy(b->data + b->n, data, n);
        b->n += n;
    }
    return true;
}

bool lk_text_buffer_append_cp(lk_text_buffer *b, uint32_t cp) {
    if (!lk_text_buffer_reserve(b, 4)) {
        return false;
    }
    b->n += lk_utf8_put(cp, b->data + b->n);
    return true;
}
