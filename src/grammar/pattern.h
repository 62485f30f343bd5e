/* pattern.h - regular expressions as JSON schemas have them (ECMAScript with the flag u) to
 * languages. A text matches when the expression is found anywhere in it. */
#ifndef LK_GRAMMAR_PATTERN_H
#define LK_GRAMMAR_PATTERN_H

#include "grammar/language.h"

/* On success the caller frees *out. LK_E_FORMAT: no expression; LK_E_UNSUPPORTED: assertions but ^
 * and $, back references; LK_E_LIMIT; LK_E_NOMEM. `text` is well-formed UTF-8. */
lk_status lk_pattern_compile(const char *text, size_t n, const lk_allocator *a, lk_language *out,
                             lk_error *err);

#endif
