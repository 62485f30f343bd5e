/* language.c - see language.h. */
#include "grammar/language.h"

#include <string.h>

static lk_status no_memory(lk_error *err) {
    return lk_fail_nomem(err, "the states of a pattern", LK_LANGUAGE_MAX_ENTRIES);
}

void lk_language_free(lk_language *l, const lk_allocator *a) {
    lk_free_array(a, l->cuts, l->cuts_capacity, sizeof l->cuts[0]);
    lk_free_array(a, l->next, l->next_capacity, sizeof l->next[0]);
    lk_free_array(a, l->is_end, l->end_capacity, sizeof l->is_end[0]);
    *l = (lk_language){0};
}

uint32_t lk_language_add(lk_language *l, const lk_allocator *a, lk_error *err, lk_status *status) {
    const size_t used = (size_t)l->n_states * l->n_classes;
    void *next = l->next;
    void *is_end = l->is_end;
    if (l->n_states == LK_LANGUAGE_MAX_STATES || used + l->n_classes > LK_LANGUAGE_MAX_ENTRIES) {
        *status = lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("pattern"),
                          "the strings need more than %u states or %zu entries",
                          LK_LANGUAGE_MAX_STATES, LK_LANGUAGE_MAX_ENTRIES);
        return LK_LANGUAGE_NONE;
    }
    if (!lk_grow_array(a, &next, used, &l->next_capacity, used + l->n_classes, sizeof l->next[0])) {
        *status = no_memory(err);
        return LK_LANGUAGE_NONE;
    }
    l->next = next;
    if (!lk_grow_array(a, &is_end, l->n_states, &l->end_capacity, l->n_states + 1, 1)) {
        *status = no_memory(err);
        return LK_LANGUAGE_NONE;
    }
    l->is_end = is_end;
    memset(l->next + used, 0xff, l->n_classes * sizeof l->next[0]);
    l->is_end[l->n_states] = 0;
    return l->n_states++;
}

static void sift_down(uint32_t *heap, size_t n, size_t i) {
    const uint32_t moving = heap[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        child += child + 1 < n && heap[child + 1] > heap[child];
        if (heap[child] <= moving) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static void sort(uint32_t *numbers, size_t n) {
    for (size_t i = n / 2; i-- > 0;) {
        sift_down(numbers, n, i);
    }
    for (size_t end = n; end > 1;) {
        const uint32_t top = numbers[0];
        numbers[0] = numbers[--end];
        sift_down(numbers, end, 0);
        numbers[end] = top;
    }
}

bool lk_language_cut(lk_language *l, uint32_t *cuts, size_t n, const lk_allocator *a) {
    void *own = NULL;
    sort(cuts, n);
    if (!lk_grow_array(a, &own, 0, &l->cuts_capacity, n + 1, sizeof cuts[0])) {
        return false;
    }
    l->cuts = own;
    l->cuts[0] = 0;
    l->n_classes = 1;
    for (size_t i = 0; i < n; i++) {
        if (cuts[i] > l->cuts[l->n_classes - 1] && cuts[i] <= LK_MAX_CODE_POINT) {
            l->cuts[l->n_classes++] = cuts[i];
        }
    }
    return true;
}

uint32_t lk_language_class(const lk_language *l, uint32_t cp) {
    uint32_t low = 0;
    uint32_t high = l->n_classes;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (l->cuts[middle] <= cp) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

bool lk_language_next_run(const lk_language *l, uint32_t state, uint32_t *c, lk_language_run *run) {
    const uint32_t *next = l->next + (size_t)state * l->n_classes;
    while (*c < l->n_classes) {
        const uint32_t first = *c;
        while (*c < l->n_classes && next[*c] == next[first]) {
            ++*c;
        }
        *run = (lk_language_run){
            l->cuts[first], *c < l->n_classes ? l->cuts[*c] - 1 : LK_MAX_CODE_POINT, next[first]};
        if (run->target != LK_LANGUAGE_NONE) {
            return true;
        }
    }
    return false;
}

bool lk_language_is_empty(const lk_language *l) {
    return l->n_states == 0;
}

bool lk_language_accepts(const lk_language *l, const char *text, size_t n) {
    uint32_t state = l->n_states != 0 ? 0 : LK_LANGUAGE_NONE;
    for (size_t i = 0; i < n && state != LK_LANGUAGE_NONE;) {
        size_t length = 0;
        const uint32_t cp = lk_utf8_get((const uint8_t *)text + i, &length);
        state = l->next[(size_t)state * l->n_classes + lk_language_class(l, cp)];
        i += length;
    }
    return state != LK_LANGUAGE_NONE && l->is_end[state] != 0;
}

/* States from which an end is reached: backwards from the ends, over lists of predecessors. */
lk_status lk_language_trim(lk_language *l, const lk_allocator *a, lk_error *err) {
    const size_t n = l->n_states;
    const size_t n_entries = n * l->n_classes;
    uint32_t *first = lk_alloc_array_zero(a, n + 2, sizeof first[0]);
    uint32_t *before = lk_alloc_array(a, n_entries, sizeof before[0]);
    uint32_t *stack = lk_alloc_array(a, n, sizeof stack[0]);
    uint8_t *is_good = lk_alloc_array_zero(a, n, 1);
    const bool ok = first != NULL && before != NULL && stack != NULL && is_good != NULL;
    if (ok) {
        for (size_t i = 0; i < n_entries; i++) {
            if (l->next[i] != LK_LANGUAGE_NONE) {
                first[l->next[i] + 1]++;
            }
        }
        for (size_t s = 1; s <= n; s++) {
            first[s] += first[s - 1];
        }
        first[n + 1] = first[n];
        for (size_t i = 0; i < n_entries; i++) {
            if (l->next[i] != LK_LANGUAGE_NONE) {
                before[--first[l->next[i] + 1]] = (uint32_t)(i / l->n_classes);
            }
        }
        size_t n_stack = 0;
        for (uint32_t s = 0; s < n; s++) {
            if (l->is_end[s]) {
                is_good[s] = 1;
                stack[n_stack++] = s;
            }
        }
        while (n_stack > 0) {
            const uint32_t s = stack[--n_stack];
            for (uint32_t i = first[s + 1]; i < first[s + 2]; i++) {
                if (!is_good[before[i]]) {
                    is_good[before[i]] = 1;
                    stack[n_stack++] = before[i];
                }
            }
        }
        for (size_t i = 0; i < n_entries; i++) {
            if (l->next[i] != LK_LANGUAGE_NONE && !is_good[l->next[i]]) {
                l->next[i] = LK_LANGUAGE_NONE;
            }
        }
        if (n != 0 && !is_good[0]) {
            l->n_states = 0;
        }
    }
    lk_free_array(a, first, n + 2, sizeof first[0]);
    lk_free_array(a, before, n_entries, sizeof before[0]);
    lk_free_array(a, stack, n, sizeof stack[0]);
    lk_free_array(a, is_good, n, 1);
    return ok ? LK_OK : no_memory(err);
}

/* ---- lengths and words ---- */

lk_status lk_language_lengths(uint32_t min, uint32_t max, const lk_allocator *a, lk_language *out,
                              lk_error *err) {
    lk_status status = LK_OK;
    const uint32_t last = max == UINT32_MAX ? min : max;
    *out = (lk_language){0};
    if (max < min) {
        return LK_OK;
    }
    if (!lk_language_cut(out, NULL, 0, a)) {
        return no_memory(err);
    }
    for (uint32_t i = 0; i <= last && status == LK_OK; i++) {
        const uint32_t state = lk_language_add(out, a, err, &status);
        if (status == LK_OK) {
            out->is_end[state] = i >= min;
            out->next[state] = i < last ? i + 1 : max == UINT32_MAX ? last : LK_LANGUAGE_NONE;
        }
    }
    if (status != LK_OK) {
        lk_language_free(out, a);
    }
    return status;
}

static lk_status add_word(lk_language *l, const lk_language_word *word, const lk_allocator *a,
                          lk_error *err) {
    uint32_t state = 0;
    lk_status status = LK_OK;
    for (size_t i = 0; i < word->n && status == LK_OK;) {
        size_t length = 0;
        const uint32_t cp = lk_utf8_get((const uint8_t *)word->text + i, &length);
        const size_t entry = (size_t)state * l->n_classes + lk_language_class(l, cp);
        uint32_t next = l->next[entry];
        if (next == LK_LANGUAGE_NONE) {
            next = lk_language_add(l, a, err, &status);
            if (status == LK_OK) {
                l->next[entry] = next;
            }
        }
        state = next;
        i += length;
    }
    if (status == LK_OK) {
        l->is_end[state] = 1;
    }
    return status;
}

lk_status lk_language_words(const lk_language_word *words, size_t n, const lk_allocator *a,
                            lk_language *out, lk_error *err) {
    size_t n_cuts = 0;
    *out = (lk_language){0};
    for (size_t i = 0; i < n; i++) {
        n_cuts += 2 * words[i].n; /* at most */
    }
    uint32_t *cuts = lk_alloc_array(a, n_cuts, sizeof cuts[0]);
    size_t used = 0;
    for (size_t i = 0; i < n && cuts != NULL; i++) {
        for (size_t k = 0; k < words[i].n;) {
            size_t length = 0;
            const uint32_t cp = lk_utf8_get((const uint8_t *)words[i].text + k, &length);
            cuts[used++] = cp;
            cuts[used++] = cp + 1;
            k += length;
        }
    }
    const bool ok = cuts != NULL && lk_language_cut(out, cuts, used, a);
    lk_free_array(a, cuts, n_cuts, sizeof cuts[0]);
    if (!ok) {
        return no_memory(err);
    }
    lk_status status = LK_OK;
    (void)lk_language_add(out, a, err, &status);
    for (size_t i = 0; i < n && status == LK_OK; i++) {
        status = add_word(out, &words[i], a, err);
    }
    if (status == LK_OK) {
        status = lk_language_trim(out, a, err);
    }
    if (status != LK_OK) {
        lk_language_free(out, a);
    }
    return status;
}

/* ---- two languages ---- */

/* Pairs of states, numbered as they are met. y may be LK_LANGUAGE_NONE. */
typedef struct pairs {
    uint32_t *x, *y;
    size_t x_capacity, y_capacity;
    uint32_t *slots; /* number + 1; 0: free */
    size_t n_slots;
} pairs;

static uint32_t hash_pair(uint32_t x, uint32_t y) {
    return (x * 0x9E3779B1u) ^ (y * 0x85EBCA6Bu) ^ (x >> 7);
}

static bool grow_pairs(pairs *p, uint32_t n, const lk_allocator *a) {
    if (2 * ((size_t)n + 1) <= p->n_slots) {
        return true;
    }
    const size_t wanted = p->n_slots != 0 ? 2 * p->n_slots : 64;
    uint32_t *slots = lk_alloc_array_zero(a, wanted, sizeof slots[0]);
    if (slots == NULL) {
        return false;
    }
    lk_free_array(a, p->slots, p->n_slots, sizeof p->slots[0]);
    p->slots = slots;
    p->n_slots = wanted;
    for (uint32_t i = 0; i < n && p->x != NULL && p->y != NULL; i++) {
        size_t s = hash_pair(p->x[i], p->y[i]) & (wanted - 1);
        while (slots[s] != 0) {
            s = (s + 1) & (wanted - 1);
        }
        slots[s] = i + 1;
    }
    return true;
}

/* The state of `out` for a pair; made when it is new. */
static uint32_t find_pair(pairs *p, lk_language *out, uint32_t x, uint32_t y, const lk_allocator *a,
                          lk_error *err, lk_status *status) {
    void *px = p->x;
    void *py = p->y;
    const uint32_t n = out->n_states;
    if (!grow_pairs(p, n, a) || p->slots == NULL) {
        *status = no_memory(err);
        return 0;
    }
    size_t s = hash_pair(x, y) & (p->n_slots - 1);
    for (; p->slots[s] != 0 && p->x != NULL && p->y != NULL; s = (s + 1) & (p->n_slots - 1)) {
        const uint32_t i = p->slots[s] - 1;
        if (p->x[i] == x && p->y[i] == y) {
            return i;
        }
    }
    if (lk_grow_array(a, &px, n, &p->x_capacity, (size_t)n + 1, sizeof p->x[0])) {
        p->x = px;
    } else {
        *status = no_memory(err);
        return 0;
    }
    if (lk_grow_array(a, &py, n, &p->y_capacity, (size_t)n + 1, sizeof p->y[0])) {
        p->y = py;
    } else {
        *status = no_memory(err);
        return 0;
    }
    const uint32_t state = lk_language_add(out, a, err, status);
    if (*status == LK_OK) {
        p->x[state] = x;
        p->y[state] = y;
        p->slots[s] = state + 1;
    }
    return state;
}

static bool cut_both(const lk_language *x, const lk_language *y, const lk_allocator *a,
                     lk_language *out) {
    const size_t n = (size_t)x->n_classes + y->n_classes;
    uint32_t *cuts = lk_alloc_array(a, n, sizeof cuts[0]);
    if (cuts == NULL) {
        return false;
    }
    if (x->n_classes != 0) {
        memcpy(cuts, x->cuts, x->n_classes * sizeof cuts[0]);
    }
    if (y->n_classes != 0) {
        memcpy(cuts + x->n_classes, y->cuts, y->n_classes * sizeof cuts[0]);
    }
    const bool ok = lk_language_cut(out, cuts, n, a);
    lk_free_array(a, cuts, n, sizeof cuts[0]);
    return ok;
}

static lk_status combine(const lk_language *x, const lk_language *y, lk_language_operator op,
                         pairs *p, const lk_allocator *a, lk_language *out, lk_error *err) {
    const bool both = op == LK_LANGUAGE_AND;
    lk_status status = LK_OK;
    (void)find_pair(p, out, 0, y->n_states != 0 ? 0 : LK_LANGUAGE_NONE, a, err, &status);
    for (uint32_t s = 0; s < out->n_states && status == LK_OK && p->x != NULL; s++) {
        const uint32_t sx = p->x[s];
        const uint32_t sy = p->y[s];
        const bool y_ends = sy != LK_LANGUAGE_NONE && y->is_end[sy] != 0;
        out->is_end[s] = x->is_end[sx] != 0 && y_ends == both;
        for (uint32_t c = 0; c < out->n_classes && status == LK_OK; c++) {
            const uint32_t tx =
                x->next[(size_t)sx * x->n_classes + lk_language_class(x, out->cuts[c])];
            const uint32_t ty =
                sy == LK_LANGUAGE_NONE
                    ? LK_LANGUAGE_NONE
                    : y->next[(size_t)sy * y->n_classes + lk_language_class(y, out->cuts[c])];
            if (tx == LK_LANGUAGE_NONE || (both && ty == LK_LANGUAGE_NONE)) {
                continue;
            }
            const uint32_t t = find_pair(p, out, tx, ty, a, err, &status);
            if (status == LK_OK) {
                out->next[(size_t)s * out->n_classes + c] = t;
            }
        }
    }
    return status == LK_OK ? lk_language_trim(out, a, err) : status;
}

lk_status lk_language_combine(const lk_language *x, const lk_language *y, lk_language_operator op,
                              const lk_allocator *a, lk_language *out, lk_error *err) {
    *out = (lk_language){0};
    if (x->n_states == 0 || (y->n_states == 0 && op == LK_LANGUAGE_AND)) {
        return LK_OK;
    }
    pairs p = {0};
    const lk_status status =
        cut_both(x, y, a, out) ? combine(x, y, op, &p, a, out, err) : no_memory(err);
    lk_free_array(a, p.x, p.x_capacity, sizeof p.x[0]);
    lk_free_array(a, p.y, p.y_capacity, sizeof p.y[0]);
    lk_free_array(a, p.slots, p.n_slots, sizeof p.slots[0]);
    if (status != LK_OK) {
        lk_language_free(out, a);
    }
    return status;
}
