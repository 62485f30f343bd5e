/* unicode.h - properties of code points (Unicode 16.0) and steps through UTF-8.
 *
 * The tables are generated (tools/gen_unicode.c). Only what the tokenizers need is here: general
 * category, white space, canonical decomposition, combining class, and for chat templates the
 * simple case mappings. No scripts. Invariant: every function accepts any code point up to
 * LK_MAX_CODE_POINT and reads no byte outside the text that it is given.
 */
#ifndef LK_TEXT_UNICODE_H
#define LK_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8_bytes.h"

#define LK_UNICODE_VERSION "16.0.0"
#define LK_REPLACEMENT 0xFFFDu /* stands for what is no character; 3 bytes in UTF-8 */

typedef enum lk_category {
    LK_CAT_LU,
    LK_CAT_LL,
    LK_CAT_LT,
    LK_CAT_LM,
    LK_CAT_LO,
    LK_CAT_MN,
    LK_CAT_MC,
    LK_CAT_ME,
    LK_CAT_ND,
    LK_CAT_NL,
    LK_CAT_NO,
    LK_CAT_PC,
    LK_CAT_PD,
    LK_CAT_PS,
    LK_CAT_PE,
    LK_CAT_PI,
    LK_CAT_PF,
    LK_CAT_PO,
    LK_CAT_SM,
    LK_CAT_SC,
    LK_CAT_SK,
    LK_CAT_SO,
    LK_CAT_ZS,
    LK_CAT_ZL,
    LK_CAT_ZP,
    LK_CAT_CC,
    LK_CAT_CF,
    LK_CAT_CS,
    LK_CAT_CO,
    LK_CAT_CN,
    LK_CAT_END /* no code point: the end of the text */
} lk_category;

/* A property byte: the category in the low five bits, and these. */
#define LK_PROP_CATEGORY 31u
#define LK_PROP_WHITE_SPACE 32u
#define LK_PROP_NFC_ACTIVE 64u /* combining class not 0, or NFC_Quick_Check not Yes */

extern const uint8_t lk_unicode_top[272];
extern const uint16_t lk_unicode_middle[];
extern const uint8_t lk_unicode_props[];
extern const char lk_unicode_leaves[][65];

static inline uint8_t lk_unicode_prop(uint32_t cp) {
    const uint32_t middle = (uint32_t)lk_unicode_top[cp >> 12] * 64u + ((cp >> 6) & 63u);
    const char letter = lk_unicode_leaves[lk_unicode_middle[middle]][cp & 63u];
    return lk_unicode_props[letter - '@'];
}

/* Canonical decomposition into one (second == 0) or two code points, sorted by cp. Hangul syllables
 * are not listed. `compositions` holds the indices of the pairs that compose, sorted by (first,
 * second). */
typedef struct lk_decomposition {
    uint32_t cp, first, second;
} lk_decomposition;
extern const size_t lk_unicode_n_decompositions;
extern const lk_decomposition lk_unicode_decompositions[];
extern const size_t lk_unicode_n_compositions;
extern const uint16_t lk_unicode_compositions[];

/* Code points first, first + step, ..., last map to the code point at `distance`. Sorted. */
typedef struct lk_case_run {
    uint32_t first, last;
    int32_t distance;
    uint32_t step;
} lk_case_run;
extern const size_t lk_unicode_n_upper_runs, lk_unicode_n_lower_runs;
extern const lk_case_run lk_unicode_upper_runs[];
extern const lk_case_run lk_unicode_lower_runs[];

/* The simple case mapping: one code point to one. */
uint32_t lk_unicode_upper(uint32_t cp);
uint32_t lk_unicode_lower(uint32_t cp);

/* Ranges of code points whose canonical combining class is not 0, sorted. */
typedef struct lk_combining {
    uint32_t first, last, ccc;
} lk_combining;
extern const size_t lk_unicode_n_combining;
extern const lk_combining lk_unicode_combining[];

#endif
