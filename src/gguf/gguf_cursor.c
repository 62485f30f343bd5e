/* gguf_cursor.c - bounds-checked reading of a file's directory, error messages with place, and the
 * arena for names. Interprets nothing.
 * Invariant: no byte beyond the file or beyond LK_GGUF_MAX_DIRECTORY_BYTES (all files together) is
 * read. */
#include <stdarg.h>
#include <stdio.h>

#include "base/bytes.h"
#include "gguf/gguf_internal.h"

lk_status lk_gguf_fail_at(const lk_gguf_cursor *c, lk_status status, uint64_t offset,
                          const char *subject, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return lk_fail(c->err, status, LK_AT_OFFSET(offset, subject), "%s: byte %llu: %s",
                   c->part->label, (unsigned long long)offset, text);
}

uint64_t lk_gguf_left(const lk_gguf_cursor *c) {
    return c->part->size - c->part->pos;
}

static lk_status need(const lk_gguf_cursor *c, uint64_t offset, uint64_t n_bytes,
                      const char *subject, const char *what) {
    const uint64_t left = lk_gguf_left(c);
    const char *space = subject[0] != '\0' ? ": " : "";
    if (n_bytes > left) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, offset, subject,
                               "%.100s%s%s of %llu bytes, but the file has %llu bytes left",
                               subject, space, what, (unsigned long long)n_bytes,
                               (unsigned long long)left);
    }
    if (n_bytes > LK_GGUF_MAX_DIRECTORY_BYTES - c->gguf->directory_bytes) {
        return lk_gguf_fail_at(c, LK_E_LIMIT, offset, subject,
                               "%.100s%s%s: the directory is longer than the limit of %llu bytes",
                               subject, space, what,
                               (unsigned long long)LK_GGUF_MAX_DIRECTORY_BYTES);
    }
    return LK_OK;
}

static const uint8_t *take(lk_gguf_cursor *c, uint64_t n_bytes) {
    const uint8_t *p = c->part->data + c->part->pos;
    c->part->pos += n_bytes;
    c->gguf->directory_bytes += n_bytes;
    return p;
}

lk_status lk_gguf_skip(lk_gguf_cursor *c, uint64_t n_bytes, const char *subject, const char *what) {
    const lk_status status = need(c, c->part->pos, n_bytes, subject, what);
    if (status == LK_OK) {
        (void)take(c, n_bytes);
    }
    return status;
}

lk_status lk_gguf_read_u32(lk_gguf_cursor *c, uint32_t *out, const char *subject,
                           const char *what) {
    const lk_status status = need(c, c->part->pos, 4, subject, what);
    *out = status == LK_OK ? lk_load_u32(take(c, 4)) : 0;
    return status;
}

lk_status lk_gguf_read_u64(lk_gguf_cursor *c, uint64_t *out, const char *subject,
                           const char *what) {
    const lk_status status = need(c, c->part->pos, 8, subject, what);
    *out = status == LK_OK ? lk_load_u64(take(c, 8)) : 0;
    return status;
}

lk_status lk_gguf_read_string(lk_gguf_cursor *c, const char **bytes, uint64_t *n_bytes,
                              const char *subject, const char *what) {
    *bytes = NULL;
    const uint64_t start = c->part->pos;
    lk_status status = lk_gguf_read_u64(c, n_bytes, subject, what);
    if (status == LK_OK) {
        status = need(c, start, *n_bytes, subject, what);
    }
    if (status != LK_OK) {
        *n_bytes = 0;
        return status;
    }
    *bytes = (const char *)take(c, *n_bytes);
    return LK_OK;
}

lk_status lk_gguf_check_count(const lk_gguf_cursor *c, uint64_t offset, const char *what,
                              uint64_t n, uint64_t min_bytes, uint64_t limit) {
    const uint64_t most = lk_gguf_left(c) / min_bytes;
    if (n > most) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, offset, what,
                               "%s %llu, but the %llu bytes that follow hold at most %llu", what,
                               (unsigned long long)n, (unsigned long long)lk_gguf_left(c),
                               (unsigned long long)most);
    }
    if (n > limit) {
        return lk_gguf_fail_at(c, LK_E_LIMIT, offset, what, "%s %llu, the limit is %llu", what,
                               (unsigned long long)n, (unsigned long long)limit);
    }
    return LK_OK;
}

enum { FIRST_BLOCK_BYTES = 4096, MAX_BLOCK_BYTES = 1 << 20 };

void *lk_gguf_arena_alloc(lk_gguf_arena *arena, size_t n_bytes) {
    size_t rounded = 0;
    if (!lk_add_size(n_bytes, 7, &rounded)) {
        return NULL;
    }
    rounded &= ~(size_t)7;
    lk_gguf_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < rounded) {
        /* Each block is twice as long as the last, so the waste stays below the use. */
        size_t size = block == NULL ? FIRST_BLOCK_BYTES : block->size * 2;
        size_t least = 0;
        if (!lk_add_size(rounded, sizeof *block, &least)) {
            return NULL;
        }
        size = size > MAX_BLOCK_BYTES ? MAX_BLOCK_BYTES : size;
        size = size < least ? least : size;
        block = lk_alloc(arena->allocator, size);
        if (block == NULL) {
            return NULL;
        }
        block->next = arena->blocks;
        block->size = size;
        block->used = sizeof *block;
        arena->blocks = block;
    }
    void *ptr = (uint8_t *)block + block->used;
    block->used += rounded;
    return ptr;
}

void lk_gguf_arena_deinit(lk_gguf_arena *arena) {
    lk_gguf_block *block = arena->blocks;
    while (block != NULL) {
        lk_gguf_block *next = block->next;
        lk_free(arena->allocator, block, block->size);
        block = next;
    }
    arena->blocks = NULL;
}
