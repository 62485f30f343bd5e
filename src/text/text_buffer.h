/* text_buffer.h - a growable run of bytes over the caller's allocator. Growth is geometric, so
 * appending n bytes costs O(n). After a failed append the content is unchanged. */
#ifndef LK_TEXT_TEXT_BUFFER_H
#define LK_TEXT_TEXT_BUFFER_H

#include "base/alloc.h"

typedef struct lk_text_buffer {
    const lk_allocator *allocator;
    uint8_t *data;
    size_t n;
    size_t capacity;
} lk_text_buffer;

void lk_text_buffer_init(lk_text_buffer *b, const lk_allocator *allocator);
void lk_text_buffer_deinit(lk_text_buffer *b);
/* Room for n more bytes; false when memory is short. */
bool lk_text_buffer_reserve(lk_text_buffer *b, size_t n);
bool lk_text_buffer_append(lk_text_buffer *b, const void *data, size_t n);
bool lk_text_buffer_append_cp(lk_text_buffer *b, uint32_t cp);

#endif
