/* gguf_access.c - reading an open GGUF: metadata, tensors, names of value types.
 * Invariant: nothing here changes the lk_gguf; what is returned points into the file or the
 * lk_gguf.
 */
#include <string.h>

#include "gguf/gguf_internal.h"

const char *lk_gguf_type_name(lk_gguf_type type) {
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "?";
}

uint32_t lk_gguf_version(const lk_gguf *gguf) {
    return gguf->parts[0].version;
}

uint32_t lk_gguf_n_files(const lk_gguf *gguf) {
    return gguf->n_parts;
}

uint64_t lk_gguf_file_bytes(const lk_gguf *gguf) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gguf->n_parts; i++) {
        sum += gguf->parts[i].size;
    }
    return sum;
}

uint64_t lk_gguf_n_meta(const lk_gguf *gguf) {
    return gguf->parts[0].n_meta;
}

static lk_status fail_range(lk_error *err, const char *what, uint64_t i, uint64_t n) {
    return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("i"), "%s %llu asked for, but there are %llu", what,
                   (unsigned long long)i, (unsigned long long)n);
}

lk_status lk_gguf_meta(const lk_gguf *gguf, uint64_t i, const char **key, lk_gguf_value *value,
                       lk_error *err) {
    const lk_gguf_part *part = &gguf->parts[0];
    if (i >= part->n_meta) {
        *key = NULL;
        memset(value, 0, sizeof *value);
        return fail_range(err, "metadata entry", i, part->n_meta);
    }
    *key = part->entries[i].key;
    *value = part->entries[i].value;
    return LK_OK;
}

lk_status lk_gguf_find(const lk_gguf *gguf, const char *key, lk_gguf_value *value, lk_error *err) {
    const lk_gguf_entry *entry = key != NULL ? lk_gguf_part_find(&gguf->parts[0], key) : NULL;
    if (entry == NULL) {
        memset(value, 0, sizeof *value);
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT(key), "%s: there is no metadata key %s",
                       gguf->parts[0].label, key != NULL ? key : "NULL");
    }
    *value = entry->value;
    return LK_OK;
}

lk_status lk_gguf_array_string(const lk_gguf *gguf, const lk_gguf_value *array, uint64_t i,
                               const char **str, uint64_t *n_bytes, lk_error *err) {
    const lk_gguf_part *part = &gguf->parts[0];
    const lk_gguf_entry *entry =
        array->i_meta < part->n_meta ? &part->entries[array->i_meta] : NULL;
    *str = NULL;
    *n_bytes = 0;
    if (entry == NULL || entry->starts == NULL || entry->value.arr != array->arr) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("array"),
                       "the value is no array of strings of this file");
    }
    if (i >= entry->value.n) {
        return fail_range(err, "string", i, entry->value.n);
    }
    /* Lengths come from the index, never again from the file. */
    *str = (const char *)(part->data + entry->starts[i] + 8);
    *n_bytes = entry->starts[i + 1] - entry->starts[i] - 8;
    return LK_OK;
}

uint64_t lk_gguf_n_tensors(const lk_gguf *gguf) {
    return gguf->n_tensors;
}

lk_status lk_gguf_tensor_at(const lk_gguf *gguf, uint64_t i, lk_gguf_tensor *tensor,
                            lk_error *err) {
    if (i >= gguf->n_tensors) {
        memset(tensor, 0, sizeof *tensor);
        return fail_range(err, "tensor", i, gguf->n_tensors);
    }
    *tensor = gguf->tensors[i].tensor;
    return LK_OK;
}

static const char *name_of(const void *ctx, uint32_t i) {
    return ((const lk_gguf_tensor_entry *)ctx)[i].tensor.name;
}

lk_status lk_gguf_find_tensor(const lk_gguf *gguf, const char *name, lk_gguf_tensor *tensor,
                              lk_error *err) {
    uint32_t i;
    if (name == NULL ||
        !lk_gguf_search(gguf->by_name, gguf->n_tensors, name_of, gguf->tensors, name, &i)) {
        memset(tensor, 0, sizeof *tensor);
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT(name), "%s: there is no tensor %s",
                       gguf->parts[0].label, name != NULL ? name : "NULL");
    }
    *tensor = gguf->tensors[i].tensor;
    return LK_OK;
}
