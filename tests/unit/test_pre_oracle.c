/* test_pre_oracle.c - the pre-splitters against the models' own regular expressions, run by PCRE2
 * on random texts. Its Unicode version may differ from ours: characters that the two class
 * differently are left out of the texts, and counted. Also: cutting takes time in proportion to the
 * text. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include "lk_test.h"
#include "text/splitters/pre_splitter.h"
#include "text/unicode/unicode.h"

/* White space as the tokenizers' libraries know it, to stand for \s (PCRE2 adds U+180E) inside and
 * outside of a bracket. */
#define S                                                                                          \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{"    \
    "205f}\\x{3000}"
#define SPACES "[" S "]+(?![^" S "])|[" S "]+"
#define LLAMA_REST " ?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|[" S "]*[\\r\\n]+|" SPACES
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define GPT2 CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^" S "\\p{L}\\p{N}]+|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TAIL "(?i:" CONTRACTIONS ")?"

enum { MAX_STAGES = 3, MAX_BYTES = 4096 };

/* A model's expressions. Each cuts the matches of the one before and what lies between them, every
 * one as a text of its own. */
typedef struct oracle {
    const char *name;
    const char *stages[MAX_STAGES];
} oracle;

static const oracle oracles[] = {
    {"gpt-2", {GPT2}},
    {"llama-bpe", {"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" LLAMA_REST}},
    {"qwen2", {"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" LLAMA_REST}},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
      "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
      "|[" S "]*[\\r\\n]+|" SPACES}},
    {"gpt-4o",
     {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" TAIL "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
      "*" TAIL "|\\p{N}{1,3}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n/]*|[" S "]*[\\r\\n]+|" SPACES}},
    {"smollm", {"\\p{N}", GPT2}},
    {"glm4", {"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" LLAMA_REST}},
    {"dbrx", {"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" LLAMA_REST}},
    {"tekken",
     {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
      "*|\\p{N}| ?[^" S "\\p{L}\\p{N}]+[\\r\\n/]*|[" S "]*[\\r\\n]+|" SPACES}},
};

static pcre2_code *compile(const char *pattern) {
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *regex = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                      PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    if (regex == NULL) {
        lk_test_fail(__FILE__, __LINE__, "pattern error %d at %zu: %s", code, (size_t)at, pattern);
        exit(1);
    }
    (void)pcre2_jit_compile(regex, PCRE2_JIT_COMPLETE);
    return regex;
}

/* Marks in ends[0 .. n] where a word ends, cutting text[first .. last) by the stages from `stage`
 * on. */
static void cut(pcre2_code *const *stages, size_t n_stages, size_t stage, const uint8_t *text,
                size_t first, size_t last, uint8_t *ends) {
    if (first == last) {
        return;
    }
    ends[last] = 1;
    if (stage == n_stages) {
        return;
    }
    pcre2_match_data *match = pcre2_match_data_create(4, NULL);
    size_t done = 0; /* offsets are within the part, which is a text of its own */
    const size_t n = last - first;
    while (done < n &&
           pcre2_match(stages[stage], text + first, n, done, PCRE2_NO_UTF_CHECK, match, NULL) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
        cut(stages, n_stages, stage + 1, text, first + done, first + found[0], ends);
        cut(stages, n_stages, stage + 1, text, first + found[0], first + found[1], ends);
        done = found[1];
    }
    cut(stages, n_stages, stage + 1, text, first + done, last, ends);
    pcre2_match_data_free(match);
}

static int check_text(const oracle *o, const lk_pre_splitter *splitter, pcre2_code *const *stages,
                      const uint8_t *text, size_t n) {
    uint8_t ends[MAX_BYTES + 1] = {0};
    size_t n_stages = 0;
    while (n_stages < MAX_STAGES && o->stages[n_stages] != NULL) {
        n_stages++;
    }
    cut(stages, n_stages, 0, text, 0, n, ends);
    size_t pos = 0;
    while (pos < n) {
        const size_t end = splitter->word_end(text, n, pos);
        size_t expected = pos + 1;
        while (expected < n && !ends[expected]) {
            expected++;
        }
        if (end != expected) {
            lk_test_fail(__FILE__, __LINE__,
                         "%s: a word from %zu to %zu, expected to %zu, in \"%.*s\"", o->name, pos,
                         end, expected, (int)n, (const char *)text);
            return 0;
        }
        pos = end;
    }
    return 1;
}

static uint32_t *pool; /* all characters that PCRE2 classes as we do */
static size_t n_pool;

/* Fills the pool; a character of a newer Unicode version on either side is left out. */
static void make_pool(void) {
    static const char *const names[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                        "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                        "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
    pcre2_code *regexes[30];
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    size_t n_different = 0;
    pool = malloc((LK_MAX_CODE_POINT + 1) * sizeof *pool);
    for (size_t i = 0; i < 30; i++) {
        char pattern[16];
        (void)snprintf(pattern, sizeof pattern, "^\\p{%s}$", names[i]);
        regexes[i] = compile(pattern);
    }
    for (uint32_t cp = 0; cp <= LK_MAX_CODE_POINT; cp++) {
        const uint32_t category = lk_unicode_prop(cp) & LK_PROP_CATEGORY;
        const int is_dull = category >= LK_CAT_CS && cp % 997 != 0; /* a few of them are enough */
        if ((cp >= 0xD800 && cp < 0xE000) || is_dull) {
            continue;
        }
        uint8_t text[4];
        const size_t n = lk_utf8_put(cp, text);
        if (pcre2_match(regexes[category], text, n, 0, 0, match, NULL) > 0) {
            pool[n_pool++] = cp;
        } else if (cp != '\n') { /* "$" also matches before it */
            n_different++;
        }
    }
    for (size_t i = 0; i < 30; i++) {
        pcre2_code_free(regexes[i]);
    }
    pcre2_match_data_free(match);
    (void)printf("%zu characters, %zu that PCRE2 classes differently are left out\n", n_pool,
                 n_different);
    CHECK(n_pool > 130000);
    CHECK(n_different < 12000);
}

/* What the expressions treat in ways of their own. */
static const char *const pieces[] = {" ",
                                     " ",
                                     "  ",
                                     "\n",
                                     "\r",
                                     "\r\n",
                                     "\t",
                                     "a",
                                     "B",
                                     "xy",
                                     "AB",
                                     "Ab",
                                     "1",
                                     "23",
                                     "4567",
                                     "'",
                                     "'s",
                                     "'S",
                                     "'T",
                                     "'re",
                                     "'VE",
                                     "'lL",
                                     "'d",
                                     "'m",
                                     "'\xC5\xBF",
                                     "'x",
                                     "!",
                                     ".",
                                     "/",
                                     "//",
                                     "-",
                                     "_",
                                     "{}",
                                     "$",
                                     "+",
                                     "<|",
                                     "\xC3\xA9",
                                     "\xC3\x89",
                                     "\xC7\x85",
                                     "\xCA\xB0",
                                     "\xE4\xB8\xAD",
                                     "\xE3\x81\x82",
                                     "\xE3\x82\xAB",
                                     "\xE9\xBE\xA6",
                                     "\xCC\x81",
                                     "\xE0\xA4\xBE",
                                     "\xE2\x83\x9D",
                                     "\xC2\xB2",
                                     "\xD9\xA3",
                                     "\xE2\x85\xA7",
                                     "\xC2\xA0",
                                     "\xE3\x80\x80",
                                     "\xE2\x80\xA8",
                                     "\xC2\x85",
                                     "\xE1\xA0\x8E",
                                     "\xE2\x80\x8B",
                                     "\xEF\xBB\xBF",
                                     "\xEE\x80\x80",
                                     "\xF0\x9F\x98\x80",
                                     "\xE2\x82\xAC",
                                     "\xE2\x80\x94",
                                     "\x01",
                                     "\xEF\xBF\xBD",
                                     "\xE2\x84\xAA",
                                     "\xC4\xB0",
                                     "\xE3\x82\x9C",
                                     "\xE3\x83\xBB",
                                     "\xE3\x82\xA0",
                                     "\xE3\x82\x99",
                                     "\xE3\x81\x80",
                                     "\xE3\x83\xBC",
                                     "\xE3\x80\x87"};

/* A text of such pieces and of any characters. */
static size_t random_text(uint64_t *seed, uint8_t *text, size_t max_pieces) {
    const size_t n_pieces = 1 + lk_test_random(seed) % max_pieces;
    const uint64_t bias = lk_test_random(seed) % 4;
    size_t n = 0;
    for (size_t i = 0; i < n_pieces && n + 8 < MAX_BYTES; i++) {
        const uint64_t r = lk_test_random(seed);
        if (bias == 0 || r % 8 == 0) {
            n += lk_utf8_put(pool[(r >> 8) % n_pool], text + n);
        } else {
            const char *piece = pieces[(r >> 8) % (sizeof pieces / sizeof pieces[0])];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
    }
    return n;
}

LK_TEST(words_of_random_texts) {
    uint64_t seed = lk_test_seed(20260917);
    make_pool();
    for (size_t i = 0; i < sizeof oracles / sizeof oracles[0]; i++) {
        const oracle *o = &oracles[i];
        const lk_pre_splitter *splitter = NULL;
        pcre2_code *stages[MAX_STAGES] = {NULL};
        lk_error err;
        REQUIRE_OK(lk_pre_splitter_find(o->name, &splitter, &err), err);
        for (size_t k = 0; k < MAX_STAGES && o->stages[k] != NULL; k++) {
            stages[k] = compile(o->stages[k]);
        }
        static uint8_t text[MAX_BYTES];
        int ok = 1;
        for (size_t k = 0; k < 25000 && ok; k++) {
            ok = check_text(o, splitter, stages, text, random_text(&seed, text, 12));
        }
        for (size_t k = 0; k < 300 && ok; k++) {
            ok = check_text(o, splitter, stages, text, random_text(&seed, text, 1000));
        }
        for (size_t k = 0; k < MAX_STAGES; k++) {
            pcre2_code_free(stages[k]);
        }
    }
    free(pool);
}

/* Every splitter has an oracle here. */
LK_TEST(all_are_covered) {
    size_t n = 0;
    const lk_pre_splitter *list = lk_pre_splitter_list(&n);
    for (size_t i = 0; i < n; i++) {
        int found = 0;
        for (size_t k = 0; k < sizeof oracles / sizeof oracles[0]; k++) {
            found = found || strcmp(list[i].name, oracles[k].name) == 0;
        }
        CHECK_MSG(found, "no oracle for %s", list[i].name);
    }
}

LK_TEST_MAIN(LK_RUN(all_are_covered), LK_RUN(words_of_random_texts))
