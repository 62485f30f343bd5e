/* case_map.c - upper and lower case of one code point, from the runs of unicode_cases.c. */
#include "text/unicode/unicode.h"

static uint32_t map(const lk_case_run *runs, size_t n, uint32_t cp) {
    size_t low = 0, high = n;
    while (low < high) { /* the first run that ends at cp or later */
        const size_t middle = low + (high - low) / 2;
        if (runs[middle].last < cp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == n || cp < runs[low].first || (cp - runs[low].first) % runs[low].step != 0) {
        return cp;
    }
    return (uint32_t)((int64_t)cp + runs[low].distance);
}

uint32_t lk_unicode_upper(uint32_t cp) {
    if (cp < 0x80) {
        return cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
    }
    return map(lk_unicode_upper_runs, lk_unicode_n_upper_runs, cp);
}

uint32_t lk_unicode_lower(uint32_t cp) {
    if (cp < 0x80) {
        return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    }
    return map(lk_unicode_lower_runs, lk_unicode_n_lower_runs, cp);
}
