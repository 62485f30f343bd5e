/* decimal.c - see decimal.h. A range of numbers becomes, for each sign and each number of digits, a
 * tree that follows the digits of both bounds as long as they bind. */
#include "grammar/decimal.h"

#include <string.h>

enum { MAX_ROW = 2 * LK_DECIMAL_MAX_DIGITS, FREE_DIGITS = 15 };

bool lk_decimal_read(const char *text, size_t n, lk_decimal *out) {
    uint8_t digits[MAX_ROW];
    size_t n_digits = 0;
    long point = 0; /* digits before it */
    bool is_after = false;
    size_t i = text[0] == '-';
    *out = (lk_decimal){.is_negative = text[0] == '-'};
    for (; i < n && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            is_after = true;
            continue;
        }
        if (n_digits == 0 && text[i] == '0') {
            point -= is_after;
            continue;
        }
        if (n_digits == MAX_ROW) {
            return false;
        }
        digits[n_digits++] = (uint8_t)(text[i] - '0');
        point += !is_after;
    }
    if (i < n) {
        const bool is_minus = text[i + 1] == '-';
        long exponent = 0;
        for (i += text[i + 1] == '-' || text[i + 1] == '+' ? 2 : 1; i < n; i++) {
            exponent = exponent < 1000 ? exponent * 10 + (text[i] - '0') : 1000;
        }
        point += is_minus ? -exponent : exponent;
    }
    while (n_digits > 0 && digits[n_digits - 1] == 0) {
        n_digits--;
    }
    if (n_digits == 0) {
        out->is_negative = false;
        return true;
    }
    if (point > LK_DECIMAL_MAX_DIGITS || (long)n_digits - point > LK_DECIMAL_MAX_DIGITS) {
        return false;
    }
    for (long k = 0; k < point; k++) {
        out->whole[out->n_whole++] = k < (long)n_digits ? digits[k] : 0;
    }
    for (long k = point; k < (long)n_digits; k++) {
        out->part[out->n_part++] = k >= 0 ? digits[k] : 0;
    }
    return true;
}

static int compare_size(const lk_decimal *x, const lk_decimal *y) {
    if (x->n_whole != y->n_whole) {
        return x->n_whole < y->n_whole ? -1 : 1;
    }
    int order = memcmp(x->whole, y->whole, x->n_whole);
    if (order == 0) {
        const size_t n = x->n_part < y->n_part ? x->n_part : y->n_part;
        order = memcmp(x->part, y->part, n);
        order = order != 0 ? order : (x->n_part > y->n_part) - (x->n_part < y->n_part);
    }
    return (order > 0) - (order < 0);
}

int lk_decimal_compare(const lk_decimal *x, const lk_decimal *y) {
    if (x->is_negative != y->is_negative) {
        return x->is_negative ? -1 : 1;
    }
    return x->is_negative ? compare_size(y, x) : compare_size(x, y);
}

uint32_t lk_decimal_rest(const lk_decimal *x, uint32_t m) {
    uint64_t rest = 0;
    for (size_t i = 0; i < x->n_whole; i++) {
        rest = (rest * 10 + x->whole[i]) % m;
    }
    return (uint32_t)rest;
}

/* ---- rows of digits: a size times 10^n_part, with n digits ---- */

typedef struct row {
    size_t n;
    uint8_t digits[MAX_ROW + 2];
} row;

/* Digits of |x| with n_part of them after the point; *is_cut: some were left out. */
static row row_of(const lk_decimal *x, size_t n_part, bool *is_cut) {
    row r = {0, {0}};
    memcpy(r.digits, x->whole, x->n_whole);
    r.n = x->n_whole;
    for (size_t i = 0; i < n_part; i++) {
        r.digits[r.n++] = i < x->n_part ? x->part[i] : 0;
    }
    *is_cut = x->n_part > n_part;
    return r;
}

static void add_one(row *r) {
    size_t i = r->n;
    while (i > 0 && r->digits[i - 1] == 9) {
        r->digits[--i] = 0;
    }
    if (i > 0) {
        r->digits[i - 1]++;
        return;
    }
    memmove(r->digits + 1, r->digits, r->n);
    r->digits[0] = 1;
    r->n++;
}

/* False for 0. */
static bool take_one(row *r) {
    size_t i = r->n;
    while (i > 0 && r->digits[i - 1] == 0) {
        i--;
    }
    if (i == 0) {
        return false;
    }
    r->digits[i - 1]--;
    for (; i < r->n; i++) {
        r->digits[i] = 9;
    }
    return true;
}

/* To n digits, with zeros in front; n is at least what the row needs. */
static void widen(row *r, size_t n) {
    size_t zeros = 0;
    while (zeros < r->n && r->digits[zeros] == 0 && r->n - zeros > n) {
        zeros++;
    }
    memmove(r->digits, r->digits + zeros, r->n - zeros);
    r->n -= zeros;
    if (r->n < n) {
        memmove(r->digits + (n - r->n), r->digits, r->n);
        memset(r->digits, 0, n - r->n);
        r->n = n;
    }
}

static size_t significant(const row *r) {
    size_t zeros = 0;
    while (zeros < r->n && r->digits[zeros] == 0) {
        zeros++;
    }
    return r->n - zeros;
}

/* ---- states ---- */

typedef struct builder {
    lk_grammar_builder *b;
    size_t n_part;    /* digits after the point at most */
    uint32_t modulus; /* 1: any */
    uint32_t next;
    uint32_t *free_states;           /* [(digits left before the point) * modulus + rest] */
    size_t n_free;                   /* digits before the point that these know */
    uint32_t free_part[MAX_ROW + 1]; /* by digits left after the point: at least one is read */
} builder;

/* The number may end, or go on with what begins at `more`. */
static uint32_t may_end(builder *x, bool ends, uint32_t more) {
    if (more == LK_GRAMMAR_NOTHING) {
        return ends ? x->next : LK_GRAMMAR_NOTHING;
    }
    return ends ? lk_grammar_either(x->b, x->next, more) : more;
}

/* Digits after the point that nothing binds. */
static uint32_t free_part(builder *x, size_t n_left) {
    if (n_left == 0) {
        return LK_GRAMMAR_NOTHING;
    }
    if (x->free_part[n_left] == LK_GRAMMAR_NOTHING) {
        uint32_t more = LK_GRAMMAR_NOTHING;
        for (size_t n = 1; n <= n_left && x->b->status == LK_OK; n++) {
            if (x->free_part[n] == LK_GRAMMAR_NOTHING) {
                x->free_part[n] = lk_grammar_byte(x->b, '0', '9', may_end(x, true, more));
            }
            more = x->free_part[n];
        }
    }
    return x->free_part[n_left];
}

/* n_left digits before the point that nothing binds, then perhaps a part. */
static uint32_t free_whole(const builder *x, size_t n_left, uint32_t rest) {
    return x->free_states[n_left * x->modulus + rest];
}

static void make_free(builder *x) {
    for (uint32_t rest = 0; rest < x->modulus; rest++) {
        const uint32_t part = free_part(x, x->n_part);
        const uint32_t point =
            part == LK_GRAMMAR_NOTHING ? part : lk_grammar_byte(x->b, '.', '.', part);
        x->free_states[rest] = may_end(x, rest == 0, point);
    }
    for (size_t n = 1; n <= x->n_free && x->b->status == LK_OK; n++) {
        for (uint32_t rest = 0; rest < x->modulus; rest++) {
            lk_grammar_edge edges[10];
            if (x->modulus == 1) {
                edges[0] = (lk_grammar_edge){'0', '9', free_whole(x, n - 1, 0)};
                x->free_states[n] = lk_grammar_edges(x->b, edges, 1);
                break;
            }
            for (uint32_t d = 0; d < 10; d++) {
                edges[d] = (lk_grammar_edge){(uint8_t)('0' + d), (uint8_t)('0' + d),
                                             free_whole(x, n - 1, (rest * 10 + d) % x->modulus)};
            }
            x->free_states[n * x->modulus + rest] = lk_grammar_edges(x->b, edges, 10);
        }
    }
}

/* Numbers of n_whole digits before the point from `low` to `high`, which have n_whole + n_part
 * digits each. */
typedef struct tree {
    const row *low, *high;
    size_t n_whole;
    uint32_t low_rest[MAX_ROW + 1], high_rest[MAX_ROW + 1]; /* of the digits before a place */
    bool is_low_zero[MAX_ROW + 1]; /* from a place on, the low row has zeros only */
} tree;

/* The state at a place for a digit that is not bound any more. */
static uint32_t free_at(builder *x, const tree *t, size_t place, uint32_t rest) {
    const size_t n = t->n_whole + x->n_part;
    if (place <= t->n_whole) {
        return free_whole(x, t->n_whole - place, rest);
    }
    return may_end(x, true, free_part(x, n - place));
}

/* A digit at `place`. `after` has the bound states behind it: [bound below][bound above]. */
static uint32_t add_digit(builder *x, const tree *t, size_t place, bool is_low, bool is_high,
                          const uint32_t after[2][2]) {
    lk_grammar_edge edges[10];
    size_t n = 0;
    const uint32_t from = is_low ? t->low->digits[place] : 0;
    const uint32_t to = is_high ? t->high->digits[place] : 9;
    const uint32_t rest = is_low ? t->low_rest[place] : is_high ? t->high_rest[place] : 0;
    for (uint32_t d = from; d <= to && to <= 9; d++) {
        const bool low = is_low && d == from;
        const bool high = is_high && d == to;
        const uint32_t target =
            low || high ? after[low][high] : free_at(x, t, place + 1, (rest * 10 + d) % x->modulus);
        edges[n++] = (lk_grammar_edge){(uint8_t)('0' + d), (uint8_t)('0' + d), target};
    }
    return lk_grammar_edges(x->b, edges, n);
}

static uint32_t build_tree(builder *x, tree *t) {
    const size_t n = t->n_whole + x->n_part;
    uint32_t after[2][2] = {{LK_GRAMMAR_NOTHING, LK_GRAMMAR_NOTHING},
                            {LK_GRAMMAR_NOTHING, LK_GRAMMAR_NOTHING}};
    t->is_low_zero[n] = true;
    for (size_t i = n; i-- > 0;) {
        t->is_low_zero[i] = t->is_low_zero[i + 1] && t->low->digits[i] == 0;
    }
    t->low_rest[0] = 0;
    t->high_rest[0] = 0;
    for (size_t i = 0; i < n; i++) {
        t->low_rest[i + 1] = (t->low_rest[i] * 10 + t->low->digits[i]) % x->modulus;
        t->high_rest[i + 1] = (t->high_rest[i] * 10 + t->high->digits[i]) % x->modulus;
    }
    for (size_t place = n + 1; place-- > 0 && x->b->status == LK_OK;) {
        uint32_t here[2][2];
        for (int low = 0; low < 2; low++) {
            for (int high = 0; high < 2; high++) {
                here[low][high] = LK_GRAMMAR_NOTHING;
                if (low + high == 0) {
                    continue;
                }
                uint32_t digit = LK_GRAMMAR_NOTHING;
                if (place < n) {
                    digit = add_digit(x, t, place, low, high, after);
                }
                if (place == t->n_whole && digit != LK_GRAMMAR_NOTHING) {
                    digit = lk_grammar_byte(x->b, '.', '.', digit);
                }
                const uint32_t rest = low ? t->low_rest[place] : t->high_rest[place];
                const bool ends = place >= t->n_whole && (!low || t->is_low_zero[place]) &&
                                  (x->modulus == 1 || rest == 0);
                here[low][high] = may_end(x, ends, digit);
            }
        }
        memcpy(after, here, sizeof after);
    }
    return after[1][1];
}

/* Sizes from low to high (as rows with n_part digits after the point), of at most n_max digits
 * before it. */
static uint32_t build_sizes(builder *x, const row *low, const row *high, bool has_high,
                            size_t n_max) {
    uint32_t starts[MAX_ROW + 2];
    size_t n_starts = 0;
    for (size_t n = 1; n <= n_max && x->b->status == LK_OK; n++) {
        const size_t width = n + x->n_part;
        row from = {width, {0}};
        row to = {width, {0}};
        from.digits[0] = n > 1;
        memset(to.digits, 9, width);
        row low_row = *low;
        row high_row = *high;
        if (significant(&low_row) > width) {
            continue;
        }
        widen(&low_row, width);
        if (memcmp(low_row.digits, from.digits, width) > 0) {
            from = low_row;
        }
        if (has_high && significant(&high_row) <= width) {
            widen(&high_row, width);
            if (memcmp(high_row.digits, to.digits, width) < 0) {
                to = high_row;
            }
        }
        if (memcmp(from.digits, to.digits, width) > 0) {
            continue;
        }
        tree t = {.low = &from, .high = &to, .n_whole = n};
        starts[n_starts++] = build_tree(x, &t);
    }
    return lk_grammar_split(x->b, starts, n_starts);
}

/* Sizes between two bounds, each of which may be missing (`low`: then 0). */
static uint32_t build_between(builder *x, const lk_decimal *low, bool is_low_out,
                              const lk_decimal *high, bool is_high_out) {
    bool is_cut = false;
    row low_row = {0, {0}};
    row high_row = {0, {0}};
    size_t n_max = x->n_free;
    if (low != NULL) {
        low_row = row_of(low, x->n_part, &is_cut);
        if (is_low_out || is_cut) {
            add_one(&low_row);
        }
    }
    if (high != NULL) {
        high_row = row_of(high, x->n_part, &is_cut);
        if (is_high_out && !is_cut && !take_one(&high_row)) {
            return LK_GRAMMAR_NOTHING;
        }
        n_max = high->n_whole != 0 ? high->n_whole : 1;
    }
    return build_sizes(x, &low_row, &high_row, high != NULL, n_max);
}

/* Any number: [0-9] up to 15 times, a part, an exponent. */
static uint32_t build_any(builder *x) {
    lk_grammar_builder *b = x->b;
    const uint32_t one = lk_grammar_byte(b, '0', '9', x->next);
    const uint32_t two = lk_grammar_byte(b, '0', '9', lk_grammar_either(b, x->next, one));
    const lk_grammar_edge signs[] = {{'+', '+', two}, {'-', '-', two}, {'0', '9', x->next}};
    lk_grammar_edge after_e[4];
    memcpy(after_e, signs, sizeof signs);
    after_e[2].next = lk_grammar_either(b, x->next, one);
    const lk_grammar_edge e[] = {{'e', 'e', lk_grammar_edges(b, after_e, 3)},
                                 {'E', 'E', lk_grammar_edges(b, after_e, 3)}};
    const uint32_t exponent = lk_grammar_either(b, lk_grammar_edges(b, e, 2), x->next);
    uint32_t part = LK_GRAMMAR_NOTHING;
    for (int i = 0; i < FREE_DIGITS; i++) {
        part = lk_grammar_byte(b, '0', '9',
                               part == LK_GRAMMAR_NOTHING ? exponent
                                                          : lk_grammar_either(b, exponent, part));
    }
    const uint32_t tail = lk_grammar_either(b, lk_grammar_byte(b, '.', '.', part), exponent);
    uint32_t more = tail;
    for (int i = 1; i < FREE_DIGITS; i++) {
        more = lk_grammar_either(b, tail, lk_grammar_byte(b, '0', '9', more));
    }
    const lk_grammar_edge begin[] = {{'0', '0', tail}, {'1', '9', more}};
    const uint32_t size = lk_grammar_edges(b, begin, 2);
    return lk_grammar_either(b, size, lk_grammar_byte(b, '-', '-', size));
}

static size_t digits_before(const lk_decimal_range *r) {
    const size_t low = r->has_min ? r->min.n_whole : 0;
    const size_t high = r->has_max ? r->max.n_whole : 0;
    return low > high ? low : high;
}

uint32_t lk_decimal_build(lk_grammar_builder *b, const lk_decimal_range *r, uint32_t next) {
    builder x = {.b = b, .next = next, .modulus = r->multiple_of > 1 ? r->multiple_of : 1};
    const size_t n_whole = digits_before(r);
    if (!r->has_min && !r->has_max && !r->is_whole && r->multiple_of == 0) {
        return build_any(&x);
    }
    for (size_t i = 0; i <= MAX_ROW; i++) {
        x.free_part[i] = LK_GRAMMAR_NOTHING;
    }
    x.n_part = r->is_whole || r->multiple_of != 0 || n_whole >= FREE_DIGITS
                   ? 0
                   : FREE_DIGITS - (n_whole != 0 ? n_whole : 1);
    x.n_free = n_whole + 1 > FREE_DIGITS ? n_whole + 1 : FREE_DIGITS;
    x.n_free = x.n_free < LK_DECIMAL_MAX_DIGITS ? x.n_free : LK_DECIMAL_MAX_DIGITS;
    const size_t n_states = (x.n_free + 1) * x.modulus;
    x.free_states = lk_alloc_array(b->grammar->allocator, n_states, sizeof x.free_states[0]);
    if (x.free_states == NULL) {
        (void)lk_grammar_fail(b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                              "cannot allocate memory for a range of numbers");
        return LK_GRAMMAR_NOTHING;
    }
    make_free(&x);
    uint32_t positive = LK_GRAMMAR_NOTHING;
    uint32_t negative = LK_GRAMMAR_NOTHING;
    if (!r->has_max || !r->max.is_negative) {
        const bool binds = r->has_min && !r->min.is_negative;
        positive = build_between(&x, binds ? &r->min : NULL, r->is_min_excluded,
                                 r->has_max ? &r->max : NULL, r->is_max_excluded);
    }
    if (!r->has_min || r->min.is_negative) {
        const bool binds =
            r->has_max && (r->max.is_negative || r->max.n_whole + r->max.n_part == 0);
        /* Above 0 nothing is wrong with -0 and what is beyond. */
        negative = build_between(&x, binds ? &r->max : NULL, r->is_max_excluded,
                                 r->has_min ? &r->min : NULL, r->is_min_excluded);
        negative =
            negative == LK_GRAMMAR_NOTHING ? negative : lk_grammar_byte(b, '-', '-', negative);
    }
    lk_free_array(b->grammar->allocator, x.free_states, n_states, sizeof x.free_states[0]);
    return lk_grammar_either(b, positive, negative);
}
