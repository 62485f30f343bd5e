/* jinja_string.c - strings with the origin of every byte, and how they are built. A concatenation
 * whose left side was the last thing built is made in place, so that collecting a text piece by
 * piece costs its length and not the square of it. */
#include <string.h>

#include "text/jinja/jinja_value.h"
#include "text/unicode/unicode.h"

static size_t count_chars(const uint8_t *bytes, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += (bytes[i] & 0xC0) != 0x80;
    }
    return count;
}

static lk_jstring *new_string(lk_jheap *heap, const uint8_t *bytes, size_t n, uint8_t origin) {
    lk_jstring *s = lk_jheap_alloc(heap, sizeof *s);
    if (s != NULL) {
        *s = (lk_jstring){.bytes = bytes, .n = n, .n_chars = count_chars(bytes, n)};
        s->origin = origin;
    }
    return s;
}

const lk_jstring *lk_jstring_new(lk_jheap *heap, const void *bytes, size_t n, uint8_t origin) {
    uint8_t *copy = lk_jheap_alloc(heap, n);
    if (copy == NULL) {
        return NULL;
    }
    if (n != 0) {
        memcpy(copy, bytes, n);
    }
    return new_string(heap, copy, n, origin);
}

const lk_jstring *lk_jstring_text(lk_jheap *heap, const char *text) {
    return lk_jstring_new(heap, text, strlen(text), LK_J_TEMPLATE);
}

const lk_jstring *lk_jstring_slice(lk_jheap *heap, const lk_jstring *s, size_t from, size_t to) {
    if (from == 0 && to == s->n) {
        return s;
    }
    if (!lk_jheap_charge_bytes(heap, to - from)) {
        return NULL;
    }
    lk_jstring *slice = new_string(heap, s->bytes + from, to - from, s->origin);
    if (slice != NULL) {
        slice->origins = s->origins != NULL ? s->origins + from : NULL;
        slice->is_markup = s->is_markup;
    }
    return slice;
}

/* Room for n more bytes at the end; keeps what strings of the old place point to. */
static bool make_room(lk_jheap *heap, lk_jbytes *to, size_t n) {
    if (to->bytes != NULL && n <= to->capacity - to->n) {
        return true;
    }
    size_t needed = 0, capacity = 0;
    if (!lk_add_size(to->n, n, &needed) || !lk_mul_size(needed, 2, &capacity)) {
        heap->failure = LK_E_LIMIT;
        return false;
    }
    capacity = capacity < 64 ? 64 : capacity;
    uint8_t *bytes = lk_jheap_grow(heap, to->bytes, to->n, capacity, 1);
    uint8_t *origins = NULL;
    if (bytes != NULL && to->origins != NULL) {
        origins = lk_jheap_grow(heap, to->origins, to->n, capacity, 1);
    }
    if (bytes == NULL || (to->origins != NULL && origins == NULL)) {
        return false;
    }
    to->bytes = bytes;
    to->origins = origins;
    to->capacity = capacity;
    return true;
}

/* Appends bytes to `to`, which so far holds bytes of the one origin `*origin` unless it has
 * origins. */
static bool append(lk_jheap *heap, lk_jbytes *to, uint8_t *origin, const uint8_t *bytes,
                   const uint8_t *origins, uint8_t one_origin, size_t n) {
    if (n == 0) {
        return true;
    }
    if (!lk_jheap_charge_bytes(heap, n) || !make_room(heap, to, n)) {
        return false;
    }
    if (to->n == 0 && origins == NULL && to->origins == NULL) {
        *origin = one_origin;
    }
    if (to->origins == NULL && (origins != NULL || *origin != one_origin)) {
        to->origins = lk_jheap_alloc(heap, to->capacity);
        if (to->origins == NULL) {
            return false;
        }
        memset(to->origins, *origin, to->n);
    }
    memcpy(to->bytes + to->n, bytes, n);
    if (to->origins != NULL && origins != NULL) {
        memcpy(to->origins + to->n, origins, n);
    } else if (to->origins != NULL) {
        memset(to->origins + to->n, one_origin, n);
    }
    to->n += n;
    return true;
}

const lk_jstring *lk_jstring_concat(lk_jheap *heap, const lk_jstring *a, const lk_jstring *b) {
    lk_jbytes *to = a->grow;
    uint8_t origin = a->origin;
    const bool in_place = to != NULL && a->n != 0 && to->bytes == a->bytes && to->n == a->n &&
                          (to->origins == NULL || a->origins != NULL);
    if (!in_place) {
        to = lk_jheap_alloc(heap, sizeof *to);
        if (to == NULL) {
            return NULL;
        }
        *to = (lk_jbytes){NULL, NULL, 0, 0};
        if (!make_room(heap, to, a->n + b->n) ||
            !append(heap, to, &origin, a->bytes, a->origins, a->origin, a->n)) {
            return NULL;
        }
    }
    if (!append(heap, to, &origin, b->bytes, b->origins, b->origin, b->n)) {
        return NULL;
    }
    lk_jstring *s = lk_jheap_alloc(heap, sizeof *s);
    if (s != NULL) {
        *s = (lk_jstring){.bytes = to->bytes, .origins = to->origins, .n = to->n};
        s->n_chars = a->n_chars + b->n_chars;
        s->grow = to;
        s->origin = origin;
    }
    return s;
}

bool lk_jstring_equal(const lk_jstring *a, const lk_jstring *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->bytes, b->bytes, a->n) == 0);
}

bool lk_jstring_is(const lk_jstring *s, const char *text) {
    return s->n == strlen(text) && memcmp(s->bytes, text, s->n) == 0;
}

int lk_jstring_compare(const lk_jstring *a, const lk_jstring *b) {
    const size_t n = a->n < b->n ? a->n : b->n;
    const int order = n != 0 ? memcmp(a->bytes, b->bytes, n) : 0; /* UTF-8 keeps the order */
    if (order != 0) {
        return order < 0 ? -1 : 1;
    }
    return a->n < b->n ? -1 : a->n > b->n;
}

size_t lk_jstring_at(const lk_jstring *s, size_t i_char) {
    if (s->n_chars == s->n) {
        return i_char;
    }
    size_t at = 0;
    for (size_t i = 0; i < i_char && at < s->n; i++) {
        at += lk_utf8_length(s->bytes[at]);
    }
    return at;
}

size_t lk_jstring_find(lk_jheap *heap, const lk_jstring *s, size_t from, size_t to,
                       const lk_jstring *part) {
    if (part->n == 0) {
        return from;
    }
    size_t at = from;
    size_t work = 0;
    while (to - at >= part->n) {
        const uint8_t *first = memchr(s->bytes + at, part->bytes[0], to - at - part->n + 1);
        if (first == NULL) {
            break;
        }
        work += (size_t)(first - (s->bytes + at)) / 16 + 1;
        at = (size_t)(first - s->bytes);
        size_t equal = 1;
        while (equal < part->n && first[equal] == part->bytes[equal]) {
            equal++;
        }
        if (equal == part->n) {
            return lk_jheap_charge(heap, 1 + work) ? at : SIZE_MAX;
        }
        work += equal / 16;
        if (work > 4096) {
            if (!lk_jheap_charge(heap, work)) {
                return SIZE_MAX;
            }
            work = 0;
        }
        at++;
    }
    (void)lk_jheap_charge(heap, 1 + work + (to - from) / 64);
    return SIZE_MAX;
}

size_t lk_jstring_rfind(lk_jheap *heap, const lk_jstring *s, size_t from, size_t to,
                        const lk_jstring *part) {
    if (to - from < part->n) {
        return SIZE_MAX;
    }
    for (size_t at = to - part->n;; at--) {
        size_t equal = 0;
        while (equal < part->n && s->bytes[at + equal] == part->bytes[equal]) {
            equal++;
        }
        if (equal == part->n) {
            return at;
        }
        if (at == from || !lk_jheap_charge_bytes(heap, equal)) {
            return SIZE_MAX;
        }
    }
}

void lk_jbuild_init(lk_jbuild *b, lk_jheap *heap) {
    *b = (lk_jbuild){.heap = heap};
    b->to = lk_jheap_alloc(heap, sizeof *b->to);
    b->failed = b->to == NULL;
    if (b->to != NULL) {
        *b->to = (lk_jbytes){NULL, NULL, 0, 0};
    }
}

static bool build(lk_jbuild *b, const uint8_t *bytes, const uint8_t *origins, uint8_t origin,
                  size_t n) {
    b->failed = b->failed || !append(b->heap, b->to, &b->origin, bytes, origins, origin, n);
    return !b->failed;
}

bool lk_jbuild_bytes(lk_jbuild *b, const void *bytes, size_t n, uint8_t origin) {
    return build(b, bytes, NULL, origin, n);
}

bool lk_jbuild_text(lk_jbuild *b, const char *text) {
    return build(b, (const uint8_t *)text, NULL, LK_J_TEMPLATE, strlen(text));
}

bool lk_jbuild_string(lk_jbuild *b, const lk_jstring *s) {
    return build(b, s->bytes, s->origins, s->origin, s->n);
}

bool lk_jbuild_part(lk_jbuild *b, const lk_jstring *s, size_t from, size_t to) {
    return build(b, s->bytes + from, s->origins != NULL ? s->origins + from : NULL, s->origin,
                 to - from);
}

bool lk_jbuild_cp(lk_jbuild *b, uint32_t cp, uint8_t origin) {
    uint8_t bytes[4];
    return build(b, bytes, NULL, origin, lk_utf8_put(cp, bytes));
}

bool lk_jbuild_repeat(lk_jbuild *b, const lk_jstring *s, size_t count) {
    for (size_t i = 0; i < count && s->n != 0; i++) {
        if (!lk_jbuild_string(b, s)) {
            return false;
        }
    }
    return !b->failed;
}

const lk_jstring *lk_jbuild_finish(lk_jbuild *b) {
    if (b->failed) {
        return NULL;
    }
    static const uint8_t nothing[1] = {0};
    lk_jstring *s = new_string(b->heap, b->to->n != 0 ? b->to->bytes : nothing, b->to->n,
                               b->to->n != 0 ? b->origin : LK_J_TEMPLATE);
    if (s != NULL) {
        s->origins = b->to->origins;
        s->grow = b->to;
    }
    return s;
}
