/* strings.c - see strings.h. */
#include "text/strings.h"

#include <string.h>

#include "base/bytes.h"
#include "base/prefetch.h"

/* A fast hash for tables inside one process. No defence against chosen collisions: probes are
 * bounded instead. */
static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

uint32_t lk_strings_hash(const uint8_t *s, size_t n) {
    uint64_t h = 0xC2B2AE3D27D4EB4Fu ^ n;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        h = mix(h, lk_load_u64(s + i));
    }
    uint64_t tail = 0;
    for (unsigned shift = 0; i < n; i++, shift += 8) {
        tail |= (uint64_t)s[i] << shift;
    }
    return (uint32_t)((mix(h, tail) * 0xD6E8FEB86659FD93u) >> 32);
}

bool lk_strings_init(lk_strings *s, const lk_allocator *allocator, uint32_t capacity,
                     size_t data_bytes, bool indexed) {
    *s = (lk_strings){.allocator = allocator, .capacity = capacity, .data_bytes = data_bytes};
    s->n_slots = indexed ? lk_table_size(capacity) : 0;
    s->data = lk_alloc(allocator, data_bytes);
    s->offsets = lk_alloc_array(allocator, (size_t)capacity + 1, sizeof *s->offsets);
    s->slots = lk_alloc_array_zero(allocator, s->n_slots, sizeof *s->slots);
    if (s->data == NULL || s->offsets == NULL || s->slots == NULL) {
        lk_strings_deinit(s);
        return false;
    }
    s->offsets[0] = 0;
    return true;
}

void lk_strings_deinit(lk_strings *s) {
    lk_free(s->allocator, s->data, s->data_bytes);
    lk_free_array(s->allocator, s->offsets, (size_t)s->capacity + 1, sizeof *s->offsets);
    lk_free_array(s->allocator, s->slots, s->n_slots, sizeof *s->slots);
    *s = (lk_strings){.allocator = s->allocator};
}

/* The slot of a string: its own, or the free one where it belongs; NULL after LK_MAX_PROBES. */
static lk_strings_slot *find_slot(const lk_strings *s, const uint8_t *bytes, size_t n,
                                  uint32_t hash) {
    const size_t mask = s->n_slots - 1;
    for (size_t probe = 0; probe < LK_MAX_PROBES; probe++) {
        lk_strings_slot *slot = &s->slots[(hash + probe) & mask];
        if (slot->id_plus_1 == 0) {
            return slot;
        }
        if (slot->hash == hash) {
            size_t n_other = 0;
            const uint8_t *other = lk_strings_get(s, slot->id_plus_1 - 1, &n_other);
            if (n_other == n && memcmp(other, bytes, n) == 0) {
                return slot;
            }
        }
    }
    return NULL;
}

bool lk_strings_push(lk_strings *s, const void *bytes, size_t n_bytes, bool indexed) {
    const uint32_t id = s->n++;
    uint8_t *copy = s->data + s->offsets[id];
    if (n_bytes != 0) {
        memcpy(copy, bytes, n_bytes);
    }
    s->offsets[id + 1] = s->offsets[id] + (uint32_t)n_bytes;
    if (!indexed) {
        return true;
    }
    const uint32_t hash = lk_strings_hash(copy, n_bytes);
    lk_strings_slot *slot = find_slot(s, copy, n_bytes, hash);
    if (slot == NULL) {
        return false;
    }
    if (slot->id_plus_1 == 0) {
        *slot = (lk_strings_slot){hash, id + 1};
    }
    s->longest = n_bytes > s->longest ? n_bytes : s->longest;
    return true;
}

uint32_t lk_strings_find(const lk_strings *s, const void *bytes, size_t n_bytes) {
    if (n_bytes > s->longest || s->n_slots == 0) {
        return LK_NO_STRING;
    }
    const lk_strings_slot *slot = find_slot(s, bytes, n_bytes, lk_strings_hash(bytes, n_bytes));
    return slot != NULL && slot->id_plus_1 != 0 ? slot->id_plus_1 - 1 : LK_NO_STRING;
}

void lk_strings_hint(const lk_strings *s, const void *bytes, size_t n_bytes) {
    if (s->n_slots != 0) {
        lk_prefetch(&s->slots[lk_strings_hash(bytes, n_bytes) & (s->n_slots - 1)]);
    }
}
