/* decimal.h - decimal numbers as they are written, exactly, and the texts of the numbers between
 * two of them. No floating point takes part. */
#ifndef LK_GRAMMAR_DECIMAL_H
#define LK_GRAMMAR_DECIMAL_H

#include "grammar/grammar_builder.h"

#define LK_DECIMAL_MAX_DIGITS 40 /* before the point, and after it */

/* sign * whole . part; no zero in front of `whole` (0 has no digit) or at the end of `part`. */
typedef struct lk_decimal {
    bool is_negative; /* false for 0 */
    uint8_t n_whole, n_part;
    uint8_t whole[LK_DECIMAL_MAX_DIGITS]; /* 0 .. 9 */
    uint8_t part[LK_DECIMAL_MAX_DIGITS];
} lk_decimal;

/* A JSON number. False when it has more digits than there is room for. */
bool lk_decimal_read(const char *text, size_t n, lk_decimal *out);
int lk_decimal_compare(const lk_decimal *x, const lk_decimal *y);
/* The rest of |x| (whole) modulo m, m at most 2^24. */
uint32_t lk_decimal_rest(const lk_decimal *x, uint32_t m);

typedef struct lk_decimal_range {
    bool has_min, has_max, is_min_excluded, is_max_excluded;
    lk_decimal min, max;
    bool is_whole;
    uint32_t multiple_of; /* 0: any; else the numbers are whole */
} lk_decimal_range;

/* The JSON numbers in a range, in front of `next`. Without any bound: of up to 15 digits before and
 * after the point and with an exponent of up to 2. With one: without exponent, of as many digits as
 * binary64 can tell apart. */
uint32_t lk_decimal_build(lk_grammar_builder *b, const lk_decimal_range *range, uint32_t next);

#define LK_DECIMAL_MAX_MULTIPLE 10000u

#endif
