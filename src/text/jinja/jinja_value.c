/* jinja_value.c - lists, dicts, truth, equality and order of values. */
#include "text/jinja/jinja_value.h"

#include <string.h>

#define FEW_ENTRIES 8 /* a dict up to this size is searched entry by entry */

lk_jlist *lk_jlist_new(lk_jheap *heap, size_t capacity) {
    lk_jlist *list = lk_jheap_alloc(heap, sizeof *list);
    if (list == NULL) {
        return NULL;
    }
    *list = (lk_jlist){NULL, 0, capacity};
    if (capacity != 0) {
        list->items = lk_jheap_array(heap, capacity, sizeof *list->items);
        if (list->items == NULL) {
            return NULL;
        }
    }
    return list;
}

bool lk_jlist_push(lk_jheap *heap, lk_jlist *list, lk_jvalue v) {
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity < 4 ? 4 : 2 * list->capacity;
        lk_jvalue *items = lk_jheap_grow(heap, list->items, list->n, capacity, sizeof *list->items);
        if (items == NULL) {
            return false;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = v;
    return lk_jheap_charge(heap, 1);
}

lk_jdict *lk_jdict_new(lk_jheap *heap) {
    lk_jdict *dict = lk_jheap_alloc(heap, sizeof *dict);
    if (dict != NULL) {
        *dict = (lk_jdict){NULL, 0, 0, NULL, 0};
    }
    return dict;
}

bool lk_jis_key(lk_jvalue v) {
    return v.type == LK_J_STRING || v.type == LK_J_NONE || v.type == LK_J_INT ||
           v.type == LK_J_BOOL || v.type == LK_J_FLOAT || v.type == LK_J_BIG;
}

static uint64_t hash_bytes(const uint8_t *bytes, size_t n) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    }
    return hash;
}

static size_t hash_key(lk_jvalue key) {
    uint64_t hash = 0;
    if (key.type == LK_J_STRING || key.type == LK_J_BIG) {
        hash = hash_bytes(key.s->bytes, key.s->n);
    } else if (lk_jis_number(key)) { /* equal numbers of any type are one key */
        const double value = lk_jfloat_of(key);
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof bits);
        hash = value == 0 ? 0 : bits;
    }
    return (size_t)(hash * 0x9E3779B97F4A7C15u >> 20);
}

static bool equal_keys(lk_jvalue a, lk_jvalue b) {
    if (a.type == LK_J_STRING || b.type == LK_J_STRING) {
        return a.type == b.type && lk_jstring_equal(a.s, b.s);
    }
    if (lk_jis_int(a) && lk_jis_int(b)) {
        return lk_jint_of(a) == lk_jint_of(b);
    }
    if (lk_jis_number(a) && lk_jis_number(b)) {
        return lk_jfloat_of(a) == lk_jfloat_of(b);
    }
    return a.type == b.type && (a.type == LK_J_NONE || lk_jstring_equal(a.s, b.s));
}

lk_jvalue *lk_jdict_get(lk_jheap *heap, const lk_jdict *dict, lk_jvalue key) {
    if (dict->slots == NULL) {
        for (size_t i = 0; i < dict->n; i++) {
            if (equal_keys(dict->entries[i].key, key)) {
                return &dict->entries[i].value;
            }
        }
        return NULL;
    }
    const size_t mask = dict->n_slots - 1;
    for (size_t at = hash_key(key) & mask; dict->slots[at] != 0; at = (at + 1) & mask) {
        lk_jentry *entry = &dict->entries[dict->slots[at] - 1];
        if (equal_keys(entry->key, key)) {
            return &entry->value;
        }
        if (!lk_jheap_charge(heap, 1)) { /* keys that were made to collide */
            return NULL;
        }
    }
    return NULL;
}

lk_jvalue *lk_jdict_get_text(lk_jheap *heap, const lk_jdict *dict, const char *key) {
    const lk_jstring name = {.bytes = (const uint8_t *)key, .n = strlen(key)};
    return lk_jdict_get(heap, dict, lk_jstr(&name));
}

static bool insert_slot(lk_jheap *heap, lk_jdict *dict, size_t i) {
    const size_t mask = dict->n_slots - 1;
    size_t at = hash_key(dict->entries[i].key) & mask;
    while (dict->slots[at] != 0) {
        at = (at + 1) & mask;
        if (!lk_jheap_charge(heap, 1)) {
            return false;
        }
    }
    dict->slots[at] = (uint32_t)i + 1;
    return true;
}

static bool make_slots(lk_jheap *heap, lk_jdict *dict) {
    dict->n_slots = 4 * dict->capacity; /* a power of two */
    dict->slots = lk_jheap_array(heap, dict->n_slots, sizeof *dict->slots);
    if (dict->slots == NULL) {
        return false;
    }
    memset(dict->slots, 0, dict->n_slots * sizeof *dict->slots);
    for (size_t i = 0; i < dict->n; i++) {
        if (!insert_slot(heap, dict, i)) {
            return false;
        }
    }
    return true;
}

bool lk_jdict_set(lk_jheap *heap, lk_jdict *dict, lk_jvalue key, lk_jvalue value) {
    lk_jvalue *old = lk_jdict_get(heap, dict, key);
    if (old != NULL || !lk_jheap_charge(heap, 1)) {
        if (old != NULL) {
            *old = value;
        }
        return old != NULL;
    }
    const bool grows = dict->n == dict->capacity;
    if (grows) {
        const size_t capacity = dict->capacity < 4 ? 4 : 2 * dict->capacity;
        lk_jentry *entries =
            lk_jheap_grow(heap, dict->entries, dict->n, capacity, sizeof *dict->entries);
        if (entries == NULL) {
            return false;
        }
        dict->entries = entries;
        dict->capacity = capacity;
    }
    dict->entries[dict->n++] = (lk_jentry){key, value};
    if (dict->n <= FEW_ENTRIES) {
        return true;
    }
    return grows || dict->slots == NULL ? make_slots(heap, dict)
                                        : insert_slot(heap, dict, dict->n - 1);
}

bool lk_jtruth(lk_jvalue v) {
    switch (v.type) {
    case LK_J_UNSET:
    case LK_J_UNDEFINED:
    case LK_J_NONE:
        return false;
    case LK_J_BOOL:
        return v.b;
    case LK_J_INT:
        return v.i != 0;
    case LK_J_FLOAT:
        return v.f != 0;
    case LK_J_STRING:
        return v.s->n != 0;
    case LK_J_LIST:
    case LK_J_TUPLE:
        return v.list->n != 0;
    case LK_J_DICT:
        return v.dict->n != 0;
    default:
        return true;
    }
}

static bool equal_at(lk_jheap *heap, lk_jvalue a, lk_jvalue b, int depth);

static bool equal_lists(lk_jheap *heap, const lk_jlist *a, const lk_jlist *b, int depth) {
    if (a->n != b->n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (!equal_at(heap, a->items[i], b->items[i], depth)) {
            return false;
        }
    }
    return true;
}

static bool equal_dicts(lk_jheap *heap, const lk_jdict *a, const lk_jdict *b, int depth) {
    if (a->n != b->n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        const lk_jvalue *other = lk_jdict_get(heap, b, a->entries[i].key);
        if (other == NULL || !equal_at(heap, a->entries[i].value, *other, depth)) {
            return false;
        }
    }
    return true;
}

static bool equal_at(lk_jheap *heap, lk_jvalue a, lk_jvalue b, int depth) {
    if (!lk_jheap_charge(heap, 1)) {
        return false;
    }
    if (lk_jis_number(a) && lk_jis_number(b)) {
        return lk_jis_int(a) && lk_jis_int(b) ? lk_jint_of(a) == lk_jint_of(b)
                                              : lk_jfloat_of(a) == lk_jfloat_of(b);
    }
    if (a.type != b.type) {
        return false;
    }
    if (depth == LK_J_MAX_NESTING) {
        heap->failure = LK_E_LIMIT;
        return false;
    }
    switch (a.type) {
    case LK_J_UNDEFINED:
    case LK_J_NONE:
        return true;
    case LK_J_STRING:
    case LK_J_BIG:
        return lk_jheap_charge_bytes(heap, a.s->n) && lk_jstring_equal(a.s, b.s);
    case LK_J_LIST:
    case LK_J_TUPLE:
        return equal_lists(heap, a.list, b.list, depth + 1);
    case LK_J_DICT:
        return equal_dicts(heap, a.dict, b.dict, depth + 1);
    case LK_J_FUNCTION:
        return a.aux == b.aux;
    default:
        return a.object == b.object;
    }
}

bool lk_jequal(lk_jheap *heap, lk_jvalue a, lk_jvalue b) {
    return equal_at(heap, a, b, 0);
}

static bool compare_at(lk_jheap *heap, lk_jvalue a, lk_jvalue b, int *order, int depth) {
    *order = 0;
    if (!lk_jheap_charge(heap, 1)) {
        return false;
    }
    if (lk_jis_int(a) && lk_jis_int(b)) {
        const int64_t x = lk_jint_of(a), y = lk_jint_of(b);
        *order = x < y ? -1 : x > y;
        return true;
    }
    if (lk_jis_number(a) && lk_jis_number(b)) {
        const double x = lk_jfloat_of(a), y = lk_jfloat_of(b);
        *order = x < y ? -1 : x > y;
        return x == x && y == y;
    }
    if (a.type == LK_J_STRING && b.type == LK_J_STRING) {
        *order = lk_jstring_compare(a.s, b.s);
        return lk_jheap_charge_bytes(heap, a.s->n < b.s->n ? a.s->n : b.s->n);
    }
    if (a.type != b.type || (a.type != LK_J_LIST && a.type != LK_J_TUPLE)) {
        return false;
    }
    if (depth == LK_J_MAX_NESTING) {
        heap->failure = LK_E_LIMIT;
        return false;
    }
    const size_t n = a.list->n < b.list->n ? a.list->n : b.list->n;
    for (size_t i = 0; i < n; i++) {
        if (!equal_at(heap, a.list->items[i], b.list->items[i], depth + 1)) {
            return heap->failure == LK_OK &&
                   compare_at(heap, a.list->items[i], b.list->items[i], order, depth + 1);
        }
    }
    *order = a.list->n < b.list->n ? -1 : a.list->n > b.list->n;
    return true;
}

bool lk_jcompare(lk_jheap *heap, lk_jvalue a, lk_jvalue b, int *order) {
    return compare_at(heap, a, b, order, 0);
}

const char *lk_jtype_name(lk_jvalue v) {
    static const char *const names[] = {
        [LK_J_UNSET] = "nothing",
        [LK_J_UNDEFINED] = "Undefined",
        [LK_J_NONE] = "NoneType",
        [LK_J_BOOL] = "bool",
        [LK_J_INT] = "int",
        [LK_J_BIG] = "int",
        [LK_J_FLOAT] = "float",
        [LK_J_STRING] = "str",
        [LK_J_LIST] = "list",
        [LK_J_TUPLE] = "tuple",
        [LK_J_ITERATOR] = "generator",
        [LK_J_DICT] = "dict",
        [LK_J_NAMESPACE] = "namespace",
        [LK_J_LOOP] = "loop",
        [LK_J_MACRO] = "macro",
        [LK_J_FUNCTION] = "function",
        [LK_J_METHOD] = "method",
        [LK_J_CYCLER] = "cycler",
        [LK_J_JOINER] = "joiner",
    };
    return names[v.type];
}
