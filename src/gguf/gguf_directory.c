/* gguf_directory.c - the tensor directory of one file: names, shapes, formats, extents.
 * It knows block sizes, not what a block holds.
 * Invariant: of every tensor stored, all n_bytes from `offset` lie inside the file, aligned, and
 * inside no other tensor. */
#include <string.h>

#include "base/utf8_bytes.h"
#include "gguf/gguf_internal.h"
#include "quant/format.h"

/* Index of the first byte that a name may not hold, n when there is none. */
static uint64_t first_bad_byte(const char *name, uint64_t n) {
    const uint8_t *s = (const uint8_t *)name;
    uint64_t i = 0;
    while (i < n) {
        size_t n_bad;
        const size_t length = lk_utf8_sequence(s + i, n - i, &n_bad);
        if (length == 0 || lk_utf8_is_control(s + i)) {
            break;
        }
        i += length;
    }
    return i;
}

bool lk_gguf_name_is_valid(const char *name) {
    const uint64_t n = strlen(name);
    return n >= 1 && n <= LK_GGUF_MAX_NAME_BYTES && first_bad_byte(name, n) == n;
}

static lk_status check_name(const lk_gguf_cursor *c, const char *name, uint64_t n, uint64_t offset,
                            uint64_t i_tensor) {
    if (n == 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, offset, "", "the name of tensor %llu is empty",
                               (unsigned long long)i_tensor);
    }
    if (n > LK_GGUF_MAX_NAME_BYTES) {
        return lk_gguf_fail_at(
            c, LK_E_LIMIT, offset, "", "the name of tensor %llu has %llu bytes, the limit is %d",
            (unsigned long long)i_tensor, (unsigned long long)n, LK_GGUF_MAX_NAME_BYTES);
    }
    const uint64_t bad = first_bad_byte(name, n);
    if (bad < n) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, offset + 8 + bad, "",
                               "the name of tensor %llu holds the byte %02x, expected UTF-8 "
                               "without control characters",
                               (unsigned long long)i_tensor, (uint8_t)name[bad]);
    }
    return LK_OK;
}

static lk_status read_name(lk_gguf_cursor *c, lk_gguf_tensor_entry *entry, uint64_t i_tensor) {
    const char *bytes;
    uint64_t n;
    entry->entry_offset = c->part->pos;
    lk_status status = lk_gguf_read_string(c, &bytes, &n, "", "tensor name");
    if (status == LK_OK) {
        status = check_name(c, bytes, n, entry->entry_offset, i_tensor);
    }
    if (status != LK_OK) {
        return status;
    }
    char *name = lk_gguf_arena_alloc(&c->gguf->arena, (size_t)n + 1);
    if (name == NULL) {
        return lk_fail_nomem(c->err, "a tensor name", (size_t)n + 1);
    }
    memcpy(name, bytes, (size_t)n);
    name[n] = '\0';
    entry->tensor.name = name;
    return LK_OK;
}

/* Dimensions; *n_elems is their product. */
static lk_status read_shape(lk_gguf_cursor *c, lk_gguf_tensor *tensor, uint64_t *n_elems) {
    const char *name = tensor->name;
    const uint64_t n_dims_offset = c->part->pos;
    lk_status status = lk_gguf_read_u32(c, &tensor->n_dims, name, "number of dimensions");
    if (status != LK_OK) {
        return status;
    }
    if (tensor->n_dims < 1 || tensor->n_dims > 4) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, n_dims_offset, name,
                               "%.100s: %u dimensions, expected 1 to 4", name, tensor->n_dims);
    }
    *n_elems = 1;
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t offset = c->part->pos;
        tensor->ne[i] = 1;
        if (i >= tensor->n_dims) {
            continue;
        }
        status = lk_gguf_read_u64(c, &tensor->ne[i], name, "dimension");
        if (status != LK_OK) {
            return status;
        }
        if (tensor->ne[i] == 0) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, offset, name,
                                   "%.100s: dimension %u is 0, expected at least 1", name, i);
        }
        if (!lk_mul_u64(*n_elems, tensor->ne[i], n_elems) || *n_elems > INT64_MAX) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, offset, name,
                                   "%.100s: dimension %u is %llu: the number of elements "
                                   "exceeds 2^63 - 1",
                                   name, i, (unsigned long long)tensor->ne[i]);
        }
    }
    return LK_OK;
}

static lk_status read_format(lk_gguf_cursor *c, lk_gguf_tensor *tensor, uint64_t n_elems) {
    const char *name = tensor->name;
    const uint64_t offset = c->part->pos;
    lk_status status = lk_gguf_read_u32(c, &tensor->type, name, "format");
    if (status != LK_OK) {
        return status;
    }
    lk_format_size format;
    if (!lk_format_get_size(tensor->type, &format)) {
        return lk_gguf_fail_at(c, LK_E_UNSUPPORTED, offset, name,
                               "%.100s: format number %u is unknown", name, tensor->type);
    }
    if (tensor->ne[0] % format.block_elems != 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, offset, name,
                               "%.100s: rows of %llu elements, but format %s needs a multiple of "
                               "%u",
                               name, (unsigned long long)tensor->ne[0], format.name,
                               format.block_elems);
    }
    if (!lk_mul_u64(n_elems / format.block_elems, format.block_bytes, &tensor->n_bytes)) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, offset, name,
                               "%.100s: %llu elements of format %s exceed 2^64 bytes", name,
                               (unsigned long long)n_elems, format.name);
    }
    return LK_OK;
}

/* Offsets in the directory count from data_start, which is known only after the last entry. */
static lk_status place(const lk_gguf_cursor *c, lk_gguf_tensor_entry *entry) {
    lk_gguf_tensor *tensor = &entry->tensor;
    const lk_gguf_part *part = c->part;
    const uint64_t relative = tensor->offset;
    if (relative % part->alignment != 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, entry->offset_offset, tensor->name,
                               "%.100s: data offset %llu, expected a multiple of the alignment "
                               "%llu",
                               tensor->name, (unsigned long long)relative,
                               (unsigned long long)part->alignment);
    }
    const uint64_t room = part->size - part->data_start;
    if (relative > room || tensor->n_bytes > room - relative) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, entry->offset_offset, tensor->name,
                               "%.100s: %llu bytes at data offset %llu, but the file has %llu "
                               "bytes of tensor data",
                               tensor->name, (unsigned long long)tensor->n_bytes,
                               (unsigned long long)relative, (unsigned long long)room);
    }
    tensor->offset = part->data_start + relative;
    tensor->data = part->data + tensor->offset;
    return LK_OK;
}

static bool offset_less(const void *ctx, uint32_t a, uint32_t b) {
    const lk_gguf_tensor_entry *entries = ctx;
    const uint64_t x = entries[a].tensor.offset;
    const uint64_t y = entries[b].tensor.offset;
    return x < y || (x == y && a < b);
}

/* Uses the name index's memory, which is filled later. */
static lk_status check_overlaps(const lk_gguf_cursor *c) {
    const lk_gguf_tensor_entry *entries = c->gguf->tensors + c->part->first_tensor;
    const uint64_t n = c->part->n_tensors;
    uint32_t *order = c->gguf->by_name;
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    lk_gguf_sort(order, n, offset_less, entries);
    for (uint64_t i = 1; i < n; i++) {
        const lk_gguf_tensor *before = &entries[order[i - 1]].tensor;
        const lk_gguf_tensor_entry *after = &entries[order[i]];
        if (before->offset + before->n_bytes > after->tensor.offset) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, after->offset_offset, after->tensor.name,
                                   "%.80s: begins at byte %llu, inside %.80s, which ends at %llu",
                                   after->tensor.name, (unsigned long long)after->tensor.offset,
                                   before->name,
                                   (unsigned long long)(before->offset + before->n_bytes));
        }
    }
    return LK_OK;
}

lk_status lk_gguf_read_tensors(lk_gguf_cursor *c) {
    lk_gguf_part *part = c->part;
    lk_gguf_tensor_entry *entries = c->gguf->tensors + part->first_tensor;
    for (uint64_t i = 0; i < part->n_tensors; i++) {
        lk_gguf_tensor *tensor = &entries[i].tensor;
        uint64_t n_elems = 0;
        tensor->i_file = (uint32_t)(part - c->gguf->parts);
        lk_status status = read_name(c, &entries[i], i);
        if (status == LK_OK) {
            status = read_shape(c, tensor, &n_elems);
        }
        if (status == LK_OK) {
            status = read_format(c, tensor, n_elems);
        }
        if (status == LK_OK) {
            entries[i].offset_offset = part->pos;
            status = lk_gguf_read_u64(c, &tensor->offset, tensor->name, "data offset");
        }
        if (status != LK_OK) {
            return status;
        }
    }
    const uint64_t mask = part->alignment - 1; /* no overflow: pos is at most the limit */
    const uint64_t aligned = (part->pos + mask) & ~mask;
    part->data_start = aligned < part->size ? aligned : part->size;
    if (part->n_tensors != 0 && aligned > part->size) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, part->size, "",
                               "the file ends before its tensor data, which begins at byte %llu",
                               (unsigned long long)aligned);
    }
    for (uint64_t i = 0; i < part->n_tensors; i++) {
        const lk_status status = place(c, &entries[i]);
        if (status != LK_OK) {
            return status;
        }
    }
    return check_overlaps(c);
}

static bool name_less(const void *ctx, uint32_t a, uint32_t b) {
    const lk_gguf_tensor_entry *entries = ctx;
    const int sign = strcmp(entries[a].tensor.name, entries[b].tensor.name);
    return sign < 0 || (sign == 0 && a < b);
}

lk_status lk_gguf_index_tensors(lk_gguf *gguf, lk_error *err) {
    for (uint32_t i = 0; i < gguf->n_tensors; i++) {
        gguf->by_name[i] = i;
    }
    lk_gguf_sort(gguf->by_name, gguf->n_tensors, name_less, gguf->tensors);
    for (uint64_t i = 1; i < gguf->n_tensors; i++) {
        const lk_gguf_tensor_entry *first = &gguf->tensors[gguf->by_name[i - 1]];
        const lk_gguf_tensor_entry *second = &gguf->tensors[gguf->by_name[i]];
        if (strcmp(first->tensor.name, second->tensor.name) == 0) {
            const lk_gguf_cursor c = {gguf, &gguf->parts[second->tensor.i_file], err};
            return lk_gguf_fail_at(&c, LK_E_FORMAT, second->entry_offset, second->tensor.name,
                                   "tensor %.100s appears twice, first at byte %llu of %s",
                                   second->tensor.name, (unsigned long long)first->entry_offset,
                                   gguf->parts[first->tensor.i_file].label);
        }
    }
    return LK_OK;
}
