/* gguf_internal.h - what the files of the GGUF reader share: the parts of an open model, the
 * bounds-checked cursor, the arena for names and the sorted index. Not for other modules, except
 * lk_gguf_open_memory (tests, fuzzing). */
#ifndef LK_GGUF_INTERNAL_H
#define LK_GGUF_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/filemap.h"
#include "lk/gguf.h"

#define LK_GGUF_DEFAULT_ALIGNMENT ((uint64_t)32)
/* The smallest entries that can stand in a file: counts are checked against them before memory is
 * allocated. Metadata: key length, one character, type, one byte. Tensor: name length, one
 * character, n_dims, one dimension, type, offset. */
#define LK_GGUF_MIN_META_BYTES ((uint64_t)14)
#define LK_GGUF_MIN_TENSOR_BYTES ((uint64_t)33)

/* Memory that lives as long as the lk_gguf. */
typedef struct lk_gguf_block {
    struct lk_gguf_block *next;
    size_t size; /* of the whole block */
    size_t used; /* header included */
} lk_gguf_block;
typedef struct lk_gguf_arena {
    const lk_allocator *allocator;
    lk_gguf_block *blocks;
} lk_gguf_arena;

typedef struct lk_gguf_entry {
    const char *key;
    uint64_t key_offset; /* of the key's length field */
    uint64_t type_offset;
    uint64_t end_offset; /* one beyond the value */
    lk_gguf_value value;
    const uint64_t *starts; /* arrays of strings [n + 1]: file offsets of the length fields, then
                               the end */
} lk_gguf_entry;

/* One file. */
typedef struct lk_gguf_part {
    lk_filemap map; /* zero when the bytes belong to the caller */
    const uint8_t *data;
    uint64_t size;
    char label[96]; /* file name for messages */
    uint32_t version;
    uint64_t n_meta;
    uint64_t n_tensors;
    uint64_t first_tensor; /* in lk_gguf.tensors */
    uint64_t alignment;
    uint64_t pos;        /* how far the directory has been read */
    uint64_t data_start; /* end of the directory, aligned, at most `size` */
    lk_gguf_entry *entries;
    uint32_t *by_key; /* entries sorted by key */
} lk_gguf_part;

typedef struct lk_gguf_tensor_entry {
    lk_gguf_tensor tensor;
    uint64_t entry_offset;  /* of the directory entry (the name's length field) */
    uint64_t offset_offset; /* of its offset field */
} lk_gguf_tensor_entry;

enum { LK_GGUF_DIGEST_NONE, LK_GGUF_DIGEST_WRITING, LK_GGUF_DIGEST_READY };

struct lk_gguf {
    const lk_allocator *allocator;
    lk_gguf_arena arena;
    lk_gguf_part *parts; /* [n_parts] */
    uint32_t n_parts;    /* mapped so far */
    uint32_t n_parts_allocated;
    uint64_t directory_bytes; /* read so far, all parts */
    lk_gguf_tensor_entry *tensors;
    uint64_t n_tensors;
    uint32_t *by_name; /* tensors sorted by name */
    atomic_int digest_state;
    uint8_t digest[32];
};

/* A file in memory. The bytes stay the caller's and must outlive the lk_gguf. */
typedef struct lk_gguf_buffer {
    const void *data;
    size_t size;
} lk_gguf_buffer;
/* lk_gguf_open for files in memory, the parts of a split model in order. Tensor data is aligned
 * only as far as the buffers are. */
lk_status lk_gguf_open_memory(const lk_gguf_buffer *files, uint32_t n_files,
                              const lk_allocator *allocator, lk_gguf **out, lk_error *err);

/* gguf_cursor.c: reading the directory of one part. Every function checks the bytes that are left;
 * `subject` (key or tensor, "" before it is known) and `what` go into the message. */
typedef struct lk_gguf_cursor {
    lk_gguf *gguf;
    lk_gguf_part *part;
    lk_error *err;
} lk_gguf_cursor;
lk_status lk_gguf_fail_at(const lk_gguf_cursor *c, lk_status status, uint64_t offset,
                          const char *subject, const char *format, ...) LK_PRINTF(5, 6);
uint64_t lk_gguf_left(const lk_gguf_cursor *c);
lk_status lk_gguf_skip(lk_gguf_cursor *c, uint64_t n_bytes, const char *subject, const char *what);
lk_status lk_gguf_read_u32(lk_gguf_cursor *c, uint32_t *out, const char *subject, const char *what);
lk_status lk_gguf_read_u64(lk_gguf_cursor *c, uint64_t *out, const char *subject, const char *what);
/* A length and that many bytes; *bytes points into the file. */
lk_status lk_gguf_read_string(lk_gguf_cursor *c, const char **bytes, uint64_t *n_bytes,
                              const char *subject, const char *what);

/* A count that stands at `offset`, against the bytes left (each item needs at least min_bytes) and
 * a named limit. */
lk_status lk_gguf_check_count(const lk_gguf_cursor *c, uint64_t offset, const char *what,
                              uint64_t n, uint64_t min_bytes, uint64_t limit);

/* NULL when memory is short. 8-byte aligned. */
void *lk_gguf_arena_alloc(lk_gguf_arena *arena, size_t n_bytes);
void lk_gguf_arena_deinit(lk_gguf_arena *arena);

/* gguf_index.c. Sorts order[0 .. n) by less(ctx, a, b), in place, O(n log n) for any input. */
typedef bool (*lk_gguf_less_fn)(const void *ctx, uint32_t a, uint32_t b);
void lk_gguf_sort(uint32_t *order, uint64_t n, lk_gguf_less_fn less, const void *ctx);
/* Binary search over a sorted order; name_of gives the name of an item. */
typedef const char *(*lk_gguf_name_fn)(const void *ctx, uint32_t i);
bool lk_gguf_search(const uint32_t *order, uint64_t n, lk_gguf_name_fn name_of, const void *ctx,
                    const char *name, uint32_t *out);

/* gguf_meta.c: header and metadata of a part, then its tensors (gguf_directory.c). */
lk_status lk_gguf_read_header(lk_gguf_cursor *c);
lk_status lk_gguf_read_meta(lk_gguf_cursor *c);
const lk_gguf_entry *lk_gguf_part_find(const lk_gguf_part *part, const char *key);
uint32_t lk_gguf_type_bytes(lk_gguf_type type); /* of a scalar; 0 for strings, arrays, unknown */
lk_status lk_gguf_read_tensors(lk_gguf_cursor *c);
/* 1 to LK_GGUF_MAX_NAME_BYTES bytes of UTF-8 without control characters. */
bool lk_gguf_name_is_valid(const char *name);
/* After all parts: names sorted and unique. */
lk_status lk_gguf_index_tensors(lk_gguf *gguf, lk_error *err);

#endif
