/* gguf_open.c - opening and closing: one file, or all files of a split model, from disk or memory.
 * Invariant: an lk_gguf that is handed out is wholly validated; one that failed leaves nothing
 * mapped or allocated. */
#include <stdio.h>
#include <string.h>

#include "base/fpenv.h"
#include "gguf/gguf_internal.h"

/* Where the files come from: a path, or buffers. */
typedef struct source {
    const char *path;
    const lk_gguf_buffer *buffers;
    uint32_t n_buffers;
} source;

/* "-00001-of-00003.gguf", the end of a split file's name. */
enum { SPLIT_SUFFIX_BYTES = 20 };

static void set_label(lk_gguf_part *part, const char *path) {
    const char *slash = strrchr(path, '/');
    (void)snprintf(part->label, sizeof part->label, "%s", slash != NULL ? slash + 1 : path);
}

static void split_suffix(char out[SPLIT_SUFFIX_BYTES + 1], uint32_t number, uint32_t count) {
    (void)snprintf(out, SPLIT_SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", number % 100000u,
                   count % 100000u);
}

/* Maps file i of `count`; on failure the part holds nothing. */
static lk_status load_part(lk_gguf *gguf, const source *from, uint32_t i, uint32_t count,
                           lk_error *err) {
    lk_gguf_part *part = &gguf->parts[i];
    if (from->path == NULL) {
        part->data = from->buffers[i].data;
        part->size = from->buffers[i].size;
        (void)snprintf(part->label, sizeof part->label, "buffer %u", i + 1);
        return LK_OK;
    }
    const size_t n = strlen(from->path);
    lk_status status;
    if (i == 0) {
        set_label(part, from->path);
        status = lk_filemap_open(from->path, &part->map, err);
    } else {
        char *path = lk_dup_string(gguf->allocator, from->path, n);
        if (path == NULL) {
            return lk_fail_nomem(err, "a path", n + 1);
        }
        split_suffix(path + n - SPLIT_SUFFIX_BYTES, i + 1, count);
        set_label(part, path);
        status = lk_filemap_open(path, &part->map, err);
        lk_free(gguf->allocator, path, n + 1);
    }
    part->data = part->map.data;
    part->size = part->map.size;
    return status;
}

static lk_status read_part(lk_gguf *gguf, const source *from, uint32_t i, uint32_t count,
                           lk_error *err) {
    lk_status status = load_part(gguf, from, i, count, err);
    if (status != LK_OK) {
        return status;
    }
    gguf->n_parts = i + 1;
    lk_gguf_cursor c = {gguf, &gguf->parts[i], err};
    status = lk_gguf_read_header(&c);
    if (status == LK_OK) {
        status = lk_gguf_read_meta(&c);
    }
    /* Again, now that the metadata is behind: this is what the tensor table is allocated by. */
    if (status == LK_OK) {
        status =
            lk_gguf_check_count(&c, 8, "tensor count", c.part->n_tensors, LK_GGUF_MIN_TENSOR_BYTES,
                                LK_GGUF_MAX_TENSORS - gguf->n_tensors);
    }
    if (status == LK_OK) {
        c.part->first_tensor = gguf->n_tensors;
        gguf->n_tensors += c.part->n_tensors;
    }
    return status;
}

/* A split.* key: any integer type, not negative. *out is -1 when there is no such key. */
static lk_status split_key(const lk_gguf_cursor *c, const char *key, int64_t *out) {
    const lk_gguf_entry *entry = lk_gguf_part_find(c->part, key);
    *out = -1;
    if (entry == NULL) {
        return LK_OK;
    }
    const lk_gguf_value *value = &entry->value;
    const bool is_integer =
        value->type <= LK_GGUF_I32 || value->type == LK_GGUF_U64 || value->type == LK_GGUF_I64;
    if (!is_integer) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, entry->type_offset, key,
                               "%s has type %s, expected an integer", key,
                               lk_gguf_type_name(value->type));
    }
    if (value->i < 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, value->offset, key, "%s is %lld, expected 0 or more",
                               key, (long long)value->i);
    }
    *out = value->i;
    return LK_OK;
}

static uint64_t split_key_offset(const lk_gguf_part *part, const char *key) {
    const lk_gguf_entry *entry = lk_gguf_part_find(part, key);
    return entry != NULL ? entry->value.offset : 16;
}

/* The number of files that the first one claims; 1 when it is no split model. */
static lk_status split_count(const lk_gguf_cursor *c, const source *from, uint32_t *count) {
    int64_t n;
    int64_t number;
    *count = 1;
    lk_status status = split_key(c, "split.count", &n);
    if (status == LK_OK) {
        status = split_key(c, "split.no", &number);
    }
    if (status != LK_OK || n <= 1) {
        return status;
    }
    const uint64_t offset = split_key_offset(c->part, "split.count");
    if (n > LK_GGUF_MAX_FILES) {
        return lk_gguf_fail_at(c, LK_E_LIMIT, offset, "split.count",
                               "split.count is %lld, the limit is %d", (long long)n,
                               LK_GGUF_MAX_FILES);
    }
    if (number != 0) {
        return lk_gguf_fail_at(c, LK_E_ARG, split_key_offset(c->part, "split.no"), "split.no",
                               "split.no is %lld of %lld files: open the first file, where it is 0",
                               (long long)number, (long long)n);
    }
    *count = (uint32_t)n;
    if (from->path == NULL) {
        return from->n_buffers == *count
                   ? LK_OK
                   : lk_gguf_fail_at(c, LK_E_FORMAT, offset, "split.count",
                                     "split.count is %u, but %u files were given", *count,
                                     from->n_buffers);
    }
    char suffix[SPLIT_SUFFIX_BYTES + 1];
    split_suffix(suffix, 1, *count);
    const size_t length = strlen(from->path);
    if (length < SPLIT_SUFFIX_BYTES ||
        strcmp(from->path + length - SPLIT_SUFFIX_BYTES, suffix) != 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, offset, "split.count",
                               "split.count is %u, so the file's name should end in %s", *count,
                               suffix);
    }
    return LK_OK;
}

/* Of file i > 0: it must say that it is that one. */
static lk_status check_split(const lk_gguf_cursor *c, uint32_t i, uint32_t count) {
    static const char *const keys[2] = {"split.no", "split.count"};
    const int64_t expected[2] = {i, count};
    for (int k = 0; k < 2; k++) {
        int64_t found;
        const lk_status status = split_key(c, keys[k], &found);
        if (status != LK_OK) {
            return status;
        }
        if (found < 0) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, 16, keys[k], "%s is missing, expected %lld",
                                   keys[k], (long long)expected[k]);
        }
        if (found != expected[k]) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, split_key_offset(c->part, keys[k]), keys[k],
                                   "%s is %lld, expected %lld", keys[k], (long long)found,
                                   (long long)expected[k]);
        }
    }
    return LK_OK;
}

static lk_status check_split_tensors(const lk_gguf_cursor *c) {
    static const char key[] = "split.tensors.count";
    int64_t n;
    const lk_status status = split_key(c, key, &n);
    if (status != LK_OK) {
        return status;
    }
    if (n < 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, 16, key, "%s is missing, expected %llu", key,
                               (unsigned long long)c->gguf->n_tensors);
    }
    if ((uint64_t)n != c->gguf->n_tensors) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, split_key_offset(c->part, key), key,
                               "%s is %lld, but the %u files hold %llu tensors", key, (long long)n,
                               c->gguf->n_parts, (unsigned long long)c->gguf->n_tensors);
    }
    return LK_OK;
}

/* Files 1 .. count - 1: header and metadata. */
static lk_status read_splits(lk_gguf *gguf, const source *from, uint32_t count, lk_error *err) {
    lk_gguf_part *parts = lk_alloc_array_zero(gguf->allocator, count, sizeof *parts);
    if (parts == NULL) {
        return lk_fail_nomem(err, "the files of a split model", count * sizeof *parts);
    }
    parts[0] = gguf->parts[0];
    lk_free(gguf->allocator, gguf->parts, sizeof *parts);
    gguf->parts = parts;
    gguf->n_parts_allocated = count;
    for (uint32_t i = 1; i < count; i++) {
        lk_status status = read_part(gguf, from, i, count, err);
        if (status == LK_OK) {
            const lk_gguf_cursor c = {gguf, &parts[i], err};
            status = check_split(&c, i, count);
        }
        if (status != LK_OK) {
            return status;
        }
    }
    const lk_gguf_cursor first = {gguf, &parts[0], err};
    return check_split_tensors(&first);
}

static lk_status read_all(lk_gguf *gguf, const source *from, lk_error *err) {
    const lk_allocator *a = gguf->allocator;
    gguf->parts = lk_alloc_array_zero(a, 1, sizeof *gguf->parts);
    if (gguf->parts == NULL) {
        return lk_fail_nomem(err, "a GGUF file", sizeof *gguf->parts);
    }
    gguf->n_parts_allocated = 1;
    uint32_t count = 1;
    lk_status status = read_part(gguf, from, 0, 1, err);
    if (status == LK_OK) {
        const lk_gguf_cursor c = {gguf, &gguf->parts[0], err};
        status = split_count(&c, from, &count);
    }
    if (status == LK_OK && count > 1) {
        status = read_splits(gguf, from, count, err);
    }
    if (status != LK_OK) {
        return status;
    }
    const size_t n = (size_t)gguf->n_tensors;
    gguf->tensors = lk_alloc_array_zero(a, n, sizeof *gguf->tensors);
    gguf->by_name = lk_alloc_array(a, n, sizeof *gguf->by_name);
    if (gguf->tensors == NULL || gguf->by_name == NULL) {
        return lk_fail_nomem(err, "the tensor directory", n * (sizeof *gguf->tensors + 4));
    }
    for (uint32_t i = 0; i < gguf->n_parts && status == LK_OK; i++) {
        lk_gguf_cursor c = {gguf, &gguf->parts[i], err};
        status = lk_gguf_read_tensors(&c);
    }
    return status == LK_OK ? lk_gguf_index_tensors(gguf, err) : status;
}

static lk_status open_source(const source *from, const lk_allocator *allocator, lk_gguf **out,
                             lk_error *err) {
    allocator = lk_allocator_or_default(allocator);
    lk_gguf *gguf = lk_alloc_zero(allocator, sizeof *gguf);
    if (gguf == NULL) {
        return lk_fail_nomem(err, "a GGUF file", sizeof *gguf);
    }
    gguf->allocator = allocator;
    gguf->arena.allocator = allocator;
    atomic_init(&gguf->digest_state, LK_GGUF_DIGEST_NONE);
    const lk_status status = read_all(gguf, from, err);
    if (status != LK_OK) {
        lk_gguf_close(gguf);
        return status;
    }
    *out = gguf;
    return LK_OK;
}

lk_status lk_gguf_open(const char *path, const lk_allocator *allocator, lk_gguf **out,
                       lk_error *err) {
    if (out == NULL || path == NULL) {
        if (out != NULL) {
            *out = NULL;
        }
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(out == NULL ? "out" : "path"), "%s is NULL",
                       out == NULL ? "out" : "path");
    }
    *out = NULL;
    const source from = {path, NULL, 0};
    const lk_fpenv env = lk_fpenv_enter(); /* metadata are converted to binary64 */
    const lk_status status = open_source(&from, allocator, out, err);
    lk_fpenv_leave(env);
    return status;
}

lk_status lk_gguf_open_memory(const lk_gguf_buffer *files, uint32_t n_files,
                              const lk_allocator *allocator, lk_gguf **out, lk_error *err) {
    *out = NULL;
    if (files == NULL || n_files == 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("files"), "no file was given");
    }
    const source from = {NULL, files, n_files};
    return open_source(&from, allocator, out, err);
}

void lk_gguf_close(lk_gguf *gguf) {
    if (gguf == NULL) {
        return;
    }
    const lk_allocator *a = gguf->allocator;
    lk_free_array(a, gguf->by_name, (size_t)gguf->n_tensors, sizeof *gguf->by_name);
    lk_free_array(a, gguf->tensors, (size_t)gguf->n_tensors, sizeof *gguf->tensors);
    for (uint32_t i = 0; i < gguf->n_parts; i++) {
        lk_gguf_part *part = &gguf->parts[i];
        lk_free_array(a, part->by_key, (size_t)part->n_meta, sizeof *part->by_key);
        lk_free_array(a, part->entries, (size_t)part->n_meta, sizeof *part->entries);
        lk_filemap_close(&part->map);
    }
    lk_free_array(a, gguf->parts, gguf->n_parts_allocated, sizeof *gguf->parts);
    lk_gguf_arena_deinit(&gguf->arena);
    lk_free(a, gguf, sizeof *gguf);
}
