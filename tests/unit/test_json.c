/* test_json.c - the JSON reader: known texts and errors with their offsets, agreement with jansson
 * on changed texts, limits, and every failing allocation. */
#include <jansson.h>

#include "base/json.h"
#include "lk_test.h"

static const lk_json_limits limits = {1 << 20, 64};

static lk_status parse(const char *text, lk_json *j, lk_error *err) {
    return lk_json_parse(text, strlen(text), limits, NULL, j, err);
}

LK_TEST(values_and_members) {
    static const char text[] = " { \"a\" : [1, -2.5e+3, true,false , null], "
                               "\"b\\u0041\":\"x\\n\\u00e9\\ud83d\\ude00\\u0000y\","
                               "\"\":{}} ";
    lk_json j;
    lk_error err = {0};
    REQUIRE_OK(parse(text, &j, &err), err);
    CHECK(j.values[0].type == LK_JSON_OBJECT && j.values[0].n == 3);
    const uint32_t a = lk_json_find(&j, 0, "a");
    CHECK(a != 0 && j.values[a].type == LK_JSON_ARRAY && j.values[a].n == 5);
    uint32_t v = j.values[a].first;
    int64_t number = 0;
    CHECK(lk_json_int64(&j, v, &number) && number == 1);
    v = j.values[v].next;
    CHECK(!lk_json_int64(&j, v, &number) && lk_json_text_is(&j, v, "-2.5e+3"));
    v = j.values[v].next;
    CHECK(j.values[v].type == LK_JSON_TRUE);
    v = j.values[v].next;
    CHECK(j.values[v].type == LK_JSON_FALSE);
    v = j.values[v].next;
    CHECK(j.values[v].type == LK_JSON_NULL && j.values[v].next == 0);
    const uint32_t b = lk_json_find(&j, 0, "bA");
    size_t n = 0;
    const char *s = lk_json_text(&j, b, &n);
    CHECK(n == 10 && memcmp(s, "x\n\xC3\xA9\xF0\x9F\x98\x80\0y", 10) == 0 && s[n] == '\0');
    CHECK(strcmp(lk_json_key(&j, b, &n), "bA") == 0 && n == 2);
    CHECK(lk_json_find(&j, 0, "c") == 0 && lk_json_find(&j, a, "a") == 0);
    CHECK(lk_json_find_bytes(&j, 0, "", 0) != 0);
    lk_json_deinit(&j);
}

LK_TEST(whole_numbers) {
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } rows[] = {{"0", true, 0},
                {"-0", true, 0},
                {"9223372036854775807", true, INT64_MAX},
                {"-9223372036854775808", true, INT64_MIN},
                {"9223372036854775808", false, 0},
                {"-9223372036854775809", false, 0},
                {"99999999999999999999999", false, 0},
                {"1.0", false, 0},
                {"1e2", false, 0},
                {"\"1\"", false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_json j;
        lk_error err = {0};
        int64_t value = 0;
        REQUIRE_OK(parse(rows[i].text, &j, &err), err);
        CHECK_MSG(lk_json_int64(&j, 0, &value) == rows[i].fits && value == rows[i].value, "%s",
                  rows[i].text);
        lk_json_deinit(&j);
    }
}

LK_TEST(errors_have_offsets) {
    static const struct {
        const char *text;
        uint64_t offset;
    } rows[] = {
        {"", 0},
        {"  ", 2},
        {"nul", 0},
        {"[1,]", 3},
        {"[1 2]", 3},
        {"[,1]", 1},
        {"{\"a\":1,}", 7},
        {"{\"a\" 1}", 5},
        {"{a:1}", 1},
        {"{\"a\":1 \"b\":2}", 7},
        {"[1}", 2},
        {"[", 1},
        {"{\"a\"", 4},
        {"01", 1},
        {"-", 1},
        {"1.", 2},
        {"1.e3", 2},
        {"1e", 2},
        {"+1", 0},
        {".5", 0},
        {"\"a", 2},
        {"\"a\nb\"", 2},
        {"\"\\x\"", 2},
        {"\"\\u12g4\"", 5},
        {"\"\\ud800\"", 1},
        {"\"\\ud800\\u0041\"", 1},
        {"\"\\udc00\"", 1},
        {"\"\xFF\"", 1},
        {"\"\xC3\"", 1},
        {"\"\xED\xA0\x80\"", 1},
        {"\xEF\xBB\xBF{}", 0},
        {"1 2", 2},
        {"{} x", 3},
        {"// c\n1", 0},
        {"'a'", 0},
        {"NaN", 0},
        {"{\"a\":1,\"b\":2,\"a\":3}", 17},
        {"{\"a\":1,\"\\u0061\":2}", 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_json j;
        lk_error err = {0};
        CHECK_MSG(parse(rows[i].text, &j, &err) == LK_E_FORMAT && err.offset == rows[i].offset &&
                      err.message[0] != '\0' && j.n_values == 0 && j.values == NULL,
                  "%s: %s at %llu, expected %llu", rows[i].text, err.message,
                  (unsigned long long)err.offset, (unsigned long long)rows[i].offset);
    }
}

LK_TEST(limits_hold) {
    lk_json j;
    lk_error err = {0};
    const lk_json_limits small = {10, 3};
    CHECK_STATUS(LK_OK, lk_json_parse("[[[1]]]", 7, small, NULL, &j, &err));
    lk_json_deinit(&j);
    CHECK_STATUS(LK_E_LIMIT, lk_json_parse("[[[[1]]]]", 9, small, NULL, &j, &err));
    CHECK(err.offset == 3 && j.values == NULL);
    CHECK_STATUS(LK_E_LIMIT, lk_json_parse("\"123456789\"", 11, small, NULL, &j, &err));
    /* One bracket after another must not take the machine's stack. */
    const size_t n = 1 << 20;
    char *deep = malloc(n);
    memset(deep, '[', n);
    CHECK_STATUS(LK_E_LIMIT, lk_json_parse(deep, n, (lk_json_limits){n, n}, NULL, &j, &err));
    CHECK(err.offset == LK_JSON_MAX_DEPTH);
    free(deep);
}

/* Jansson has more limits on numbers than the grammar: those are left to us. */
static int is_range_error(const json_error_t *e) {
    const enum json_error_code code = json_error_code(e);
    return code == json_error_numeric_overflow;
}

LK_TEST(agrees_with_jansson) {
    static const char *const seeds[] = {
        "{\"a\":[1,2.5,-3e2,{\"b\":null}],\"c\":\"x\\ty\\u00e9\\ud83d\\ude00\",\"d\":true}",
        "[[],{},[[]],[{}],\"\",0,-0.0,1e5,false]",
        "{\"k1\":{\"k2\":{\"k3\":[\"\xE4\xB8\xAD\",\"\xC3\xA9\"]}},\"k2\":1}",
        "\"text \\\\ \\/ \\\" \\b\\f\\n\\r\\t\"",
    };
    static const char alphabet[] = "{}[]\",:0123456789.eE+-\\untrfalsb \n\xC3\xA9\x01";
    uint64_t random = lk_test_seed(7);
    const uint64_t n_rounds = lk_test_size(2000, 40000, 400000);
    uint64_t n_good = 0;
    for (uint64_t i = 0; i < n_rounds; i++) {
        char text[256];
        size_t n = strlen(seeds[i % 4]);
        memcpy(text, seeds[i % 4], n);
        for (uint64_t k = lk_test_random(&random) % 3; k > 0; k--) {
            const size_t at = (size_t)(lk_test_random(&random) % n);
            const char c = alphabet[lk_test_random(&random) % (sizeof alphabet - 1)];
            if (lk_test_random(&random) % 2) {
                text[at] = c;
            } else {
                memmove(text + at, text + at + 1, n - at - 1);
                n--;
            }
        }
        json_error_t theirs;
        json_t *root =
            json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &theirs);
        lk_json j;
        lk_error err = {0};
        const lk_status status = lk_json_parse(text, n, limits, NULL, &j, &err);
        if (root != NULL || !is_range_error(&theirs)) {
            CHECK_MSG((status == LK_OK) == (root != NULL), "%.*s: %s, jansson: %s", (int)n, text,
                      err.message, root != NULL ? "good" : theirs.text);
        }
        n_good += root != NULL;
        json_decref(root);
        lk_json_deinit(&j);
    }
    CHECK(n_good > n_rounds / 10 && n_good < n_rounds * 9 / 10);
}

LK_TEST(every_failing_allocation) {
    static const char text[] = "{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18],\"b\":\"x\"}";
    for (uint64_t n = 1;; n++) {
        lk_test_allocator a;
        lk_test_allocator_init(&a);
        a.fail_at = n;
        lk_json j;
        lk_error err = {0};
        const lk_status status = lk_json_parse(text, strlen(text), limits, &a.base, &j, &err);
        CHECK(status == LK_OK || (status == LK_E_NOMEM && j.values == NULL));
        lk_json_deinit(&j);
        CHECK(a.n_live == 0);
        if (status == LK_OK) {
            CHECK(n > 5);
            break;
        }
    }
}

LK_TEST_MAIN(LK_RUN(values_and_members), LK_RUN(whole_numbers), LK_RUN(errors_have_offsets),
             LK_RUN(limits_hold), LK_RUN(agrees_with_jansson), LK_RUN(every_failing_allocation))
