/* gguf_writer.c - see gguf_writer.h. Encodes nothing: tensor data arrives in its final bytes.
 * Invariant: the directory in memory is always a whole number of entries; a failed call takes back
 * what it had appended. */
#include "gguf/gguf_writer.h"

#include <string.h>

#include "base/bytes.h"
#include "base/filewrite.h"
#include "gguf/gguf_internal.h"
#include "quant/format.h"

typedef struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
} buffer;

/* Where a key or name stands in its buffer, and, for tensors, how much data it has. */
typedef struct item {
    size_t offset; /* of its characters */
    size_t n;
    uint64_t n_bytes;
} item;

/* Metadata or tensor directory: the encoded entries and a list of them. */
typedef struct section {
    buffer bytes;
    buffer items; /* of struct item */
} section;

typedef enum phase { PHASE_DECLARE, PHASE_DATA, PHASE_FINISHED, PHASE_FAILED } phase;

struct lk_gguf_writer {
    const lk_allocator *allocator;
    char *path;
    lk_filewrite *file;
    section meta;
    section tensors;
    uint64_t data_bytes; /* of the tensors declared, padded */
    uint64_t i_tensor;   /* the one that data goes to */
    uint64_t n_written;  /* bytes of it */
    phase phase;
};

static lk_status buffer_append(lk_gguf_writer *w, buffer *b, const void *data, size_t n,
                               lk_error *err) {
    size_t size = 0;
    if (!lk_add_size(b->size, n, &size)) {
        return lk_fail_nomem(err, "the directory of a GGUF file", SIZE_MAX);
    }
    if (size > b->capacity) {
        const size_t capacity = size > SIZE_MAX / 2 ? size : size * 2 + 256;
        uint8_t *grown = lk_alloc(w->allocator, capacity);
        if (grown == NULL) {
            return lk_fail_nomem(err, "the directory of a GGUF file", capacity);
        }
        if (b->size != 0) {
            memcpy(grown, b->data, b->size);
        }
        lk_free(w->allocator, b->data, b->capacity);
        b->data = grown;
        b->capacity = capacity;
    }
    if (n != 0) {
        memcpy(b->data + b->size, data, n);
    }
    b->size = size;
    return LK_OK;
}

static lk_status append_u32(lk_gguf_writer *w, buffer *b, uint32_t v, lk_error *err) {
    uint8_t le[4];
    lk_store_u32(le, v);
    return buffer_append(w, b, le, sizeof le, err);
}

static lk_status append_u64(lk_gguf_writer *w, buffer *b, uint64_t v, lk_error *err) {
    uint8_t le[8];
    lk_store_u64(le, v);
    return buffer_append(w, b, le, sizeof le, err);
}

static lk_status append_string(lk_gguf_writer *w, buffer *b, const char *s, size_t n,
                               lk_error *err) {
    const lk_status status = append_u64(w, b, n, err);
    return status == LK_OK ? buffer_append(w, b, s, n, err) : status;
}

static uint64_t n_items(const section *s) {
    return s->items.size / sizeof(item);
}

static item item_at(const section *s, uint64_t i) {
    item it;
    memcpy(&it, s->items.data + i * sizeof it, sizeof it);
    return it;
}

static lk_status check_phase(const lk_gguf_writer *w, phase expected, const char *call,
                             lk_error *err) {
    static const char *const names[] = {"declaring", "writing data", "finished", "failed"};
    if (w->phase == expected) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(call),
                   "%s belongs to the phase \"%s\", the writer is in the phase \"%s\"", call,
                   names[expected], names[w->phase]);
}

bool lk_gguf_writer_skips(const char *key) {
    return strcmp(key, "general.alignment") == 0 || strncmp(key, "split.", 6) == 0;
}

/* An entry under construction: what was there before, to go back to. */
typedef struct mark {
    section *section;
    size_t n_bytes;
    size_t n_items;
} mark;

static lk_status begin_item(lk_gguf_writer *w, section *s, const char *name, uint64_t n_bytes,
                            mark *m, lk_error *err) {
    *m = (mark){s, s->bytes.size, s->items.size};
    const item it = {s->bytes.size + 8, strlen(name), n_bytes};
    const lk_status status = buffer_append(w, &s->items, &it, sizeof it, err);
    return status == LK_OK ? append_string(w, &s->bytes, name, it.n, err) : status;
}

static lk_status end_item(mark *m, lk_status status) {
    if (status != LK_OK) {
        m->section->bytes.size = m->n_bytes;
        m->section->items.size = m->n_items;
    }
    return status;
}

static lk_status check_key(const lk_gguf_writer *w, const char *key, lk_error *err) {
    const lk_status status = check_phase(w, PHASE_DECLARE, "adding metadata", err);
    if (status != LK_OK) {
        return status;
    }
    if (lk_gguf_writer_skips(key)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(key),
                       "%s describes a file's layout; the writer decides it", key);
    }
    const size_t n = strlen(key);
    bool printable = n >= 1 && n <= LK_GGUF_MAX_KEY_BYTES;
    for (size_t i = 0; i < n && printable; i++) {
        printable = key[i] >= 0x20 && key[i] <= 0x7e;
    }
    if (!printable) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("key"),
                       "a metadata key has to be 1 to %d printable ASCII characters",
                       LK_GGUF_MAX_KEY_BYTES);
    }
    return n_items(&w->meta) < LK_GGUF_MAX_META
               ? LK_OK
               : lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT(key), "the limit is %d metadata entries",
                         LK_GGUF_MAX_META);
}

/* An entry whose value is `head` (element type and count of arrays; may be empty) and `body`. */
static lk_status add_entry(lk_gguf_writer *w, const char *key, uint32_t type, const void *head,
                           size_t head_bytes, const void *body, size_t body_bytes, lk_error *err) {
    lk_status status = check_key(w, key, err);
    if (status != LK_OK) {
        return status;
    }
    mark m;
    status = begin_item(w, &w->meta, key, 0, &m, err);
    if (status == LK_OK) {
        status = append_u32(w, &w->meta.bytes, type, err);
    }
    if (status == LK_OK) {
        status = buffer_append(w, &w->meta.bytes, head, head_bytes, err);
    }
    if (status == LK_OK) {
        status = buffer_append(w, &w->meta.bytes, body, body_bytes, err);
    }
    return end_item(&m, status);
}

static bool int_fits(lk_gguf_type type, int64_t v) {
    switch (type) {
    case LK_GGUF_U8:
        return v >= 0 && v <= UINT8_MAX;
    case LK_GGUF_I8:
        return v >= INT8_MIN && v <= INT8_MAX;
    case LK_GGUF_U16:
        return v >= 0 && v <= UINT16_MAX;
    case LK_GGUF_I16:
        return v >= INT16_MIN && v <= INT16_MAX;
    case LK_GGUF_U32:
        return v >= 0 && v <= UINT32_MAX;
    case LK_GGUF_I32:
        return v >= INT32_MIN && v <= INT32_MAX;
    case LK_GGUF_BOOL:
        return v == 0 || v == 1;
    case LK_GGUF_U64:
    case LK_GGUF_I64:
        return true;
    case LK_GGUF_F32:
    case LK_GGUF_F64:
    case LK_GGUF_STRING:
    case LK_GGUF_ARRAY:
        break;
    }
    return false;
}

lk_status lk_gguf_writer_int(lk_gguf_writer *w, const char *key, lk_gguf_type type, int64_t value,
                             lk_error *err) {
    if (!int_fits(type, value)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(key), "%s: %lld is no value of type %s", key,
                       (long long)value, lk_gguf_type_name(type));
    }
    uint8_t le[8];
    lk_store_u64(le, (uint64_t)value);
    return add_entry(w, key, (uint32_t)type, NULL, 0, le, lk_gguf_type_bytes(type), err);
}

lk_status lk_gguf_writer_float(lk_gguf_writer *w, const char *key, lk_gguf_type type, double value,
                               lk_error *err) {
    uint8_t le[8];
    if (type == LK_GGUF_F32) {
        lk_store_u32(le, lk_f32_bits((float)value));
    } else if (type == LK_GGUF_F64) {
        lk_store_u64(le, lk_f64_bits(value));
    } else {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(key), "%s: type %s, expected f32 or f64", key,
                       lk_gguf_type_name(type));
    }
    return add_entry(w, key, (uint32_t)type, NULL, 0, le, lk_gguf_type_bytes(type), err);
}

lk_status lk_gguf_writer_string(lk_gguf_writer *w, const char *key, const char *bytes,
                                size_t n_bytes, lk_error *err) {
    uint8_t length[8];
    lk_store_u64(length, n_bytes);
    return add_entry(w, key, LK_GGUF_STRING, length, sizeof length, bytes, n_bytes, err);
}

static void array_head(uint8_t head[12], lk_gguf_type elem_type, uint64_t n) {
    lk_store_u32(head, (uint32_t)elem_type);
    lk_store_u64(head + 4, n);
}

lk_status lk_gguf_writer_array(lk_gguf_writer *w, const char *key, lk_gguf_type elem_type,
                               const void *elements, uint64_t n, lk_error *err) {
    const uint32_t elem_bytes = lk_gguf_type_bytes(elem_type);
    uint64_t n_bytes = 0;
    if (elem_bytes == 0) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(key),
                       "%s: array of type %s, expected numbers or bools", key,
                       lk_gguf_type_name(elem_type));
    }
    if (!lk_mul_u64(n, elem_bytes, &n_bytes) || n_bytes > LK_GGUF_MAX_DIRECTORY_BYTES) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT(key), "%s: array of %llu elements", key,
                       (unsigned long long)n);
    }
    for (uint64_t i = 0; elem_type == LK_GGUF_BOOL && i < n; i++) {
        if (((const uint8_t *)elements)[i] > 1) {
            return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(key), "%s: bool %llu is neither 0 nor 1",
                           key, (unsigned long long)i);
        }
    }
    uint8_t head[12];
    array_head(head, elem_type, n);
    return add_entry(w, key, LK_GGUF_ARRAY, head, sizeof head, elements, (size_t)n_bytes, err);
}

lk_status lk_gguf_writer_strings(lk_gguf_writer *w, const char *key, const char *const *strings,
                                 const size_t *lengths, uint64_t n, lk_error *err) {
    lk_status status = check_key(w, key, err);
    if (status != LK_OK) {
        return status;
    }
    uint8_t head[12];
    array_head(head, LK_GGUF_STRING, n);
    mark m;
    status = begin_item(w, &w->meta, key, 0, &m, err);
    if (status == LK_OK) {
        status = append_u32(w, &w->meta.bytes, LK_GGUF_ARRAY, err);
    }
    if (status == LK_OK) {
        status = buffer_append(w, &w->meta.bytes, head, sizeof head, err);
    }
    for (uint64_t i = 0; i < n && status == LK_OK; i++) {
        const size_t length = lengths != NULL ? lengths[i] : strlen(strings[i]);
        status = append_string(w, &w->meta.bytes, strings[i], length, err);
    }
    return end_item(&m, status);
}

lk_status lk_gguf_writer_copy(lk_gguf_writer *w, const lk_gguf *from, uint64_t i, lk_error *err) {
    const lk_gguf_part *part = &from->parts[0];
    if (i >= part->n_meta) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("i"),
                       "metadata entry %llu asked for, but there are %llu", (unsigned long long)i,
                       (unsigned long long)part->n_meta);
    }
    const lk_gguf_entry *entry = &part->entries[i];
    return add_entry(w, entry->key, (uint32_t)entry->value.type, NULL, 0,
                     part->data + entry->value.offset,
                     (size_t)(entry->end_offset - entry->value.offset), err);
}

static uint64_t padded(uint64_t n) {
    return (n + (LK_GGUF_WRITER_ALIGNMENT - 1)) & ~(uint64_t)(LK_GGUF_WRITER_ALIGNMENT - 1);
}

/* Shape and format; *n_bytes is the size of the data. */
static lk_status tensor_bytes(const char *name, uint32_t type, uint32_t n_dims, const uint64_t *ne,
                              uint64_t *n_bytes, lk_error *err) {
    lk_format_size format;
    if (!lk_format_get_size(type, &format)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name), "%s: format number %u is unknown", name,
                       type);
    }
    if (n_dims < 1 || n_dims > 4) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name), "%s: %u dimensions, expected 1 to 4",
                       name, n_dims);
    }
    uint64_t n = 1;
    bool fits = true;
    for (uint32_t i = 0; i < n_dims && fits; i++) {
        fits = ne[i] != 0 && lk_mul_u64(n, ne[i], &n) && n <= INT64_MAX;
    }
    if (!fits || ne[0] % format.block_elems != 0 ||
        !lk_mul_u64(n / format.block_elems, format.block_bytes, n_bytes) ||
        *n_bytes > INT64_MAX / 2) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name),
                       "%s: the shape does not suit format %s (rows are a multiple of %u elements, "
                       "no dimension is 0, the size fits)",
                       name, format.name, format.block_elems);
    }
    return LK_OK;
}

lk_status lk_gguf_writer_tensor(lk_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                                const uint64_t *ne, lk_error *err) {
    uint64_t n_bytes = 0;
    lk_status status = check_phase(w, PHASE_DECLARE, "declaring a tensor", err);
    if (status == LK_OK) {
        status = tensor_bytes(name, type, n_dims, ne, &n_bytes, err);
    }
    if (status != LK_OK) {
        return status;
    }
    if (!lk_gguf_name_is_valid(name)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("name"),
                       "a tensor name has to be 1 to %d bytes of UTF-8 without control characters",
                       LK_GGUF_MAX_NAME_BYTES);
    }
    uint64_t end = 0;
    if (n_items(&w->tensors) >= LK_GGUF_MAX_TENSORS ||
        !lk_add_u64(w->data_bytes, padded(n_bytes), &end) || end > INT64_MAX / 2) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT(name),
                       "%s: more than %d tensors, or too many bytes", name, LK_GGUF_MAX_TENSORS);
    }
    mark m;
    buffer *b = &w->tensors.bytes;
    status = begin_item(w, &w->tensors, name, n_bytes, &m, err);
    if (status == LK_OK) {
        status = append_u32(w, b, n_dims, err);
    }
    for (uint32_t i = 0; i < n_dims && status == LK_OK; i++) {
        status = append_u64(w, b, ne[i], err);
    }
    if (status == LK_OK) {
        status = append_u32(w, b, type, err);
    }
    if (status == LK_OK) {
        status = append_u64(w, b, w->data_bytes, err);
    }
    if (status == LK_OK) {
        w->data_bytes = end;
    }
    return end_item(&m, status);
}

static int compare_items(const section *s, uint32_t a, uint32_t b) {
    const item x = item_at(s, a);
    const item y = item_at(s, b);
    const int sign =
        memcmp(s->bytes.data + x.offset, s->bytes.data + y.offset, x.n < y.n ? x.n : y.n);
    return sign != 0 ? sign : (x.n > y.n) - (x.n < y.n);
}

static bool item_less(const void *ctx, uint32_t a, uint32_t b) {
    return compare_items(ctx, a, b) < 0;
}

static lk_status check_unique(const lk_gguf_writer *w, const section *s, const char *what,
                              lk_error *err) {
    const uint64_t n = n_items(s);
    uint32_t *order = lk_alloc_array(w->allocator, (size_t)n, sizeof *order);
    if (order == NULL) {
        return lk_fail_nomem(err, "the names of a GGUF file", (size_t)n * sizeof *order);
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    lk_gguf_sort(order, n, item_less, s);
    lk_status status = LK_OK;
    for (uint64_t i = 1; i < n && status == LK_OK; i++) {
        if (compare_items(s, order[i - 1], order[i]) == 0) {
            char name[100];
            const item it = item_at(s, order[i]);
            const size_t shown = it.n < sizeof name - 1 ? it.n : sizeof name - 1;
            memcpy(name, s->bytes.data + it.offset, shown);
            name[shown] = '\0';
            status =
                lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(name), "%s %s was given twice", what, name);
        }
    }
    lk_free_array(w->allocator, order, (size_t)n, sizeof *order);
    return status;
}

static lk_status write_padding(lk_gguf_writer *w, lk_error *err) {
    static const uint8_t zeros[LK_GGUF_WRITER_ALIGNMENT] = {0};
    const uint64_t size = lk_filewrite_size(w->file);
    return lk_filewrite_append(w->file, zeros, (size_t)(padded(size) - size), err);
}

lk_status lk_gguf_writer_begin(lk_gguf_writer *w, lk_error *err) {
    lk_status status = check_phase(w, PHASE_DECLARE, "beginning the data", err);
    if (status == LK_OK) {
        status = check_unique(w, &w->meta, "key", err);
    }
    if (status == LK_OK) {
        status = check_unique(w, &w->tensors, "tensor", err);
    }
    if (status == LK_OK &&
        w->meta.bytes.size + w->tensors.bytes.size > LK_GGUF_MAX_DIRECTORY_BYTES - 24) {
        status = lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT(w->path),
                         "the directory is longer than the limit of %llu bytes",
                         (unsigned long long)LK_GGUF_MAX_DIRECTORY_BYTES);
    }
    if (status == LK_OK) {
        status = lk_filewrite_create(w->path, w->allocator, &w->file, err);
    }
    if (status != LK_OK) {
        return status;
    }
    uint8_t header[24] = {'G', 'G', 'U', 'F', 3};
    lk_store_u64(header + 8, n_items(&w->tensors));
    lk_store_u64(header + 16, n_items(&w->meta));
    status = lk_filewrite_append(w->file, header, sizeof header, err);
    if (status == LK_OK) {
        status = lk_filewrite_append(w->file, w->meta.bytes.data, w->meta.bytes.size, err);
    }
    if (status == LK_OK) {
        status = lk_filewrite_append(w->file, w->tensors.bytes.data, w->tensors.bytes.size, err);
    }
    if (status == LK_OK) {
        status = write_padding(w, err);
    }
    w->phase = status == LK_OK ? PHASE_DATA : PHASE_FAILED;
    return status;
}

lk_status lk_gguf_writer_data(lk_gguf_writer *w, const void *data, size_t n_bytes, lk_error *err) {
    lk_status status = check_phase(w, PHASE_DATA, "writing data", err);
    if (status != LK_OK || n_bytes == 0) {
        return status;
    }
    const uint64_t left = w->i_tensor < n_items(&w->tensors)
                              ? item_at(&w->tensors, w->i_tensor).n_bytes - w->n_written
                              : 0;
    if (n_bytes > left) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("n_bytes"),
                       "%zu bytes given, but tensor %llu of %llu lacks %llu", n_bytes,
                       (unsigned long long)w->i_tensor, (unsigned long long)n_items(&w->tensors),
                       (unsigned long long)left);
    }
    status = lk_filewrite_append(w->file, data, n_bytes, err);
    if (status == LK_OK && n_bytes == left) {
        status = write_padding(w, err);
        w->i_tensor++;
        w->n_written = 0;
    } else {
        w->n_written += n_bytes;
    }
    if (status != LK_OK) {
        w->phase = PHASE_FAILED;
    }
    return status;
}

lk_status lk_gguf_writer_finish(lk_gguf_writer *w, lk_error *err) {
    lk_status status = check_phase(w, PHASE_DATA, "finishing", err);
    if (status != LK_OK) {
        return status;
    }
    if (w->i_tensor != n_items(&w->tensors)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(w->path),
                       "data of tensor %llu of %llu is missing", (unsigned long long)w->i_tensor,
                       (unsigned long long)n_items(&w->tensors));
    }
    w->phase = PHASE_FAILED;
    lk_gguf *written = NULL;
    status = lk_gguf_open(lk_filewrite_temporary(w->file), w->allocator, &written, err);
    lk_gguf_close(written);
    if (status == LK_OK) {
        lk_filewrite *file = w->file;
        w->file = NULL;
        status = lk_filewrite_commit(file, err);
    }
    if (status == LK_OK) {
        w->phase = PHASE_FINISHED;
    }
    return status;
}

lk_status lk_gguf_writer_create(const char *path, const lk_allocator *allocator,
                                lk_gguf_writer **out, lk_error *err) {
    *out = NULL;
    allocator = lk_allocator_or_default(allocator);
    lk_gguf_writer *w = lk_alloc_zero(allocator, sizeof *w);
    if (w == NULL) {
        return lk_fail_nomem(err, "a GGUF writer", sizeof *w);
    }
    w->allocator = allocator;
    w->path = lk_dup_string(allocator, path, strlen(path));
    if (w->path == NULL) {
        lk_gguf_writer_destroy(w);
        return lk_fail_nomem(err, "a path", strlen(path) + 1);
    }
    *out = w;
    return LK_OK;
}

void lk_gguf_writer_destroy(lk_gguf_writer *w) {
    if (w == NULL) {
        return;
    }
    const lk_allocator *a = w->allocator;
    lk_filewrite_abort(w->file);
    buffer *const buffers[4] = {&w->meta.bytes, &w->meta.items, &w->tensors.bytes,
                                &w->tensors.items};
    for (int i = 0; i < 4; i++) {
        lk_free(a, buffers[i]->data, buffers[i]->capacity);
    }
    if (w->path != NULL) {
        lk_free(a, w->path, strlen(w->path) + 1);
    }
    lk_free(a, w, sizeof *w);
}
