/* gguf_meta.c - header and metadata of one file: keys, types, values, arrays, the alignment.
 * It does not know what a key means, apart from general.alignment.
 * Invariant: an entry that is stored has been checked to its last byte; memory is allocated only
 * for counts that the bytes left in the file can hold. */
#include <string.h>

#include "base/bytes.h"
#include "gguf/gguf_internal.h"

uint32_t lk_gguf_type_bytes(lk_gguf_type type) {
    switch (type) {
    case LK_GGUF_U8:
    case LK_GGUF_I8:
    case LK_GGUF_BOOL:
        return 1;
    case LK_GGUF_U16:
    case LK_GGUF_I16:
        return 2;
    case LK_GGUF_U32:
    case LK_GGUF_I32:
    case LK_GGUF_F32:
        return 4;
    case LK_GGUF_U64:
    case LK_GGUF_I64:
    case LK_GGUF_F64:
        return 8;
    case LK_GGUF_STRING:
    case LK_GGUF_ARRAY:
        break;
    }
    return 0;
}

static lk_status check_version(const lk_gguf_cursor *c, uint32_t version) {
    if (version == 2 || version == 3) {
        return LK_OK;
    }
    if (version == 0x02000000u || version == 0x03000000u) {
        return lk_gguf_fail_at(c, LK_E_UNSUPPORTED, 4, "version",
                               "a big-endian file of version %u; only little endian is read",
                               version >> 24);
    }
    return lk_gguf_fail_at(c, LK_E_UNSUPPORTED, 4, "version", "version %u, expected 2 or 3",
                           version);
}

lk_status lk_gguf_read_header(lk_gguf_cursor *c) {
    lk_gguf_part *part = c->part;
    static const uint8_t magic[4] = {'G', 'G', 'U', 'F'};
    const uint8_t *found = part->data;
    lk_status status = lk_gguf_skip(c, 4, "", "magic");
    if (status != LK_OK) {
        return status;
    }
    if (memcmp(found, magic, 4) != 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, 0, "magic",
                               "not a GGUF file: it begins with %02x %02x %02x %02x, expected "
                               "47 47 55 46 (\"GGUF\")",
                               found[0], found[1], found[2], found[3]);
    }
    status = lk_gguf_read_u32(c, &part->version, "", "version");
    if (status == LK_OK) {
        status = check_version(c, part->version);
    }
    if (status == LK_OK) {
        status = lk_gguf_read_u64(c, &part->n_tensors, "", "tensor count");
    }
    if (status == LK_OK) {
        status = lk_gguf_read_u64(c, &part->n_meta, "", "metadata count");
    }
    if (status == LK_OK) {
        status = lk_gguf_check_count(c, 8, "tensor count", part->n_tensors,
                                     LK_GGUF_MIN_TENSOR_BYTES, LK_GGUF_MAX_TENSORS);
    }
    if (status == LK_OK) {
        status = lk_gguf_check_count(c, 16, "metadata count", part->n_meta, LK_GGUF_MIN_META_BYTES,
                                     LK_GGUF_MAX_META);
    }
    return status;
}

static void load_scalar(lk_gguf_value *value, const uint8_t *p) {
    switch (value->type) {
    case LK_GGUF_U8:
    case LK_GGUF_BOOL:
        value->i = p[0];
        break;
    case LK_GGUF_I8:
        value->i = (int8_t)p[0];
        break;
    case LK_GGUF_U16:
        value->i = lk_load_u16(p);
        break;
    case LK_GGUF_I16:
        value->i = (int16_t)lk_load_u16(p);
        break;
    case LK_GGUF_U32:
        value->i = lk_load_u32(p);
        break;
    case LK_GGUF_I32:
        value->i = (int32_t)lk_load_u32(p);
        break;
    case LK_GGUF_U64:
    case LK_GGUF_I64:
        value->i = (int64_t)lk_load_u64(p);
        break;
    case LK_GGUF_F32:
        value->f = (double)lk_f32_from_bits(lk_load_u32(p));
        break;
    case LK_GGUF_F64:
        value->f = lk_f64_from_bits(lk_load_u64(p));
        break;
    case LK_GGUF_STRING:
    case LK_GGUF_ARRAY:
        break;
    }
}

static lk_status check_bools(const lk_gguf_cursor *c, const char *key, uint64_t offset,
                             uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t byte = c->part->data[offset + i];
        if (byte > 1) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, offset + i, key,
                                   "%.100s: bool value %u, expected 0 or 1", key, byte);
        }
    }
    return LK_OK;
}

static lk_status read_array_strings(lk_gguf_cursor *c, lk_gguf_entry *entry) {
    const char *key = entry->key;
    const uint64_t n = entry->value.n;
    size_t bytes = 0; /* n was checked against the file: no overflow */
    if (!lk_mul_size((size_t)n + 1, sizeof(uint64_t), &bytes)) {
        return lk_fail_nomem(c->err, key, SIZE_MAX);
    }
    uint64_t *starts = lk_gguf_arena_alloc(&c->gguf->arena, bytes);
    if (starts == NULL) {
        return lk_fail_nomem(c->err, key, bytes);
    }
    for (uint64_t i = 0; i < n; i++) {
        const char *str;
        uint64_t n_bytes;
        starts[i] = c->part->pos;
        const lk_status status = lk_gguf_read_string(c, &str, &n_bytes, key, "array string");
        if (status != LK_OK) {
            return status;
        }
    }
    starts[n] = c->part->pos;
    entry->starts = starts;
    return LK_OK;
}

static lk_status read_array(lk_gguf_cursor *c, lk_gguf_entry *entry) {
    const char *key = entry->key;
    lk_gguf_value *value = &entry->value;
    uint32_t type;
    const uint64_t type_offset = c->part->pos;
    lk_status status = lk_gguf_read_u32(c, &type, key, "array type");
    if (status != LK_OK) {
        return status;
    }
    if (type == LK_GGUF_ARRAY) {
        return lk_gguf_fail_at(c, LK_E_UNSUPPORTED, type_offset, key,
                               "%.100s: an array of arrays, expected numbers, bools or strings",
                               key);
    }
    if (type > LK_GGUF_F64) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, type_offset, key,
                               "%.100s: array of value type %u, expected 0 to 12", key, type);
    }
    value->elem_type = (lk_gguf_type)type;
    const uint64_t count_offset = c->part->pos;
    status = lk_gguf_read_u64(c, &value->n, key, "array length");
    if (status != LK_OK) {
        return status;
    }
    const uint64_t elem_bytes = type == LK_GGUF_STRING ? 8 : lk_gguf_type_bytes(value->elem_type);
    if (elem_bytes == 0 || value->n > lk_gguf_left(c) / elem_bytes) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, count_offset, key,
                               "%.100s: array of %llu elements of type %s, but %llu bytes are left",
                               key, (unsigned long long)value->n,
                               lk_gguf_type_name(value->elem_type),
                               (unsigned long long)lk_gguf_left(c));
    }
    const uint64_t start = c->part->pos;
    value->arr = c->part->data + start;
    if (type == LK_GGUF_STRING) {
        return read_array_strings(c, entry);
    }
    status = lk_gguf_skip(c, value->n * elem_bytes, key, "array");
    if (status == LK_OK && type == LK_GGUF_BOOL) {
        status = check_bools(c, key, start, value->n);
    }
    return status;
}

static lk_status read_value(lk_gguf_cursor *c, lk_gguf_entry *entry) {
    const char *key = entry->key;
    lk_gguf_value *value = &entry->value;
    uint32_t type;
    entry->type_offset = c->part->pos;
    lk_status status = lk_gguf_read_u32(c, &type, key, "value type");
    if (status != LK_OK) {
        return status;
    }
    if (type > LK_GGUF_F64) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, entry->type_offset, key,
                               "%.100s: value type %u, expected 0 to 12", key, type);
    }
    value->type = (lk_gguf_type)type;
    value->offset = c->part->pos;
    if (type == LK_GGUF_STRING) {
        status = lk_gguf_read_string(c, &value->str, &value->n, key, "string");
    } else if (type == LK_GGUF_ARRAY) {
        status = read_array(c, entry);
    } else {
        status =
            lk_gguf_skip(c, lk_gguf_type_bytes(value->type), key, lk_gguf_type_name(value->type));
        if (status == LK_OK && type == LK_GGUF_BOOL) {
            status = check_bools(c, key, value->offset, 1);
        }
        if (status == LK_OK) {
            load_scalar(value, c->part->data + value->offset);
        }
    }
    entry->end_offset = c->part->pos;
    return status;
}

/* The key of entry i: 1 to LK_GGUF_MAX_KEY_BYTES printable ASCII characters, copied. */
static lk_status read_key(lk_gguf_cursor *c, lk_gguf_entry *entry) {
    const char *bytes;
    uint64_t n;
    entry->key_offset = c->part->pos;
    lk_status status = lk_gguf_read_string(c, &bytes, &n, "", "metadata key");
    if (status != LK_OK) {
        return status;
    }
    if (n == 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, entry->key_offset, "", "metadata key %llu is empty",
                               (unsigned long long)entry->value.i_meta);
    }
    if (n > LK_GGUF_MAX_KEY_BYTES) {
        return lk_gguf_fail_at(c, LK_E_LIMIT, entry->key_offset, "",
                               "metadata key %llu has %llu bytes, the limit is %d",
                               (unsigned long long)entry->value.i_meta, (unsigned long long)n,
                               LK_GGUF_MAX_KEY_BYTES);
    }
    char *key = lk_gguf_arena_alloc(&c->gguf->arena, (size_t)n + 1);
    if (key == NULL) {
        return lk_fail_nomem(c->err, "a metadata key", (size_t)n + 1);
    }
    memcpy(key, bytes, (size_t)n);
    key[n] = '\0';
    for (uint64_t i = 0; i < n; i++) {
        if (key[i] < 0x20 || key[i] > 0x7e) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, entry->key_offset + 8 + i, "",
                                   "metadata key %llu holds the byte %02x, expected printable "
                                   "ASCII",
                                   (unsigned long long)entry->value.i_meta, (uint8_t)key[i]);
        }
    }
    entry->key = key;
    return LK_OK;
}

static bool key_less(const void *ctx, uint32_t a, uint32_t b) {
    const lk_gguf_entry *entries = ctx;
    const int sign = strcmp(entries[a].key, entries[b].key);
    return sign < 0 || (sign == 0 && a < b);
}

static const char *key_of(const void *ctx, uint32_t i) {
    return ((const lk_gguf_entry *)ctx)[i].key;
}

/* Sorts the keys; the second of two equal keys is the error. */
static lk_status index_keys(const lk_gguf_cursor *c) {
    lk_gguf_part *part = c->part;
    for (uint32_t i = 0; i < part->n_meta; i++) {
        part->by_key[i] = i;
    }
    lk_gguf_sort(part->by_key, part->n_meta, key_less, part->entries);
    for (uint64_t i = 1; i < part->n_meta; i++) {
        const lk_gguf_entry *first = &part->entries[part->by_key[i - 1]];
        const lk_gguf_entry *second = &part->entries[part->by_key[i]];
        if (strcmp(first->key, second->key) == 0) {
            return lk_gguf_fail_at(c, LK_E_FORMAT, second->key_offset, second->key,
                                   "key %.100s appears twice, first at byte %llu", second->key,
                                   (unsigned long long)first->key_offset);
        }
    }
    return LK_OK;
}

static lk_status read_alignment(const lk_gguf_cursor *c) {
    lk_gguf_part *part = c->part;
    static const char key[] = "general.alignment";
    const lk_gguf_entry *entry = lk_gguf_part_find(part, key);
    part->alignment = LK_GGUF_DEFAULT_ALIGNMENT;
    if (entry == NULL) {
        return LK_OK;
    }
    const lk_gguf_value *value = &entry->value;
    if (value->type != LK_GGUF_U32) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, entry->type_offset, key,
                               "%s has type %s, expected u32", key, lk_gguf_type_name(value->type));
    }
    const uint64_t a = (uint64_t)value->i;
    if (a < 8 || a > LK_GGUF_MAX_ALIGNMENT || (a & (a - 1)) != 0) {
        return lk_gguf_fail_at(c, LK_E_FORMAT, value->offset, key,
                               "%s is %llu, expected a power of two from 8 to %d", key,
                               (unsigned long long)a, LK_GGUF_MAX_ALIGNMENT);
    }
    part->alignment = a;
    return LK_OK;
}

lk_status lk_gguf_read_meta(lk_gguf_cursor *c) {
    lk_gguf_part *part = c->part;
    const lk_allocator *a = c->gguf->allocator;
    part->entries = lk_alloc_array_zero(a, (size_t)part->n_meta, sizeof *part->entries);
    part->by_key = lk_alloc_array(a, (size_t)part->n_meta, sizeof *part->by_key);
    if (part->entries == NULL || part->by_key == NULL) {
        return lk_fail_nomem(c->err, "the metadata",
                             (size_t)part->n_meta * (sizeof *part->entries + 4));
    }
    for (uint64_t i = 0; i < part->n_meta; i++) {
        lk_gguf_entry *entry = &part->entries[i];
        entry->value.i_meta = i;
        lk_status status = read_key(c, entry);
        if (status == LK_OK) {
            status = read_value(c, entry);
        }
        if (status != LK_OK) {
            return status;
        }
    }
    const lk_status status = index_keys(c);
    return status == LK_OK ? read_alignment(c) : status;
}

const lk_gguf_entry *lk_gguf_part_find(const lk_gguf_part *part, const char *key) {
    uint32_t i;
    return lk_gguf_search(part->by_key, part->n_meta, key_of, part->entries, key, &i)
               ? &part->entries[i]
               : NULL;
}
