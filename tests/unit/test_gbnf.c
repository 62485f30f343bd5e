/* test_gbnf.c - GBNF: every construct with texts that it accepts and refuses, and every error with
 * its line. */
#include "lk/grammar.h"
#include "lk_test.h"

/* 1, 0, or -1 after a failure that is reported. */
static int accepts(const lk_grammar *g, const char *text, size_t n) {
    lk_error err = {0};
    int result = -1;
    const lk_status status = lk_grammar_accepts(g, text, n, &result, &err);
    CHECK_MSG(status == LK_OK, "%s", err.message);
    return status == LK_OK ? result : -1;
}

static lk_grammar *compile(const char *text) {
    lk_grammar *g = NULL;
    lk_error err = {0};
    REQUIRE_OK(lk_grammar_create_gbnf(text, strlen(text), NULL, &g, &err), err);
    return g;
}

typedef struct row {
    const char *grammar;
    const char *good[8];
    const char *bad[8];
} row;

static const row rows[] = {
    {"root ::= \"a\"", {"a"}, {"", "b", "aa"}},
    {"root ::= \"\"", {""}, {"a"}},
    {"root ::= \"a\" \"b\"", {"ab"}, {"a", "b", "abb"}},
    {"root ::= \"a\" | \"bc\" | \"\"", {"a", "bc", ""}, {"b", "abc"}},
    {"root ::= \"a\" |", {"a", ""}, {"b"}},
    {"root ::= \"ab\" \"c\" | \"ab\" x | \"a\" | \"ab\"? \"z\" | (\"abd\" | \"ab\") \"y\"\nx ::= "
     "\"cd\"",
     {"abc", "abcd", "a", "z", "abz", "abdy", "aby"},
     {"ab", "abd", "abcdc", "az", ""}},
    {"root ::= [a-cx_]", {"a", "c", "x", "_"}, {"d", "", "ab"}},
    {"root ::= [^a-c\\n]", {"d", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"a", "\n", "", "\xC3"}},
    {"root ::= [\\]\\[\\-\\^a-]", {"]", "[", "-", "^", "a"}, {"b", "\\"}},
    {"root ::= .", {"a", "\n", "\xE4\xB8\xAD"}, {"", "ab", "\xFF"}},
    {"root ::= [\\u00e0-\\u4e2d]",
     {"\xC3\xA0", "\xE4\xB8\xAD", "\xE0\xA4\x85", "\xDF\xBF"},
     {"\xC3\x9F", "\xE4\xB8\xAE", "a"}},
    {"root ::= [\\U00010000-\\U0010ffff]",
     {"\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"},
     {"\xEF\xBF\xBF", "\xF4\x90\x80\x80"}},
    {"root ::= \"\\x41\\u00e9\\n\\t\\r\\\\\\\"\"", {"A\xC3\xA9\n\t\r\\\""}, {"A"}},
    {"root ::= \"a\"?", {"", "a"}, {"aa"}},
    {"root ::= \"ab\"*", {"", "ab", "abab"}, {"a", "aba"}},
    {"root ::= \"ab\"+", {"ab", "abab"}, {"", "aba"}},
    {"root ::= [ab]{3}", {"aba", "bbb"}, {"ab", "abab"}},
    {"root ::= [ab]{2,}", {"aba", "bb", "aaaaa"}, {"a", ""}},
    {"root ::= [ab]{ 1 , 3 }", {"a", "ab", "bbb"}, {"", "abab"}},
    {"root ::= [ab]{0,2} \"c\"", {"c", "ac", "bac"}, {"", "aabc"}},
    {"root ::= [ab]{0} \"c\"", {"c"}, {"ac"}},
    {"root ::= (\"a\"{2} \"b\"){2}", {"aabaab"}, {"aab", "aabaabaab", "abab"}},
    {"root ::= (\"a\"{1,2} \"b\"{0,1}){2,3}", {"aa", "abab", "aabaabaab"}, {"a", "b", "abbab"}},
    {"root ::= (\"a\"?){3} \"b\"", {"b", "ab", "aaab"}, {"aaaab"}},
    {"root ::= (\"a\"*)* \"b\"", {"b", "ab", "aaab"}, {"a", "bb"}},
    {"root ::= (\"a\"?){2,} \"b\"", {"b", "ab", "aaaab"}, {"a"}},
    {"root ::= (\"a\" | \"b\" (\"c\" | \"d\"))+ \"e\"", {"ae", "bce", "abdae"}, {"e", "be", "abe"}},
    {"root ::= x y\nx ::= \"1\"\ny ::= \"2\" | x", {"12", "11"}, {"1", "22"}},
    {"# comment\nroot ::= # the root\n  \"a\" # then\n  | \"b\"\n  # and\n  | x\n\nx ::= \"c\" "
     "#end",
     {"a", "b", "c"},
     {"d", "ab"}},
    {"root ::= (\n  \"a\"\n  \"b\" |\n  \"c\"\n)\n", {"ab", "c"}, {"a"}},
    {"root ::= \"a\" |\n \"b\"", {"a", "b"}, {"ab"}},
    {"root ::= \"(\" root \")\" | \"x\"", {"x", "(x)", "(((x)))"}, {"(x", "x)", "", "()"}},
    {"root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aaabbb"}, {"aab", "ba"}},
    {"root ::= \"a\" root | \"b\"", {"b", "aaaaaab"}, {"aaa"}}, /* no stack grows here */
    {"root ::= e\ne ::= t (\"+\" t)*\nt ::= f (\"*\" f)*\nf ::= [0-9]+ | \"(\" e \")\"",
     {"1", "1+2*(3+45)", "((((1))))*2"},
     {"1+", "()", "1+(2"}},
    {"root ::= \"\xE4\xB8\xAD\" [\xC3\xA9\xE6\x96\x87]",
     {"\xE4\xB8\xAD\xC3\xA9", "\xE4\xB8\xAD\xE6\x96\x87"},
     {"\xE4\xB8\xAD"}},
    {"root ::= r-1_X\nr-1_X ::= \"a\"", {"a"}, {"b"}},
};

LK_TEST(constructs) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_grammar *g = compile(rows[i].grammar);
        for (size_t k = 0; k < 8 && rows[i].good[k] != NULL; k++) {
            CHECK_MSG(accepts(g, rows[i].good[k], strlen(rows[i].good[k])) == 1, "%s refuses '%s'",
                      rows[i].grammar, rows[i].good[k]);
        }
        for (size_t k = 0; k < 8 && rows[i].bad[k] != NULL; k++) {
            CHECK_MSG(accepts(g, rows[i].bad[k], strlen(rows[i].bad[k])) == 0, "%s accepts '%s'",
                      rows[i].grammar, rows[i].bad[k]);
        }
        lk_grammar_destroy(g);
    }
}

typedef struct bad_row {
    const char *grammar;
    lk_status status;
    const char *words; /* in the message */
} bad_row;

static const bad_row bad_rows[] = {
    {"", LK_E_FORMAT, "'root' is not defined"},
    {"x ::= \"a\"", LK_E_FORMAT, "'root' is not defined"},
    {"root ::= x\n\nx ::= y", LK_E_FORMAT, "line 3: the rule 'y' is not defined"},
    {"root ::= \"a\"\nroot ::= \"b\"", LK_E_FORMAT, "line 2: the rule 'root' is defined twice"},
    {"root ::= root \"a\" | \"b\"", LK_E_FORMAT, "'root' is left-recursive"},
    {"root ::= x\nx ::= y \"a\"\ny ::= x | \"b\"", LK_E_FORMAT, "is left-recursive"},
    {"root ::= \"x\" x\nx ::= \"a\"* (x \"b\" | \"c\")", LK_E_FORMAT, "'x' is left-recursive"},
    {"root ::= e root \"a\" | \"b\"\ne ::= \"c\"?", LK_E_FORMAT, "'root' is left-recursive"},
    {"root ::= \"a\"{0,3} root", LK_E_FORMAT, "'root' is left-recursive"},
    {"root ::= \"a\" root", LK_E_FORMAT, "no text"},
    {"root ::= \"a", LK_E_FORMAT, "line 1: expected the end of the literal"},
    {"root ::= [a", LK_E_FORMAT, "line 1: expected the end of the class"},
    {"root ::= [a-", LK_E_FORMAT, "line 1: expected the end of the class"},
    {"root ::= []", LK_E_FORMAT, "a class without characters"},
    {"root ::= [z-a]", LK_E_FORMAT, "ends before it begins"},
    {"root ::= (\"a\"", LK_E_FORMAT, "expected an element or ')'"},
    {"root ::= \"a\")", LK_E_FORMAT, "expected an element or the end of the rule, found ')'"},
    {"root ::= *", LK_E_FORMAT, "found '*'"},
    {"root ::= \"a\"**", LK_E_FORMAT, "found '*'"},
    {"root ::= \"a\"{", LK_E_FORMAT, "expected a number"},
    {"root ::= \"a\"{2", LK_E_FORMAT, "expected '}'"},
    {"root ::= \"a\"{3,2}", LK_E_FORMAT, "whose end is before its beginning"},
    {"root ::= \"a\"{9999999}", LK_E_LIMIT, "more than"},
    {"root ::= \"\\q\"", LK_E_FORMAT, "after a backslash"},
    {"root ::= \"\\x4\"", LK_E_FORMAT, "hexadecimal"},
    {"root ::= \"\\ud800\"", LK_E_FORMAT, "not a character"},
    {"root ::= \"\\", LK_E_FORMAT, "after a backslash"},
    {"root = \"a\"", LK_E_FORMAT, "expected ::="},
    {"root ::= \"a\"\n\"b\"", LK_E_FORMAT, "line 2: expected the name of a rule"},
    {"root ::= \"\xFF\"", LK_E_FORMAT, "UTF-8"},
    {"root ::= <a>", LK_E_FORMAT, "found '<'"},
};

LK_TEST(errors_name_the_line) {
    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        lk_grammar *g = NULL;
        lk_error err = {0};
        const char *text = bad_rows[i].grammar;
        const lk_status status = lk_grammar_create_gbnf(text, strlen(text), NULL, &g, &err);
        CHECK_MSG(status == bad_rows[i].status && g == NULL &&
                      strstr(err.message, bad_rows[i].words) != NULL,
                  "%s: %s: %s", text, lk_status_name(status), err.message);
        lk_grammar_destroy(g);
    }
}

LK_TEST(limits) {
    lk_grammar *g = NULL;
    lk_error err = {0};
    char *text = malloc(LK_GRAMMAR_MAX_BYTES + 100);
    memset(text, ' ', LK_GRAMMAR_MAX_BYTES + 100);
    CHECK_STATUS(LK_E_LIMIT,
                 lk_grammar_create_gbnf(text, LK_GRAMMAR_MAX_BYTES + 1, NULL, &g, &err));
    /* Groups in groups. */
    memcpy(text, "root ::= ", 9);
    memset(text + 9, '(', 300);
    CHECK_STATUS(LK_E_LIMIT, lk_grammar_create_gbnf(text, 309, NULL, &g, &err));
    free(text);
    CHECK_STATUS(LK_E_ARG, lk_grammar_create_gbnf(NULL, 1, NULL, &g, &err));
    CHECK_STATUS(LK_E_ARG, lk_grammar_create_gbnf("", 0, NULL, NULL, &err));
    /* Depth: 256 brackets and no more. */
    g = compile("root ::= \"(\" root \")\" | \"x\"");
    char nested[2 * LK_GRAMMAR_MAX_DEPTH + 4];
    for (size_t n = LK_GRAMMAR_MAX_DEPTH - 1; n <= LK_GRAMMAR_MAX_DEPTH + 1; n++) {
        memset(nested, '(', n);
        nested[n] = 'x';
        memset(nested + n + 1, ')', n);
        CHECK(accepts(g, nested, 2 * n + 1) == (n <= LK_GRAMMAR_MAX_DEPTH));
    }
    lk_grammar_destroy(g);
    /* A text that can be read in ever more ways ends with an error, not with the memory. */
    g = compile("root ::= (\"a\" | \"aa\" | \"aaa\"){1,1000000}");
    char *many = malloc(100000);
    memset(many, 'a', 100000);
    int result = 0;
    CHECK_STATUS(LK_E_LIMIT, lk_grammar_accepts(g, many, 100000, &result, &err));
    CHECK(result == 0 && strstr(err.message, "ways") != NULL);
    free(many);
    lk_grammar_destroy(g);
}

/* A count that is long, and a text of its length: what is kept stays bounded. */
LK_TEST(long_texts) {
    lk_grammar *g = compile("root ::= ([a-z]{1,9} \" \"){0,1000000} \"end\"");
    const size_t n = lk_test_size(5000, 60000, 3000000);
    char *text = malloc(n + 4);
    for (size_t i = 0; i < n; i++) {
        text[i] = i % 5 == 4 ? ' ' : 'x';
    }
    text[n - 1] = ' ';
    memcpy(text + n, "end", 3);
    CHECK(accepts(g, text, n + 3) == 1);
    CHECK(accepts(g, text, n) == 0);
    free(text);
    lk_grammar_destroy(g);
}

LK_TEST(every_failing_allocation) {
    static const char text[] = "root ::= (\"a\" | [b-d\\u00e9]{2,5} x)* \"f\"?\nx ::= \"g\" root";
    for (uint64_t n = 1;; n++) {
        lk_test_allocator a;
        lk_test_allocator_init(&a);
        a.fail_at = n;
        lk_grammar *g = NULL;
        lk_error err = {0};
        lk_status status = lk_grammar_create_gbnf(text, strlen(text), &a.base, &g, &err);
        CHECK(status == LK_OK || (status == LK_E_NOMEM && g == NULL));
        int result = 0;
        if (status == LK_OK) {
            status = lk_grammar_accepts(g, "abcgf", 5, &result, &err);
            CHECK(status == LK_OK ? result == 1 : status == LK_E_NOMEM);
        }
        lk_grammar_destroy(g);
        CHECK(a.n_live == 0);
        if (status == LK_OK) {
            CHECK(n > 10);
            break;
        }
    }
}

/* Thousands of alternatives are read in one way: by their common beginnings. */
LK_TEST(word_lists) {
    enum { N = 5000, N_SYLLABLES = 8 };
    static const char *const syllables[N_SYLLABLES] = {"ba",  "co", "di", "stra",
                                                       "the", "un", "er", "tion"};
    static char text[1 << 20];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "root ::= word (\", \" word)* | word+ \".\"\n"
                                "word ::= ");
    for (unsigned i = 0; i < N; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"", i > 0 ? " | " : "");
        for (unsigned k = 0, rest = i; k < 5; k++, rest /= N_SYLLABLES) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", syllables[rest % N_SYLLABLES]);
        }
        text[n++] = '"';
    }
    lk_grammar *g = compile(text);
    static const char good[] = "thecodibaco, undibababa, erdibababa";
    CHECK(accepts(g, "bababababa", 10) == 1);
    CHECK(accepts(g, good, sizeof good - 1) == 1);
    CHECK(accepts(g, "bababababaerdibababa.", 21) == 1);
    CHECK(accepts(g, "bababababaerdibababa", 20) == 0);
    CHECK(accepts(g, "babababab", 9) == 0 && accepts(g, "babababatx", 10) == 0);
    lk_grammar_destroy(g);
}

LK_TEST_MAIN(LK_RUN(constructs), LK_RUN(errors_name_the_line), LK_RUN(limits), LK_RUN(long_texts),
             LK_RUN(word_lists), LK_RUN(every_failing_allocation))
