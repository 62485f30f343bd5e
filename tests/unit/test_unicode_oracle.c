/* test_unicode_oracle.c - the Unicode tables and NFC against utf8proc. Its Unicode version may be
 * older or newer than ours: compared is what both know, and what only one knows is counted. */
#include <utf8proc.h>

#include "base/alloc.h"
#include "lk_test.h"
#include "text/unicode/normalize.h"
#include "text/unicode/unicode.h"

static int is_newer(const char *version, const char *other) {
    return strtod(version, NULL) > strtod(other, NULL);
}

/* utf8proc's numbers in the order of lk_category. */
static lk_category category_of(utf8proc_int32_t cp) {
    static const lk_category ours[] = {
        LK_CAT_CN, LK_CAT_LU, LK_CAT_LL, LK_CAT_LT, LK_CAT_LM, LK_CAT_LO, LK_CAT_MN, LK_CAT_MC,
        LK_CAT_ME, LK_CAT_ND, LK_CAT_NL, LK_CAT_NO, LK_CAT_PC, LK_CAT_PD, LK_CAT_PS, LK_CAT_PE,
        LK_CAT_PI, LK_CAT_PF, LK_CAT_PO, LK_CAT_SM, LK_CAT_SC, LK_CAT_SK, LK_CAT_SO, LK_CAT_ZS,
        LK_CAT_ZL, LK_CAT_ZP, LK_CAT_CC, LK_CAT_CF, LK_CAT_CS, LK_CAT_CO};
    return ours[utf8proc_category(cp)];
}

LK_TEST(categories) {
    size_t only_ours = 0, only_theirs = 0, different = 0, same = 0;
    for (uint32_t cp = 0; cp <= LK_MAX_CODE_POINT; cp++) {
        const lk_category ours = (lk_category)(lk_unicode_prop(cp) & LK_PROP_CATEGORY);
        const lk_category theirs = category_of((utf8proc_int32_t)cp);
        if (ours == theirs) {
            same++;
        } else if (theirs == LK_CAT_CN) {
            only_ours++;
        } else if (ours == LK_CAT_CN) {
            only_theirs++;
        } else {
            different++; /* the standard changes a few categories from version to version */
        }
    }
    (void)printf("Unicode %s here, %s in utf8proc: %zu alike, %zu different, %zu and %zu only in "
                 "one\n",
                 LK_UNICODE_VERSION, utf8proc_unicode_version(), same, different, only_ours,
                 only_theirs);
    CHECK(different <= 16);
    CHECK(only_ours <= 12000);
    CHECK(only_theirs == 0 || is_newer(utf8proc_unicode_version(), LK_UNICODE_VERSION));
    CHECK(same > 1000000);
}

LK_TEST(white_space) {
    static const uint32_t white[] = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,
                                     0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                     0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                     0x2029, 0x202F, 0x205F, 0x3000};
    size_t next = 0;
    for (uint32_t cp = 0; cp <= LK_MAX_CODE_POINT; cp++) {
        const int expected = next < sizeof white / sizeof white[0] && cp == white[next];
        next += (size_t)expected;
        CHECK_MSG(((lk_unicode_prop(cp) & LK_PROP_WHITE_SPACE) != 0) == expected, "U+%04lX",
                  (unsigned long)cp);
    }
}

/* The two normal forms of a text must be the same bytes. */
static void check_nfc(const uint8_t *text, size_t n) {
    lk_text_buffer ours;
    lk_text_buffer_init(&ours, &lk_allocator_default);
    utf8proc_uint8_t *theirs = NULL;
    const utf8proc_ssize_t n_theirs =
        utf8proc_map(text, (utf8proc_ssize_t)n, &theirs, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    CHECK(n_theirs >= 0);
    CHECK(lk_nfc(text, n, &ours));
    const int equal = n_theirs == (utf8proc_ssize_t)ours.n &&
                      (ours.n == 0 || memcmp(theirs, ours.data, ours.n) == 0);
    CHECK_MSG(equal, "NFC of %zu bytes differs, first %02x %02x %02x %02x", n, text[0],
              n > 1 ? text[1] : 0, n > 2 ? text[2] : 0, n > 3 ? text[3] : 0);
    if (equal && lk_nfc_is_certain(text, n)) {
        CHECK(ours.n == n && memcmp(text, ours.data, n) == 0);
    }
    lk_text_buffer_deinit(&ours);
    free(theirs);
}

LK_TEST(nfc_of_each_character) {
    for (uint32_t cp = 0; cp <= LK_MAX_CODE_POINT; cp++) {
        if (category_of((utf8proc_int32_t)cp) == LK_CAT_CN || (cp >= 0xD800 && cp < 0xE000)) {
            continue;
        }
        uint8_t text[12] = "a";
        size_t n = 1;
        n += lk_utf8_put(cp, text + n);
        n += lk_utf8_put(0x0301, text + n);
        check_nfc(text, n);
    }
}

/* Code points that something happens to, and a few that nothing happens to. */
static size_t interesting(uint32_t *pool, size_t capacity) {
    size_t n = 0;
    for (uint32_t cp = 0; cp <= LK_MAX_CODE_POINT && n < capacity; cp++) {
        const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
        const int active = p->combining_class != 0 || p->decomp_seqindex != UINT16_MAX ||
                           (cp >= 0x1100 && cp < 0x1200) || (cp >= 0xAC00 && cp < 0xAC40) ||
                           (cp >= 'A' && cp <= 'z');
        if (active && category_of((utf8proc_int32_t)cp) != LK_CAT_CN) {
            pool[n++] = cp;
        }
    }
    return n;
}

static void random_texts(uint64_t *seed, const uint32_t *pool, size_t n_pool, size_t n_texts,
                         size_t max_chars) {
    uint8_t *text = malloc(max_chars * 4);
    for (size_t i = 0; i < n_texts; i++) {
        const size_t n_chars = 1 + lk_test_random(seed) % max_chars;
        const uint64_t bias = lk_test_random(seed) % 4;
        size_t n = 0;
        for (size_t k = 0; k < n_chars; k++) {
            const uint64_t r = lk_test_random(seed);
            uint32_t cp = pool[r % n_pool];
            if (bias == 1) { /* long runs of marks of many classes */
                cp = (uint32_t)(r % 50 == 0 ? 'a' : 0x300 + r % 0x6F);
            } else if (bias ==
                       2) { /* Hangul; not U+11A7, which some versions of utf8proc swallow */
                cp = (uint32_t)(r % 3 == 0   ? 0x1100 + r / 3 % 0x14
                                : r % 3 == 1 ? 0x1160 + r / 3 % 0x18
                                             : 0x11A8 + r / 3 % 0x20);
            }
            n += lk_utf8_put(cp, text + n);
        }
        check_nfc(text, n);
    }
    free(text);
}

LK_TEST(nfc_of_random_texts) {
    static uint32_t pool[40000];
    uint64_t seed = lk_test_seed(20260917);
    const size_t n_pool = interesting(pool, sizeof pool / sizeof pool[0]);
    CHECK(n_pool > 3000);
    random_texts(&seed, pool, n_pool, 60000, 8);
    random_texts(&seed, pool, n_pool, 200, 3000);
}

LK_TEST_MAIN(LK_RUN(categories), LK_RUN(white_space), LK_RUN(nfc_of_each_character),
             LK_RUN(nfc_of_random_texts))
