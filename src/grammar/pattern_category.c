/* pattern_category.c - \p{Lu} and the like: general categories, from the tables of src/text. */
#include <string.h>

#include "grammar/pattern_nfa.h"
#include "text/unicode/unicode.h"

/* In the order of lk_category. */
static const char names[][3] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

/* The categories of a name, as bits: one, or all that begin with a letter. */
static uint32_t categories_of(const char *name, size_t n) {
    static const struct {
        const char *long_name;
        char letter;
    } groups[] = {{"Letter", 'L'}, {"Mark", 'M'},      {"Number", 'N'}, {"Punctuation", 'P'},
                  {"Symbol", 'S'}, {"Separator", 'Z'}, {"Other", 'C'}};
    char letter = n == 1 ? name[0] : '\0';
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (strlen(groups[i].long_name) == n && memcmp(groups[i].long_name, name, n) == 0) {
            letter = groups[i].letter;
        }
    }
    uint32_t bits = 0;
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const bool is_it = n == 2 && memcmp(names[i], name, 2) == 0;
        bits |= is_it || names[i][0] == letter ? 1u << i : 0;
    }
    return bits;
}

bool lk_pattern_category(const char *name, size_t n, lk_code_points *set, const lk_allocator *a,
                         bool *known) {
    const uint32_t bits = categories_of(name, n);
    *known = bits != 0;
    bool ok = true;
    uint32_t begin = 0;
    for (uint32_t cp = 0; cp <= LK_MAX_CODE_POINT + 1 && bits != 0 && ok; cp++) {
        const bool is_in =
            cp <= LK_MAX_CODE_POINT && (bits >> (lk_unicode_prop(cp) & LK_PROP_CATEGORY) & 1u) != 0;
        if (!is_in) {
            ok = begin == cp || lk_code_points_add(set, begin, cp - 1, a);
            begin = cp + 1;
        }
    }
    return ok;
}
