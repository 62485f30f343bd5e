/* normalize.c - repair of ill-formed UTF-8 and normalisation form C (UAX 15).
 *
 * NFC works on one region at a time: from the last starter before an active character (combining
 * class not 0, or NFC_Quick_Check not Yes) up to the next inert one. Nothing outside such regions
 * changes. Long runs of combining marks are ordered by counting, so a region of any length costs
 * O(n).
 */
#include "text/unicode/normalize.h"

#include <string.h>

#include "text/unicode/unicode.h"

bool lk_utf8_is_valid(const uint8_t *text, size_t n) {
    size_t bad = 0;
    for (size_t i = 0; i < n;) {
        if (text[i] < 0x80) {
            i++;
            continue;
        }
        const size_t length = lk_utf8_sequence(text + i, n - i, &bad);
        if (length == 0) {
            return false;
        }
        i += length;
    }
    return true;
}

bool lk_utf8_repair(const uint8_t *text, size_t n, lk_text_buffer *out) {
    size_t kept = 0;
    for (size_t i = 0; i < n;) {
        size_t bad = 0;
        const size_t length = lk_utf8_sequence(text + i, n - i, &bad);
        if (length != 0) {
            i += length;
            continue;
        }
        if (!lk_text_buffer_append(out, text + kept, i - kept) ||
            !lk_text_buffer_append_cp(out, LK_REPLACEMENT)) {
            return false;
        }
        i += bad;
        kept = i;
    }
    return lk_text_buffer_append(out, text + kept, n - kept);
}

/* Hangul syllables compose and decompose by arithmetic (chapter 3.12). */
enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_N_L = 19,
    HANGUL_N_V = 21,
    HANGUL_N_T = 28,
    HANGUL_N_S = 11172
};

static uint32_t combining_class(uint32_t cp) {
    size_t low = 0, high = lk_unicode_n_combining;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (lk_unicode_combining[middle].last < cp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < lk_unicode_n_combining && lk_unicode_combining[low].first <= cp
               ? lk_unicode_combining[low].ccc
               : 0;
}

static const lk_decomposition *find_decomposition(uint32_t cp) {
    size_t low = 0, high = lk_unicode_n_decompositions;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (lk_unicode_decompositions[middle].cp < cp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < lk_unicode_n_decompositions && lk_unicode_decompositions[low].cp == cp
               ? &lk_unicode_decompositions[low]
               : NULL;
}

/* The composition of a pair, or 0. */
static uint32_t compose_pair(uint32_t a, uint32_t b) {
    if (a >= HANGUL_L && a < HANGUL_L + HANGUL_N_L && b >= HANGUL_V && b < HANGUL_V + HANGUL_N_V) {
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_N_V + (b - HANGUL_V)) * HANGUL_N_T;
    }
    if (a >= HANGUL_S && a < HANGUL_S + HANGUL_N_S && (a - HANGUL_S) % HANGUL_N_T == 0 &&
        b > HANGUL_T && b < HANGUL_T + HANGUL_N_T) {
        return a + (b - HANGUL_T);
    }
    size_t low = 0, high = lk_unicode_n_compositions;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const lk_decomposition *d = &lk_unicode_decompositions[lk_unicode_compositions[middle]];
        if (d->first < a || (d->first == a && d->second < b)) {
            low = middle + 1;
        } else if (d->first == a && d->second == b) {
            return d->cp;
        } else {
            high = middle;
        }
    }
    return 0;
}

/* The characters of one region: code point in the low 21 bits, combining class above. */
typedef struct region {
    const lk_allocator *allocator;
    uint32_t *chars;
    uint32_t *sorted; /* scratch of the same capacity */
    size_t n;
    size_t capacity;
} region;

#define CHAR_CP 0x1FFFFFu
#define CHAR_CCC_SHIFT 21

static bool region_reserve(region *r, size_t n) {
    if (r->n + n <= r->capacity) {
        return true;
    }
    const size_t capacity = (r->n + n) * 2;
    uint32_t *chars = lk_alloc_array(r->allocator, capacity, 2 * sizeof *chars);
    if (chars == NULL) {
        return false;
    }
    if (r->n != 0) {
        memcpy(chars, r->chars, r->n * sizeof *chars);
    }
    lk_free_array(r->allocator, r->chars, r->capacity, 2 * sizeof *chars);
    r->chars = chars;
    r->sorted = chars + capacity;
    r->capacity = capacity;
    return true;
}

static void region_put(region *r, uint32_t cp) {
    r->chars[r->n++] = cp | (combining_class(cp) << CHAR_CCC_SHIFT);
}

/* Appends the full canonical decomposition of cp: at most 4 code points. */
static bool region_append(region *r, uint32_t cp) {
    if (!region_reserve(r, 4)) {
        return false;
    }
    if (cp >= HANGUL_S && cp < HANGUL_S + HANGUL_N_S) {
        const uint32_t s = cp - HANGUL_S;
        region_put(r, HANGUL_L + s / (HANGUL_N_V * HANGUL_N_T));
        region_put(r, HANGUL_V + s % (HANGUL_N_V * HANGUL_N_T) / HANGUL_N_T);
        if (s % HANGUL_N_T != 0) {
            region_put(r, HANGUL_T + s % HANGUL_N_T);
        }
        return true;
    }
    uint32_t tails[3]; /* only the first of a pair decomposes further, at most three times */
    size_t n_tails = 0;
    const lk_decomposition *d = find_decomposition(cp);
    while (d != NULL) {
        if (d->second != 0) {
            tails[n_tails++] = d->second;
        }
        cp = d->first;
        d = n_tails < 3 ? find_decomposition(cp) : NULL;
    }
    region_put(r, cp);
    while (n_tails > 0) {
        region_put(r, tails[--n_tails]);
    }
    return true;
}

/* Orders chars[first .. last), whose classes are not 0, by class; equal ones keep their order. */
static void order_marks(region *r, size_t first, size_t last) {
    if (last - first <= 16) {
        for (size_t i = first + 1; i < last; i++) {
            const uint32_t moved = r->chars[i];
            size_t j = i;
            for (; j > first && r->chars[j - 1] >> CHAR_CCC_SHIFT > moved >> CHAR_CCC_SHIFT; j--) {
                r->chars[j] = r->chars[j - 1];
            }
            r->chars[j] = moved;
        }
        return;
    }
    size_t start[256] = {0};
    for (size_t i = first; i < last; i++) {
        start[r->chars[i] >> CHAR_CCC_SHIFT]++;
    }
    size_t sum = first;
    for (size_t c = 0; c < 256; c++) {
        const size_t count = start[c];
        start[c] = sum;
        sum += count;
    }
    for (size_t i = first; i < last; i++) {
        r->sorted[start[r->chars[i] >> CHAR_CCC_SHIFT]++] = r->chars[i];
    }
    memcpy(r->chars + first, r->sorted + first, (last - first) * sizeof *r->chars);
}

static void region_order(region *r) {
    for (size_t i = 0; i < r->n;) {
        size_t end = i;
        bool in_order = true;
        while (end < r->n && (r->chars[end] >> CHAR_CCC_SHIFT) != 0) {
            in_order = in_order && (end == i || (r->chars[end - 1] >> CHAR_CCC_SHIFT) <=
                                                    (r->chars[end] >> CHAR_CCC_SHIFT));
            end++;
        }
        if (!in_order) {
            order_marks(r, i, end);
        }
        i = end + 1;
    }
}

/* The canonical composition algorithm: a character joins the last starter unless one between them
 * has a class that is not lower than its own. */
static void region_compose(region *r) {
    size_t n = 0;
    size_t starter = SIZE_MAX;
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t ccc = r->chars[i] >> CHAR_CCC_SHIFT;
        const uint32_t last = n > 0 ? r->chars[n - 1] >> CHAR_CCC_SHIFT : 0;
        if (starter != SIZE_MAX && (starter == n - 1 || (last != 0 && last < ccc))) {
            const uint32_t cp = compose_pair(r->chars[starter] & CHAR_CP, r->chars[i] & CHAR_CP);
            if (cp != 0) {
                r->chars[starter] = cp;
                continue;
            }
        }
        if (ccc == 0) {
            starter = n;
        }
        r->chars[n++] = r->chars[i];
    }
    r->n = n;
}

/* End of the inert characters from `pos` on; *last is where the last of them begins. */
static size_t skip_inert(const uint8_t *text, size_t n, size_t pos, size_t *last) {
    while (pos < n) {
        size_t length = 1;
        if (text[pos] >= 0x80 &&
            (lk_unicode_prop(lk_utf8_get(text + pos, &length)) & LK_PROP_NFC_ACTIVE) != 0) {
            break;
        }
        *last = pos;
        pos += length;
    }
    return pos;
}

bool lk_nfc_is_certain(const uint8_t *text, size_t n) {
    size_t last = 0;
    return skip_inert(text, n, 0, &last) == n;
}

/* Appends the NFC form of the region text[first .. last). */
static bool normalize_region(region *r, const uint8_t *text, size_t first, size_t last,
                             lk_text_buffer *out) {
    r->n = 0;
    for (size_t i = first; i < last;) {
        size_t length = 0;
        if (!region_append(r, lk_utf8_get(text + i, &length))) {
            return false;
        }
        i += length;
    }
    region_order(r);
    region_compose(r);
    for (size_t i = 0; i < r->n; i++) {
        if (!lk_text_buffer_append_cp(out, r->chars[i] & CHAR_CP)) {
            return false;
        }
    }
    return true;
}

bool lk_nfc(const uint8_t *text, size_t n, lk_text_buffer *out) {
    region r = {.allocator = out->allocator};
    bool ok = true;
    for (size_t pos = 0; ok && pos < n;) {
        size_t first = pos;
        size_t end = skip_inert(text, n, pos, &first);
        if (end == n) {
            ok = lk_text_buffer_append(out, text + pos, n - pos);
            break;
        }
        ok = lk_text_buffer_append(out, text + pos, first - pos);
        for (size_t length = 0; end < n; end += length) {
            if ((lk_unicode_prop(lk_utf8_get(text + end, &length)) & LK_PROP_NFC_ACTIVE) == 0) {
                break;
            }
        }
        ok = ok && normalize_region(&r, text, first, end, out);
        pos = end;
    }
    lk_free_array(r.allocator, r.chars, r.capacity, 2 * sizeof *r.chars);
    return ok;
}
