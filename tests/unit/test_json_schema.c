/* test_json_schema.c - JSON schemas: every keyword with texts that it accepts and refuses, and what
 * cannot be enforced with the JSON pointer of the keyword. */
#include "lk/grammar.h"
#include "lk_test.h"

typedef struct row {
    const char *schema;
    const char *good[10];
    const char *bad[12];
} row;

static const row rows[] = {
    /* types */
    {"{\"type\":\"null\"}", {"null"}, {"", "nul", "\"null\"", " null"}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"True", "0"}},
    {"{\"type\":\"integer\"}",
     {"0", "-1", "123456789012345", "-0"},
     {"1.0", "01", "1e2", "1234567890123456", "+1", "-"}},
    {"{\"type\":\"number\"}",
     {"0", "-1.5", "1e5", "2.5E-10", "123456789012345.123456789012345"},
     {"1.", ".5", "1e999", "00", "1e", "1234567890123456", "NaN"}},
    {"{\"type\":\"string\"}",
     {"\"\"", "\"a\\n\\u00e9\\ud83d\\ude00 \xC3\xA9\"", "\"\\\"\\\\\\/\""},
     {"\"", "a", "\"a", "\"\n\"", "\"\\x\"", "\"\\ud800\"", "\"\\udc00a\"", "\"\\u12\""}},
    {"{\"type\":[\"string\",\"null\"]}", {"\"a\"", "null"}, {"1", "true"}},
    {"{\"type\":[\"integer\",\"number\"]}", {"1", "1.5"}, {"\"1\""}},
    {"true", {"1", "\"a\"", "[1,{\"a\":null}]", "{}", "[[[]]]"}, {"", "[1,]", "{a:1}"}},
    {"{}", {"1", "{\"a\":[true]}"}, {"tru"}},
    {"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"x-own\":2,"
     "\"$schema\":\"s\",\"$comment\":\"c\",\"type\":\"null\"}",
     {"null"},
     {"1"}},
    /* white space */
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",
     {"[]", "[1]", "[1,2]", "[ 1, 2 ]", "[\n  1,\n  2\n]"},
     {"[1,  2]", "[1 ,2]", "[\n\n1]", "[\t1]", "[1]\n", "[,1]",
      "[\n                                 1]"}},
    /* enum and const */
    {"{\"enum\":[\"a\",\"b\\n\\\"\",1,null,[1,2],{\"k\":true},\"ab\"]}",
     {"\"a\"", "\"ab\"", "\"b\\n\\\"\"", "1", "null", "[1,2]", "{\"k\":true}"},
     {"\"b\"", "2", "[1]", "true"}},
    {"{\"const\":\"x\"}", {"\"x\""}, {"\"y\"", "x"}},
    {"{\"const\":{\"a\":{},\"b\":[[],{\"c\":1}],\"d\":\"\"}}",
     {"{\"a\":{},\"b\":[[],{\"c\":1}],\"d\":\"\"}"},
     {"{}"}},
    {"{\"type\":\"string\",\"enum\":[\"a\",1,null]}", {"\"a\""}, {"1", "null"}},
    {"{\"enum\":[1,5,10,\"x\"],\"minimum\":3}", {"5", "10", "\"x\""}, {"1"}},
    {"{\"enum\":[\"a\",\"abc\",\"abcd\"],\"minLength\":2,\"pattern\":\"c$\"}",
     {"\"abc\""},
     {"\"a\"", "\"abcd\""}},
    {"{\"enum\":[1,2,3],\"not\":{\"const\":2}}", {"1", "3"}, {"2"}},
    {"{\"enum\":[1.0,2],\"const\":1}", {"1"}, {"2", "1.0"}},
    {"{\"enum\":[{\"a\":1},{\"a\":\"x\"},{}],\"properties\":{\"a\":{\"type\":\"integer\"}},"
     "\"required\":[\"a\"]}",
     {"{\"a\":1}"},
     {"{\"a\":\"x\"}", "{}"}},
    /* lengths */
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\"", "\"\\n\xC3\xA9\"", "\"\xF0\x9F\x98\x80\\ud83d\\ude00\""},
     {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\"", "\"\""}},
    {"{\"type\":\"string\",\"maxLength\":0}", {"\"\""}, {"\"a\""}},
    {"{\"minLength\":1}", {"\"a\""}, {"\"\"", "1"}},
    /* patterns */
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\"}", {"\"abc\""}, {"\"\"", "\"abd\""}},
    {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"abc\"", "\"b\""}, {"\"ac\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^a|b$\"}",
     {"\"ax\"", "\"xb\"", "\"ab\""},
     {"\"xa\"", "\"bx\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(foo|ba[rz])(-\\\\d{2,3})?$\"}",
     {"\"foo\"", "\"bar-12\"", "\"baz-123\""},
     {"\"bax\"", "\"foo-1\"", "\"foo-1234\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\w+\\\\s\\\\S\\\\D$\"}",
     {"\"a_1 .x\"", "\"a\\t..\""},
     {"\"a .1\"", "\"- ..\""}},
    {"{\"type\":\"string\",\"pattern\":\"^.$\"}",
     {"\"a\"", "\"\xC3\xA9\"", "\"\\\"\"", "\"\\\\\"", "\"\\t\"", "\"\\u0001\"", "\"\\u001F\""},
     {"\"\\n\"", "\"\"", "\"ab\"", "\"\\r\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[^a\\\\]\\\\-x-z]$\"}",
     {"\"b\"", "\"\\\\\""},
     {"\"a\"", "\"]\"", "\"-\"", "\"y\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\u00e9\\\\u{1F600}\\\\x41\\\\cA?\\\\0?$\"}",
     {"\"\xC3\xA9\xF0\x9F\x98\x80"
      "A\"",
      "\"\xC3\xA9\xF0\x9F\x98\x80"
      "A\\u0001\\u0000\""},
     {"\"A\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\ud83d\\\\ude00$\"}",
     {"\"\xF0\x9F\x98\x80\""},
     {"\"a\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\p{Lu}\\\\p{L}*\\\\P{N}$\"}",
     {"\"\xC3\x89t\xC3\xA9!\"", "\"Ab\""},
     {"\"ab\"", "\"A1\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(?:a|b)*?c+?(?<n>d)?$\"}",
     {"\"c\"", "\"abccd\""},
     {"\"abd\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(a{0}b){2}(c?){3}$\"}",
     {"\"bb\"", "\"bbccc\""},
     {"\"abb\"", "\"bbcccc\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(a{2,}|b{1,2}){2}$\"}",
     {"\"aaaa\"", "\"baaa\"", "\"bbbb\""},
     {"\"a\"", "\"bbbbb\"", "\"ba\""}},
    {"{\"type\":\"string\",\"pattern\":\"^$\"}", {"\"\""}, {"\"a\""}},
    {"{\"type\":\"string\",\"pattern\":\"\"}", {"\"\"", "\"any\""}, {"1"}},
    {"{\"type\":\"string\",\"pattern\":\"a^b\"}", {NULL}, {"\"ab\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":4}",
     {"\"ab\"", "\"abcd\""},
     {"\"a\"", "\"abcde\"", "\"ab1\""}},
    {"{\"allOf\":[{\"type\":\"string\",\"pattern\":\"a\"},{\"pattern\":\"b\"}]}",
     {"\"ab\"", "\"ba\""},
     {"\"a\"", "\"b\""}},
    {"{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"b\"]}}",
     {"\"c\"", "\"ab\"", "\"\""},
     {"\"a\"", "\"b\""}},
    /* formats */
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"24-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"23:59:59Z\"", "\"00:00:00.123+01:30\""},
     {"\"24:00:00Z\"", "\"12:00:00\"", "\"12:60:00Z\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-02-29T23:59:59Z\""},
     {"\"2024-02-30T23:59:59Z\"", "\"2024-02-29\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567e89b12d3a456426614174000\"", "\"\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"a.b+c@example.co.uk\""},
     {"\"a\"", "\"a@b\"", "\"@b.cd\"", "\"a b@c.de\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"255.0.10.99\""},
     {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"https://a.b/c?d=1#e\""},
     {"\"a\"", "\"https://a b\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P1Y2M3D\"", "\"PT5M\"", "\"P2W\""},
     {"\"P\"", "\"PT\"", "\"5M\""}},
    {"{\"type\":\"integer\",\"format\":\"int32\"}",
     {"2147483647", "-2147483648", "0"},
     {"2147483648", "-2147483649"}},
    /* numbers */
    {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":12}",
     {"3", "9", "10", "12"},
     {"2", "13", "03", "-3", "120", "3.0"}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":5}",
     {"-12", "-9", "-1", "0", "5", "-0"},
     {"-13", "6", "10", "-120"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":99,\"exclusiveMaximum\":1001}",
     {"100", "999", "1000"},
     {"99", "1001", "10", "1010"}},
    {"{\"type\":\"integer\",\"minimum\":0}", {"0", "7", "123456789012345"}, {"-1", "-5"}},
    {"{\"type\":\"integer\",\"maximum\":-10}", {"-10", "-11", "-1000"}, {"-9", "0", "10", "-1"}},
    {"{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":3.5}", {"2", "3"}, {"1", "4"}},
    {"{\"type\":\"integer\",\"minimum\":1e2,\"maximum\":1.2E2}", {"100", "120"}, {"99", "121"}},
    {"{\"type\":\"number\",\"minimum\":0.5,\"maximum\":2}",
     {"0.5", "0.75", "1", "1.999", "2", "2.0", "0.50"},
     {"0.49", "2.01", "0", "3", "1e0", "0.4999", ".5"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
     {"0.1", "0.00001", "0.999"},
     {"0", "0.0", "1", "1.0", "-0.1"}},
    {"{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":-0.25}",
     {"-1.5", "-1", "-0.25", "-0.3"},
     {"-1.51", "-0.24", "0", "1", "-2"}},
    {"{\"type\":\"number\",\"minimum\":-1}", {"-1", "-0.5", "0", "99999"}, {"-1.1", "-2"}},
    {"{\"type\":\"number\",\"maximum\":0}", {"0", "-0", "-5.5", "0.00"}, {"0.1", "1"}},
    {"{\"type\":\"number\",\"exclusiveMaximum\":0}", {"-0.1", "-3"}, {"0", "-0", "-0.0", "1"}},
    {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":5}", {"5"}, {"4", "6"}},
    {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "700"}, {"1", "8", "71"}},
    {"{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":12,\"maximum\":31}",
     {"15", "20", "30"},
     {"10", "12", "13", "31", "35"}},
    {"{\"type\":\"number\",\"multipleOf\":2}", {"2", "-4"}, {"3", "2.5"}},
    {"{\"allOf\":[{\"type\":\"integer\",\"multipleOf\":4},{\"multipleOf\":6}]}",
     {"12", "0", "-24"},
     {"4", "6", "18"}},
    {"{\"allOf\":[{\"type\":\"number\",\"minimum\":1},{\"exclusiveMinimum\":1,\"maximum\":9},"
     "{\"maximum\":5}]}",
     {"1.1", "5"},
     {"1", "5.1", "9"}},
    /* objects */
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
     "\"string\"}},\"required\":[\"a\"]}",
     {"{\"a\":1}", "{\"a\":1,\"b\":\"x\"}", "{ \"a\": 1, \"b\": \"x\" }",
      "{\n  \"a\": 1,\n  \"b\": \"\"\n}"},
     {"{}", "{\"b\":\"x\"}", "{\"b\":\"x\",\"a\":1}", "{\"a\":\"1\"}", "{\"a\":1,}",
      "{\"a\":1,\"c\":1}", "{\"a\" :1}", "{\"a\":1,\"a\":2}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":false}",
     {"{}", "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
     {"{\"c\":1}", "{,}", "{\"a\":1\"b\":2}"}},
    {"{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"null\"}},\"additionalProperties\":{"
     "\"type\":\"integer\"}}",
     {"{}", "{\"ab\":null}", "{\"ab\":null,\"c\":1,\"d\":2}", "{\"a\":1}", "{\"abc\":1}",
      "{\"\":1}"},
     {"{\"ab\":1}", "{\"c\":null}", "{\"c\":1,\"ab\":null}", "{\"\\u0061b\":1}"}},
    {"{\"type\":\"object\"}",
     {"{}", "{\"a\":{\"b\":[1,2,{\"c\":null}]}}"},
     {"[]", "1", "{\"a\":}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":"
     "true}",
     {"{\"a\":1,\"b\":\"x\"}"},
     {"{\"a\":\"x\"}"}},
    {"{\"type\":\"object\",\"required\":[\"z\"],\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"z\":null}", "{\"z\":null,\"y\":null}"},
     {"{}", "{\"y\":null}", "{\"z\":1}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^n_\":{\"type\":\"integer\"},\"^s_\":{\"type\":"
     "\"string\"}},\"additionalProperties\":false}",
     {"{}", "{\"n_a\":1,\"s_b\":\"x\"}"},
     {"{\"n_a\":\"x\"}", "{\"other\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"n_a\":{\"minimum\":5}},\"patternProperties\":{\"^n_\":"
     "{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"n_a\":5,\"n_b\":1,\"c\":null}"},
     {"{\"n_a\":4}", "{\"n_b\":null}", "{\"c\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]{1,3}$\"},"
     "\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{\"abc\":1}", "{\"a\":1,\"b\":2}"},
     {"{\"abcd\":1}", "{\"A\":1}", "{\"\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"x\",\"y\"]}}",
     {"{\"x\":1}", "{\"y\":null,\"x\":2}"},
     {"{\"z\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"additionalProperties\":"
     "false,\"minProperties\":2}",
     {"{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
     {"{}", "{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"additionalProperties\":"
     "false,\"maxProperties\":1}",
     {"{}", "{\"b\":1}"},
     {"{\"a\":1,\"c\":1}"}},
    {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2,\"additionalProperties\":{"
     "\"type\":\"null\"}}",
     {"{\"a\":null}", "{\"a\":null,\"b\":null}"},
     {"{}", "{\"a\":null,\"b\":null,\"c\":null}"}},
    {"{\"properties\":{\"a\\\"/~\":{\"type\":\"null\"}}}", {"{\"a\\\"/~\":null}", "{}"}, {"1"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":false,\"b\":{\"type\":\"null\"}}}",
     {"{}", "{\"b\":null}"},
     {"{\"a\":1}"}},
    /* arrays */
    {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":3}",
     {"[true]", "[true,false,true]"},
     {"[]", "[true,true,true,true]", "[1]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"maxItems\":0}", {"[]"}, {"[null]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":2}",
     {"[null,null]", "[null,null,null]"},
     {"[null]", "[]"}},
    {"{\"type\":\"array\",\"items\":false}", {"[]"}, {"[1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],"
     "\"items\":{\"type\":\"null\"},\"minItems\":1}",
     {"[1]", "[1,\"a\"]", "[1,\"a\",null,null]"},
     {"[]", "[\"a\"]", "[1,null]", "[1,\"a\",1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],"
     "\"items\":false,\"minItems\":2}",
     {"[1,\"a\"]"},
     {"[1]", "[1,\"a\",1]"}},
    {"{\"type\":\"array\",\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":"
     "\"null\"}}",
     {"[]", "[1]", "[1,null]"},
     {"[null]", "[1,1]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"uniqueItems\":true,\"maxItems\":1}",
     {"[]", "[1]"},
     {"[1,2]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},"
     "\"minItems\":2,\"maxItems\":2},\"maxItems\":2}",
     {"[[1,2],[3,4]]", "[]"},
     {"[[1]]", "[[1,2],[3,4],[5,6]]"}},
    /* combinations */
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"const\":null}]}",
     {"1", "\"a\"", "null"},
     {"\"ab\"", "true"}},
    {"{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}", {"null", "\"\""}, {"1"}},
    {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":4},{\"type\":\"integer\",\"minimum\":5}]}",
     {"4", "5"},
     {"\"x\""}},
    {"{\"oneOf\":[{\"type\":\"string\",\"pattern\":\"^a\"},{\"type\":\"string\",\"pattern\":"
     "\"^b\"}]}",
     {"\"a\"", "\"bx\""},
     {"\"c\""}},
    {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":"
     "\"integer\"}},\"required\":[\"k\",\"v\"]},{\"type\":\"object\",\"properties\":{\"k\":{"
     "\"const\":\"b\"},\"w\":{\"type\":\"string\"}},\"required\":[\"k\"]}]}",
     {"{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\"}", "{\"k\":\"b\",\"w\":\"\"}"},
     {"{\"k\":\"a\"}", "{\"k\":\"b\",\"v\":1}", "{\"k\":\"c\"}"}},
    {"{\"oneOf\":[{\"enum\":[1,2]},{\"enum\":[3,\"x\"]},{\"type\":\"boolean\"}]}",
     {"1", "3", "\"x\"", "true"},
     {"4"}},
    {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\"],"
     "\"additionalProperties\":false},{\"type\":\"object\",\"properties\":{\"b\":{}},\"required\":"
     "[\"b\"],\"additionalProperties\":false}]}",
     {"{\"a\":1}", "{\"b\":1}"},
     {"{\"a\":1,\"b\":1}", "{}"}},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":["
     "\"a\"]},{\"properties\":{\"b\":{\"type\":\"string\"},\"a\":{\"minimum\":3}},\"required\":["
     "\"b\"]}]}",
     {"{\"a\":3,\"b\":\"\"}"},
     {"{\"a\":2,\"b\":\"\"}", "{\"a\":3}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
     "\"integer\"}"
     "},\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}"},
     {"{}"}},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"not\":{\"type\":\"string\"}}",
     {"1"},
     {"\"a\""}},
    {"{\"not\":{\"type\":[\"object\",\"array\",\"string\"]}}", {"1", "null", "1.5"}, {"{}", "[]"}},
    {"{\"anyOf\":[{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]},{\"type\":\"boolean\"}]"
     "}",
     {"1", "null", "true"},
     {"\"a\""}},
    {"{\"type\":\"integer\",\"anyOf\":[false,{\"minimum\":5}]}", {"5"}, {"4"}},
    /* references */
    {"{\"$defs\":{\"t\":{\"type\":\"integer\"}},\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
     "t\"}}",
     {"[1,2]"},
     {"[\"a\"]"}},
    {"{\"definitions\":{\"a/b~c\":{\"type\":\"null\"}},\"$ref\":\"#/definitions/a~1b~0c\"}",
     {"null"},
     {"1"}},
    {"{\"definitions\":{\"a b\":{\"type\":\"null\"}},\"$ref\":\"#/definitions/a%20b\"}",
     {"null"},
     {"1"}},
    {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{"
     "\"$ref\":\"#\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
    {"{\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\","
     "\"items\":{\"$ref\":\"#/$defs/tree\"}}},\"required\":[\"kids\"]}},\"$ref\":\"#/$defs/tree\"}",
     {"{\"kids\":[]}", "{\"kids\":[{\"kids\":[]},{\"kids\":[{\"kids\":[]}]}]}"},
     {"{\"kids\":[{}]}"}},
    {"{\"$id\":\"https://x.y/z.json\",\"$defs\":{\"t\":{\"$anchor\":\"here\",\"type\":\"null\"}},"
     "\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#here\"},{\"$ref\":\"https://x.y/z.json#/"
     "$defs/t\"}],\"items\":false}",
     {"[null,null]"},
     {"[1]"}},
    {"{\"$anchor\":\"top\",\"type\":\"array\",\"items\":{\"$ref\":\"#top\"},\"maxItems\":2}",
     {"[]", "[[],[[]]]"},
     {"[1]", "[[],[],[]]"}},
    {"{\"$defs\":{\"p\":{\"type\":\"integer\",\"minimum\":0}},\"$ref\":\"#/$defs/"
     "p\",\"maximum\":9}",
     {"0", "9"},
     {"-1", "10"}},
    {"{\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"type\":"
     "\"null\"}}}",
     {"null"},
     {"1"}},
};

static lk_grammar *compile(const char *schema) {
    lk_grammar *g = NULL;
    lk_error err = {0};
    const lk_status status = lk_grammar_create_json_schema(schema, strlen(schema), NULL, &g, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", schema, err.message);
    return g;
}

static int accepts(const lk_grammar *g, const char *text) {
    lk_error err = {0};
    int result = -1;
    const lk_status status = lk_grammar_accepts(g, text, strlen(text), &result, &err);
    CHECK_MSG(status == LK_OK, "%s: %s", text, err.message);
    return result;
}

LK_TEST(keywords) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].good[0] == NULL) {
            continue; /* nothing satisfies it: see below */
        }
        lk_grammar *g = compile(rows[i].schema);
        for (size_t k = 0; g != NULL && k < 10 && rows[i].good[k] != NULL; k++) {
            CHECK_MSG(accepts(g, rows[i].good[k]) == 1, "%s refuses %s", rows[i].schema,
                      rows[i].good[k]);
        }
        for (size_t k = 0; g != NULL && k < 12 && rows[i].bad[k] != NULL; k++) {
            CHECK_MSG(accepts(g, rows[i].bad[k]) == 0, "%s accepts %s", rows[i].schema,
                      rows[i].bad[k]);
        }
        lk_grammar_destroy(g);
    }
}

LK_TEST(json_object) {
    lk_grammar *g = NULL;
    lk_error err = {0};
    REQUIRE_OK(lk_grammar_create_json_object(NULL, &g, &err), err);
    CHECK(accepts(g, "{}") && accepts(g, "{\"a\": [1, \"x\", {\"b\": null}], \"c\": -1.5e3}"));
    CHECK(!accepts(g, "[]") && !accepts(g, "{\"a\"}") && !accepts(g, "{} ") && !accepts(g, ""));
    /* Deep, but not without end: within the limit there is always a way out. */
    char deep[2048];
    for (int n = 1; n <= 300; n++) {
        size_t at = 0;
        for (int i = 0; i < n; i++) {
            memcpy(deep + at, "{\"\":", 4);
            at += 4;
        }
        deep[at++] = '1';
        memset(deep + at, '}', (size_t)n);
        deep[at + (size_t)n] = '\0';
        const int good = accepts(g, deep);
        CHECK_MSG(n > 40 || good == 1, "%d", n);
        CHECK(n < 300 || good == 0);
    }
    lk_grammar_destroy(g);
}

typedef struct bad_row {
    const char *schema;
    lk_status status;
    const char *pointer; /* the subject */
    const char *words;   /* in the message */
} bad_row;

static const bad_row bad_rows[] = {
    {"", LK_E_FORMAT, "JSON", "end of the text"},
    {"{\"type\":}", LK_E_FORMAT, "JSON", "byte 8"},
    {"[]", LK_E_FORMAT, "", "a schema is an object"},
    {"1", LK_E_FORMAT, "", "a schema is an object"},
    {"false", LK_E_FORMAT, "the schema", "no text"},
    {"{\"type\":\"strin\"}", LK_E_FORMAT, "/type", "'type' must be"},
    {"{\"type\":[]}", LK_E_FORMAT, "/type", "'type' must be"},
    {"{\"minLength\":-1}", LK_E_FORMAT, "/minLength", "whole number"},
    {"{\"minLength\":1.5}", LK_E_FORMAT, "/minLength", "whole number"},
    {"{\"minLength\":99999999}", LK_E_LIMIT, "/minLength", "more than"},
    {"{\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"b/c\":{\"minimum\":\"1\"}}}}}",
     LK_E_FORMAT, "/properties/a/properties/b~1c/minimum", "must be a number"},
    {"{\"type\":\"array\",\"items\":{\"contains\":{}}}", LK_E_UNSUPPORTED, "/items/contains",
     "'contains' cannot be enforced"},
    {"{\"if\":{},\"then\":{}}", LK_E_UNSUPPORTED, "/if", "'if' cannot be enforced"},
    {"{\"unevaluatedProperties\":false}", LK_E_UNSUPPORTED, "/unevaluatedProperties", "enforced"},
    {"{\"dependentRequired\":{}}", LK_E_UNSUPPORTED, "/dependentRequired", "enforced"},
    {"{\"minlength\":1}", LK_E_UNSUPPORTED, "/minlength", "'minlength' cannot be enforced"},
    {"{\"type\":\"array\",\"uniqueItems\":true}", LK_E_UNSUPPORTED, "/uniqueItems", "enforced"},
    {"{\"type\":\"string\",\"format\":\"iri\"}", LK_E_UNSUPPORTED, "/format", "'iri'"},
    {"{\"type\":\"string\",\"pattern\":\"(?=a)b\"}", LK_E_UNSUPPORTED, "/pattern", "ahead"},
    {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}", LK_E_UNSUPPORTED, "/pattern", "references"},
    {"{\"type\":\"string\",\"pattern\":\"\\\\bx\"}", LK_E_UNSUPPORTED, "/pattern", "\\b"},
    {"{\"type\":\"string\",\"pattern\":\"(\"}", LK_E_FORMAT, "/pattern", "expected ')'"},
    {"{\"type\":\"string\",\"pattern\":\"[z-a]\"}", LK_E_FORMAT, "/pattern", "range"},
    {"{\"type\":\"string\",\"pattern\":\"a**\"}", LK_E_FORMAT, "/pattern", "nothing to repeat"},
    {"{\"type\":\"string\",\"pattern\":\"\\\\q\"}", LK_E_FORMAT, "/pattern", "unknown escape"},
    {"{\"type\":\"string\",\"pattern\":\"^a{1,9}{1,9}$\"}", LK_E_FORMAT, "/pattern",
     "nothing to repeat"},
    {"{\"type\":\"string\",\"pattern\":\"^(a{1,999}){1,999}$\"}", LK_E_LIMIT, "/pattern",
     "too long"},
    {"{\"type\":\"string\",\"pattern\":\"a.{18}$\"}", LK_E_LIMIT, "/pattern", "states"},
    {"{\"type\":\"string\",\"pattern\":\"a^b\"}", LK_E_FORMAT, "the schema", "no text"},
    {"{\"type\":\"number\",\"multipleOf\":0.1}", LK_E_UNSUPPORTED, "/multipleOf", "enforced"},
    {"{\"type\":\"number\",\"multipleOf\":0}", LK_E_FORMAT, "/multipleOf", "greater than 0"},
    {"{\"type\":\"integer\",\"minimum\":1e60}", LK_E_LIMIT, "/minimum", "digits"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", LK_E_UNSUPPORTED, "/oneOf/1",
     "'oneOf' cannot be enforced"},
    {"{\"oneOf\":[{\"type\":\"object\",\"required\":[\"a\"]},{\"type\":\"object\",\"required\":["
     "\"b\"]}]}",
     LK_E_UNSUPPORTED, "/oneOf/1", "'oneOf'"},
    {"{\"oneOf\":[{\"enum\":[1,2]},{\"type\":\"integer\"}]}", LK_E_UNSUPPORTED, "/oneOf/1",
     "'oneOf'"},
    {"{\"not\":{\"minimum\":1}}", LK_E_UNSUPPORTED, "/not", "'not' cannot be enforced"},
    {"{\"$ref\":\"#/nowhere\"}", LK_E_UNSUPPORTED, "/$ref", "nothing inside this schema"},
    {"{\"$ref\":\"other.json\"}", LK_E_UNSUPPORTED, "/$ref", "nothing inside this schema"},
    {"{\"$ref\":\"#/title\",\"title\":\"x\"}", LK_E_FORMAT, "/$ref", "no schema"},
    {"{\"$ref\":\"#\"}", LK_E_UNSUPPORTED, "", "lead back here"},
    {"{\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/b\"}]},\"b\":{\"$ref\":\"#/$defs/a\"}},"
     "\"$ref\":\"#/$defs/a\"}",
     LK_E_UNSUPPORTED, "/$defs/a", "lead back here"},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"}]}}}",
     LK_E_UNSUPPORTED, "/$defs/a", "lead back here"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
     LK_E_FORMAT, "the schema", "no text"},
    {"{\"type\":\"object\",\"patternProperties\":{\"a\":{},\"b\":{}}}", LK_E_UNSUPPORTED,
     "/patternProperties/a", "two patterns"},
    {"{\"type\":\"object\",\"minProperties\":2}", LK_E_UNSUPPORTED, "/minProperties",
     "'minProperties' cannot be enforced"},
    {"{\"type\":\"object\",\"propertyNames\":{\"anyOf\":[{\"const\":\"a\"}]}}", LK_E_UNSUPPORTED,
     "/propertyNames", "'propertyNames'"},
    {"{\"type\":\"string\",\"enum\":[1,2]}", LK_E_FORMAT, "the schema", "no text"},
    {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", LK_E_FORMAT, "the schema", "no text"},
    {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", LK_E_FORMAT, "the schema",
     "no text"},
    {"{\"anyOf\":[]}", LK_E_FORMAT, "/anyOf", "not empty"},
    {"{\"properties\":{\"a\":1}}", LK_E_FORMAT, "/properties", "an object of schemas"},
    {"{\"required\":\"a\"}", LK_E_FORMAT, "/required", "an array of strings"},
    {"{\"exclusiveMinimum\":true,\"minimum\":1}", LK_E_FORMAT, "/exclusiveMinimum", "a number"},
};

LK_TEST(what_cannot_be_enforced_is_named) {
    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        lk_grammar *g = NULL;
        lk_error err = {0};
        const char *schema = bad_rows[i].schema;
        const lk_status status =
            lk_grammar_create_json_schema(schema, strlen(schema), NULL, &g, &err);
        CHECK_MSG(status == bad_rows[i].status && g == NULL &&
                      strcmp(err.subject, bad_rows[i].pointer) == 0 &&
                      strstr(err.message, bad_rows[i].words) != NULL,
                  "%s: %s at '%s': %s", schema, lk_status_name(status), err.subject, err.message);
        lk_grammar_destroy(g);
    }
}

/* Combinations that grow without end are refused. */
LK_TEST(limits) {
    lk_error err = {0};
    lk_grammar *g = NULL;
    char *text = malloc(1 << 16);
    size_t n = (size_t)snprintf(text, 1 << 16, "{\"allOf\":[");
    for (int i = 0; i < 16; i++) { /* 2^16 ways to choose */
        n += (size_t)snprintf(text + n, (1 << 16) - n,
                              "%s{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}",
                              i != 0 ? "," : "", i, 100 + i);
    }
    n += (size_t)snprintf(text + n, (1 << 16) - n, "]}");
    CHECK_STATUS(LK_E_LIMIT, lk_grammar_create_json_schema(text, n, NULL, &g, &err));
    CHECK(strstr(err.message, "combinations") != NULL && g == NULL);
    n = (size_t)snprintf(text, 1 << 16, "{\"allOf\":[");
    for (int i = 0; i < 70; i++) {
        n += (size_t)snprintf(text + n, (1 << 16) - n, "%s{\"minimum\":%d}", i != 0 ? "," : "", i);
    }
    n += (size_t)snprintf(text + n, (1 << 16) - n, "]}");
    CHECK_STATUS(LK_E_LIMIT, lk_grammar_create_json_schema(text, n, NULL, &g, &err));
    memset(text, '[', 1000);
    CHECK_STATUS(LK_E_LIMIT, lk_grammar_create_json_schema(text, 1000, NULL, &g, &err));
    free(text);
    CHECK_STATUS(LK_E_ARG, lk_grammar_create_json_schema(NULL, 1, NULL, &g, &err));
}

LK_TEST(every_failing_allocation) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^a+b?$\","
        "\"maxLength\":4},\"b\":{\"enum\":[1,\"x\"]},\"c\":{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":"
        "\"null\"}]}},\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"integer\","
        "\"minimum\":3}}";
    for (uint64_t n = 1;; n++) {
        lk_test_allocator a;
        lk_test_allocator_init(&a);
        a.fail_at = n;
        lk_grammar *g = NULL;
        lk_error err = {0};
        const lk_status status =
            lk_grammar_create_json_schema(schema, strlen(schema), &a.base, &g, &err);
        CHECK_MSG(status == LK_OK || (status == LK_E_NOMEM && g == NULL), "%s", err.message);
        lk_grammar_destroy(g);
        CHECK(a.n_live == 0);
        if (status == LK_OK) {
            CHECK(n > 50);
            break;
        }
    }
}

LK_TEST_MAIN(LK_RUN(keywords), LK_RUN(json_object), LK_RUN(what_cannot_be_enforced_is_named),
             LK_RUN(limits), LK_RUN(every_failing_allocation))
