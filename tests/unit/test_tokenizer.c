/* test_tokenizer.c - the tokenizers on toy vocabularies: added tokens, flags, unknown characters,
 * decoding, damaged vocabularies, limits. */
#include "lk/tokenizer.h"
#include "lk_test.h"
#include "toy_vocab.h"

#define SPACE "\xE2\x96\x81"

/* Encodes and compares; the expected ids end with -1. */
static void check_ids(const char *file, int line, const lk_tokenizer *t, const char *text, size_t n,
                      uint32_t flags, const int32_t *expected) {
    int32_t ids[256];
    size_t n_ids = 0, n_expected = 0;
    lk_error err = {0};
    while (expected[n_expected] >= 0) {
        n_expected++;
    }
    const lk_status status = lk_tokenizer_encode(t, text, n, flags, ids, 256, &n_ids, &err);
    if (status != LK_OK || n_ids != n_expected ||
        memcmp(ids, expected, n_ids * sizeof ids[0]) != 0) {
        char got[512] = "";
        for (size_t i = 0, at = 0; i < n_ids && at < sizeof got - 12; i++) {
            at += (size_t)snprintf(got + at, sizeof got - at, " %d", (int)ids[i]);
        }
        lk_test_fail(file, line, "\"%s\" gives %zu ids%s %s", text, n_ids, got, err.message);
    }
}
#define IDS(t, text, flags, ...)                                                                   \
    check_ids(__FILE__, __LINE__, t, text, strlen(text), flags, (const int32_t[]){__VA_ARGS__, -1})

static void check_text(const char *file, int line, const lk_tokenizer *t, uint32_t flags,
                       const char *expected, const int32_t *ids, size_t n_ids) {
    char text[256];
    size_t n = 0;
    lk_error err = {0};
    const lk_status status = lk_tokenizer_decode(t, ids, n_ids, flags, text, sizeof text, &n, &err);
    if (status != LK_OK || n != strlen(expected) || memcmp(text, expected, n) != 0) {
        lk_test_fail(file, line, "decoded to \"%.*s\", expected \"%s\" %s", (int)n, text, expected,
                     err.message);
    }
}
#define TEXT(t, flags, expected, ...)                                                              \
    check_text(__FILE__, __LINE__, t, flags, expected, (const int32_t[]){__VA_ARGS__},             \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Byte level: 256 bytes, then 256 "ab", 257 "abc", 258 " a", 259 <s>, 260 <s>>, 261 <think>, 262 é
 * as NFC. */
static toy *byte_level(const char *pre) {
    toy *t = toy_new("gpt2", pre);
    toy_add_bytes(t);
    (void)toy_token(t, "ab", LK_TOKEN_NORMAL, 0.0F);
    (void)toy_token(t, "abc", LK_TOKEN_NORMAL, 0.0F);
    (void)toy_token(t,
                    "\xC4\xA0"
                    "a",
                    LK_TOKEN_NORMAL, 0.0F);
    (void)toy_token(t, "<s>", LK_TOKEN_CONTROL, 0.0F);
    (void)toy_token(t, "<s>>", LK_TOKEN_CONTROL, 0.0F);
    (void)toy_token(t, "<think>", LK_TOKEN_USER_DEFINED, 0.0F);
    (void)toy_token(t, "\xC3\x83\xC2\xA9", LK_TOKEN_NORMAL, 0.0F);
    toy_merge(t, "a b");
    toy_merge(t, "ab c");
    toy_merge(t, "\xC4\xA0 a");
    toy_merge(t, "\xC3\x83 \xC2\xA9");
    t->source.bos = 259;
    t->source.eos = 260;
    return t;
}

LK_TEST(byte_level_words) {
    toy *y = byte_level("gpt-2");
    lk_tokenizer *t = toy_open(y, NULL);
    IDS(t, "abc", 0, 257);
    IDS(t, "abcab", 0, 257, 256);
    IDS(t, "ba", 0, 'b', 'a');
    IDS(t, " a ab", 0, 258, ' ', 256); /* "ab" has the lower rank */
    IDS(t, "\xC3\xA9", 0, 262);
    check_ids(__FILE__, __LINE__, t, "\0a\xFF", 3, 0,
              (const int32_t[]){0, 'a', 0xEF, 0xBF, 0xBD, -1});
    CHECK(strcmp(lk_tokenizer_kind(t), "gpt2") == 0 && strcmp(lk_tokenizer_pre(t), "gpt-2") == 0);
    CHECK(lk_tokenizer_n_vocab(t) == 263);
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(added_tokens) {
    toy *y = byte_level("gpt-2");
    y->source.add_bos = 1;
    y->source.add_eos = 1;
    lk_tokenizer *t = toy_open(y, NULL);
    IDS(t, "a<s>b", LK_TOKENIZE_PARSE_SPECIAL, 'a', 259, 'b');
    IDS(t, "<s>>>", LK_TOKENIZE_PARSE_SPECIAL, 260, '>'); /* the longest one */
    IDS(t, "<s<s>", LK_TOKENIZE_PARSE_SPECIAL, '<', 's', 259);
    IDS(t, "<s>", 0, '<', 's', '>');
    IDS(t, "x<think><s>", 0, 'x', 261, '<', 's', '>');
    IDS(t, "<think>", LK_TOKENIZE_PLAIN, '<', 't', 'h', 'i', 'n', 'k', '>');
    IDS(t, "ab", LK_TOKENIZE_ADD_SPECIAL, 259, 256, 260);
    IDS(t, "", LK_TOKENIZE_ADD_SPECIAL, 259, 260);
    IDS(t, "<s>", LK_TOKENIZE_ADD_SPECIAL | LK_TOKENIZE_PARSE_SPECIAL, 259, 259, 260);
    check_ids(__FILE__, __LINE__, t, NULL, 0, 0, (const int32_t[]){-1});
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(flags_of_pre_splitters) {
    static const char decomposed[] = "e\xCC\x81"; /* é as two characters */
    toy *y = byte_level("gpt-2");
    lk_tokenizer *t = toy_open(y, NULL);
    IDS(t, decomposed, 0, 'e', 0xCC, 0x81);
    CHECK(!lk_tokenizer_adds_bos(t) && !lk_tokenizer_adds_eos(t));
    lk_tokenizer_close(t);
    y->source.pre = "qwen2";
    t = toy_open(y, NULL);
    IDS(t, decomposed, 0, 262);
    IDS(t, "\xC3\xA9", 0, 262);
    lk_tokenizer_close(t);
    y->source.pre = "llama3"; /* an alias; whole words are taken as they are, BOS is added */
    y->source.n_merges = 1;
    t = toy_open(y, NULL);
    CHECK(strcmp(lk_tokenizer_pre(t), "llama-bpe") == 0);
    CHECK(lk_tokenizer_adds_bos(t) && !lk_tokenizer_adds_eos(t));
    IDS(t, "abc", 0, 257);
    IDS(t, "abcd", 0, 256, 'c', 'd');
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(capacity_and_arguments) {
    toy *y = byte_level("gpt-2");
    lk_tokenizer *t = toy_open(y, NULL);
    int32_t ids[4] = {-7, -7, -7, -7};
    size_t n = 99;
    lk_error err = {0};
    CHECK_STATUS(LK_E_LIMIT, lk_tokenizer_encode(t, "xyz", 3, 0, ids, 2, &n, &err));
    CHECK(n == 3 && ids[0] == 'x' && ids[1] == 'y' && ids[2] == -7);
    CHECK_STATUS(LK_E_LIMIT, lk_tokenizer_encode(t, "xyz", 3, 0, NULL, 0, &n, NULL));
    CHECK(n == 3);
    CHECK_STATUS(LK_E_ARG, lk_tokenizer_encode(t, NULL, 3, 0, ids, 4, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_tokenizer_encode(t, "x", 1, 8, ids, 4, &n, &err));
    CHECK_STATUS(LK_E_ARG,
                 lk_tokenizer_encode(t, "x", 1, LK_TOKENIZE_PLAIN | LK_TOKENIZE_PARSE_SPECIAL, ids,
                                     4, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_tokenizer_encode(t, "x", 1, 0, ids, 4, NULL, &err));
    CHECK_STATUS(LK_E_ARG, lk_tokenizer_encode(NULL, "x", 1, 0, ids, 4, &n, &err));
    CHECK_STATUS(LK_E_LIMIT,
                 lk_tokenizer_encode(t, "x", LK_MAX_TEXT_BYTES + 1, 0, ids, 4, &n, &err));
    char bytes[4] = "....";
    CHECK_STATUS(LK_E_LIMIT,
                 lk_tokenizer_decode(t, (const int32_t[]){257, 257}, 2, 0, bytes, 4, &n, &err));
    CHECK(n == 6 && memcmp(bytes, "abca", 4) == 0);
    CHECK_STATUS(LK_E_ARG, lk_tokenizer_decode(t, (const int32_t[]){-1}, 1, 0, bytes, 4, &n, &err));
    CHECK(n == 0);
    CHECK_STATUS(LK_E_ARG,
                 lk_tokenizer_decode(t, (const int32_t[]){263}, 1, 0, bytes, 4, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_tokenizer_token_bytes(t, INT32_MAX, 0, bytes, 4, &n, &err));
    CHECK_STATUS(LK_E_ARG, lk_tokenizer_token_bytes(t, 1, 64, bytes, 4, &n, &err));
    lk_tokenizer_close(t);
    lk_tokenizer_close(NULL);
    free(y);
}

LK_TEST(questions) {
    toy *y = byte_level("gpt-2");
    (void)toy_token(y, "<|im_end|>", LK_TOKEN_CONTROL, 0.0F); /* 263 */
    (void)toy_token(y, "<|eot_id|>", LK_TOKEN_NORMAL, 0.0F);  /* 264: no control token */
    (void)toy_token(y, "ab", LK_TOKEN_NORMAL, 0.0F);          /* 265: a second one */
    y->source.eot = 261;
    lk_tokenizer *t = toy_open(y, NULL);
    size_t n = 0;
    CHECK(lk_tokenizer_bos(t) == 259 && lk_tokenizer_eos(t) == 260);
    CHECK(lk_tokenizer_is_end(t, 260) && lk_tokenizer_is_end(t, 261) &&
          lk_tokenizer_is_end(t, 263));
    CHECK(!lk_tokenizer_is_end(t, 259) && !lk_tokenizer_is_end(t, 264) &&
          !lk_tokenizer_is_end(t, -1));
    CHECK(lk_tokenizer_find(t, "ab", 2) == 256 && lk_tokenizer_find(t, "nothing", 7) == -1);
    CHECK(lk_tokenizer_find(t, NULL, 0) == -1 && lk_tokenizer_find(t, "", 0) == -1);
    const char *text = lk_tokenizer_token_text(t, 258, &n);
    CHECK(text != NULL && n == 3 &&
          memcmp(text,
                 "\xC4\xA0"
                 "a",
                 3) == 0);
    CHECK(lk_tokenizer_token_text(t, 266, &n) == NULL && n == 0);
    CHECK(lk_tokenizer_token_type(t, 259) == LK_TOKEN_CONTROL);
    CHECK(lk_tokenizer_token_type(t, -1) == LK_TOKEN_UNUSED);
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(byte_level_decoding) {
    toy *y = byte_level("gpt-2");
    (void)toy_token(y, "\xE4\xB8\xAD", LK_TOKEN_NORMAL, 0.0F); /* 263: no byte character */
    lk_tokenizer *t = toy_open(y, NULL);
    TEXT(t, 0, " aab", 258, 256);
    TEXT(t, 0, "\xC3\xA9", 0xC3, 0xA9);
    TEXT(t, 0, "x<think>", 259, 'x', 261); /* control tokens give nothing */
    TEXT(t, LK_DETOKENIZE_SPECIAL, "<s>x", 259, 'x');
    TEXT(t, 0, "\xE4\xB8\xAD", 263);
    char byte = 0;
    size_t n = 0;
    lk_error err = {0};
    for (int32_t id = 0; id < 256; id++) {
        REQUIRE_OK(lk_tokenizer_token_bytes(t, id, 0, &byte, 1, &n, &err), err);
        CHECK(n == 1 && (uint8_t)byte == id);
    }
    lk_tokenizer_close(t);
    free(y);
}

/* SPM: 0 <unk>, 1 <s>, 2 space, 3 a, 4 b, 5 ab, 6 space-a, 7 space-ab, 8 two spaces, 9 <x> (user).
 */
static toy *spm(void) {
    toy *t = toy_new("llama", NULL);
    (void)toy_token(t, "<unk>", LK_TOKEN_UNKNOWN, 0.0F);
    (void)toy_token(t, "<s>", LK_TOKEN_CONTROL, 0.0F);
    (void)toy_token(t, SPACE, LK_TOKEN_NORMAL, -20.0F);
    (void)toy_token(t, "a", LK_TOKEN_NORMAL, -21.0F);
    (void)toy_token(t, "b", LK_TOKEN_NORMAL, -22.0F);
    (void)toy_token(t, "ab", LK_TOKEN_NORMAL, -2.0F);
    (void)toy_token(t, SPACE "a", LK_TOKEN_NORMAL, -1.0F);
    (void)toy_token(t, SPACE "ab", LK_TOKEN_NORMAL, -3.0F);
    (void)toy_token(t, SPACE SPACE, LK_TOKEN_NORMAL, -4.0F);
    (void)toy_token(t, "<x>", LK_TOKEN_USER_DEFINED, 0.0F);
    t->source.unknown = 0;
    t->source.bos = 1;
    return t;
}

LK_TEST(spm_words) {
    toy *y = spm();
    lk_tokenizer *t = toy_open(y, NULL);
    CHECK(strcmp(lk_tokenizer_kind(t), "llama") == 0 && strcmp(lk_tokenizer_pre(t), "") == 0);
    IDS(t, "ab", 0, 7);
    IDS(t, "ab", LK_TOKENIZE_ADD_SPECIAL, 1, 7); /* BOS is added unless the file says no */
    IDS(t, "b", 0, 2, 4);
    IDS(t, "bab", 0, 2, 4, 5);
    IDS(t, " ", 0, 8); /* one for the prefix */
    check_ids(__FILE__, __LINE__, t, "", 0, 0, (const int32_t[]){-1});
    IDS(t, SPACE "a", 0, 2, 6);  /* the model's own space is a space */
    IDS(t, "a<x>a", 0, 6, 9, 6); /* the prefix comes after an added token too */
    IDS(t, "a<s>a", LK_TOKENIZE_PARSE_SPECIAL, 6, 1, 6);
    IDS(t, "a<x>a", LK_TOKENIZE_PLAIN, 6, 0,
        3); /* "<", "x", ">" together are one unknown stretch */
    IDS(t, "a??b?", 0, 6, 0, 4, 0);
    lk_tokenizer_close(t);
    y->source.add_space_prefix = 0;
    y->source.add_bos = 0;
    t = toy_open(y, NULL);
    IDS(t, "ab", LK_TOKENIZE_ADD_SPECIAL, 5);
    IDS(t, " ab", 0, 7);
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(spm_byte_fallback) {
    toy *y = spm();
    toy_add_byte_tokens(y); /* 10 + byte */
    lk_tokenizer *t = toy_open(y, NULL);
    IDS(t, "a\xC3\xA9", 0, 6, 10 + 0xC3, 10 + 0xA9);
    IDS(t, "a<0x41>", 0, 6, 10 + '<', 10 + '0', 10 + 'x', 10 + '4', 10 + '1', 10 + '>');
    check_ids(__FILE__, __LINE__, t, "\0", 1, 0, (const int32_t[]){2, 10, -1});
    IDS(t, "\xED\xA0\x80", 0, 2, 10 + 0xEF, 10 + 0xBF, 10 + 0xBD, 10 + 0xEF, 10 + 0xBF, 10 + 0xBD,
        10 + 0xEF, 10 + 0xBF, 10 + 0xBD); /* a surrogate: three ill-formed bytes */
    TEXT(t, 0, "a\xC3\xA9", 6, 10 + 0xC3, 10 + 0xA9);
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(spm_without_a_way_out) {
    toy *y = spm();
    y->source.unknown = -1;
    lk_tokenizer *t = toy_open(y, NULL);
    int32_t ids[8];
    size_t n = 9;
    lk_error err = {0};
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_tokenizer_encode(t, "a\xE2\x82\xAC", 4, 0, ids, 8, &n, &err));
    CHECK(n == 0 && strstr(err.message, "U+20AC") != NULL);
    lk_tokenizer_close(t);
    free(y);
    y = toy_new("gpt2", "gpt-2");
    (void)toy_token(y, "a", LK_TOKEN_NORMAL, 0.0F);
    t = toy_open(y, NULL);
    IDS(t, "aa", 0, 0, 0);
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_tokenizer_encode(t, "ab", 2, 0, ids, 8, &n, &err));
    CHECK(strstr(err.message, "0x62") != NULL);
    lk_tokenizer_close(t);
    y->source.unknown = 0;
    t = toy_open(y, NULL);
    IDS(t, "ab", 0, 0, 0);
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(spm_unused_tokens) {
    toy *y = spm();
    (void)toy_token(y, "aa", LK_TOKEN_UNUSED, -0.5F); /* 10: only a step on the way to 11 */
    (void)toy_token(y, "aab", LK_TOKEN_NORMAL, -0.25F);
    y->source.add_space_prefix = 0;
    lk_tokenizer *t = toy_open(y, NULL);
    IDS(t, "aab", 0, 11);
    IDS(t, "aa", 0, 3, 3); /* taken apart again */
    IDS(t, "aaaa", 0, 3, 3, 3, 3);
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST(spm_decoding) {
    toy *y = spm();
    lk_tokenizer *t = toy_open(y, NULL);
    TEXT(t, 0, "ab a", 7, 6);
    TEXT(t, LK_DETOKENIZE_KEEP_SPACE, " ab a", 7, 6);
    TEXT(t, 0, "ab", 1, 7); /* the space of the first text, not of the first token */
    TEXT(t, LK_DETOKENIZE_SPECIAL, "<s> ab", 1, 7);
    TEXT(t, 0, " a", 8, 3);
    TEXT(t, 0, "a", 3, 0); /* the unknown token gives nothing */
    char bytes[8];
    size_t n = 0;
    lk_error err = {0};
    REQUIRE_OK(lk_tokenizer_token_bytes(t, 7, 0, bytes, 8, &n, &err), err);
    CHECK(n == 3 && memcmp(bytes, " ab", 3) == 0);
    lk_tokenizer_close(t);
    y->source.add_space_prefix = 0;
    t = toy_open(y, NULL);
    TEXT(t, 0, " ab a", 7, 6);
    lk_tokenizer_close(t);
    free(y);
}

/* A toy with one thing wrong must be refused with this status and a message that has this in it. */
static void refuses(int line, toy *y, lk_status expected, const char *what) {
    lk_tokenizer *t = NULL;
    lk_error err = {0};
    const lk_status status = lk_tokenizer_create(&y->source, NULL, &t, &err);
    if (status != expected || t != NULL || strstr(err.message, what) == NULL) {
        lk_test_fail(__FILE__, line, "%s: %s, expected %s with \"%s\"", lk_status_name(status),
                     err.message, lk_status_name(expected), what);
    }
    lk_tokenizer_close(t);
    free(y);
}
#define REFUSES(change, status, what)                                                              \
    do {                                                                                           \
        toy *y = byte_level("gpt-2");                                                              \
        change;                                                                                    \
        refuses(__LINE__, y, status, what);                                                        \
    } while (0)

LK_TEST(damaged_vocabularies) {
    static char huge[LK_MAX_TOKEN_BYTES + 2];
    memset(huge, 'x', sizeof huge - 1);
    REFUSES(y->source.kind = "bert", LK_E_UNSUPPORTED, "\"bert\"");
    REFUSES(y->source.kind = NULL, LK_E_UNSUPPORTED, "unknown kind");
    REFUSES(y->source.pre = "mine", LK_E_UNSUPPORTED, "\"mine\"");
    REFUSES(y->source.pre = "", LK_E_UNSUPPORTED, "\"\"");
    REFUSES(y->source.pre = "llama3 llama-v3", LK_E_UNSUPPORTED, "llama3");
    REFUSES(y->source.n_tokens = 0, LK_E_FORMAT, "0 tokens");
    REFUSES(y->source.n_tokens = LK_MAX_VOCAB + 1, LK_E_LIMIT, "4194305 tokens");
    REFUSES(y->source.n_merges = LK_MAX_MERGES + 1, LK_E_LIMIT, "merges");
    REFUSES(y->source.bos = 263, LK_E_FORMAT, "263");
    REFUSES(y->source.eos = -2, LK_E_FORMAT, "-2");
    REFUSES(y->source.unknown = INT64_MAX, LK_E_FORMAT, "vocabulary");
    REFUSES((void)toy_token(y, "?", (lk_token_type)7, 0.0F), LK_E_FORMAT, "type 7");
    REFUSES((void)toy_token(y, "?", (lk_token_type)0, 0.0F), LK_E_FORMAT, "type 0");
    REFUSES((void)toy_token(y, huge, LK_TOKEN_NORMAL, 0.0F), LK_E_LIMIT, "1025 bytes");
    REFUSES(toy_merge(y, "ab nothing"), LK_E_FORMAT, "not in the vocabulary");
    REFUSES(toy_merge(y, "b a"), LK_E_FORMAT, "\"b a\"");
    REFUSES(toy_merge(y, "abc"), LK_E_FORMAT, "merge 4");
    REFUSES(toy_merge(y, "a "), LK_E_FORMAT, "merge 4");
    REFUSES(toy_merge(y, " a"), LK_E_FORMAT, "merge 4");
    REFUSES(toy_merge(y, ""), LK_E_FORMAT, "merge 4");
    REFUSES(y->source.kind = "llama";
            lk_store_u32(y->scores + 40, 0x7FC00000u), LK_E_FORMAT, "token 10");
}

/* Texts and merges chosen so that look-ups begin at the same slot: bounded, or refused, never slow.
 */
LK_TEST(colliding_vocabularies) {
    for (size_t n_wanted = 200; n_wanted <= 300; n_wanted += 100) { /* 256 probes are allowed */
        toy *y = toy_new("gpt2", "gpt-2");
        for (uint32_t i = 0, n = 0; n < n_wanted; i++) {
            char text[16];
            (void)snprintf(text, sizeof text, "t%lu", (unsigned long)i);
            if ((lk_strings_hash((const uint8_t *)text, strlen(text)) & 1023u) == 77) {
                (void)toy_token(y, text, LK_TOKEN_NORMAL, 0.0F);
                n++;
            }
        }
        if (n_wanted > LK_MAX_PROBES) {
            refuses(__LINE__, y, LK_E_LIMIT, "collide");
            continue;
        }
        lk_tokenizer *t = toy_open(y, NULL);
        CHECK(lk_tokenizer_find(t, y->tokens[n_wanted - 1], y->token_bytes[n_wanted - 1]) ==
              (int32_t)n_wanted - 1);
        CHECK(lk_tokenizer_find(t, "t?", 2) == -1);
        lk_tokenizer_close(t);
        free(y);
    }
}

LK_TEST(colliding_merges) {
    for (size_t n_wanted = 200; n_wanted <= 300; n_wanted += 100) {
        toy *y = toy_new("gpt2", "gpt-2");
        for (unsigned i = 0; i < 800; i++) {
            char text[8];
            (void)snprintf(text, sizeof text, "%03x", i);
            (void)toy_token(y, text, LK_TOKEN_NORMAL, 0.0F);
        }
        for (uint32_t i = 0, n = 0; n < n_wanted; i++) {
            const uint32_t left = i / 800, right = i % 800;
            char text[16];
            if ((lk_merge_hash(left, right) & 1023u) == 5) {
                (void)snprintf(text, sizeof text, "%03x%03x", (unsigned)left, (unsigned)right);
                (void)toy_token(y, text, LK_TOKEN_NORMAL, 0.0F);
                (void)snprintf(text, sizeof text, "%03x %03x", (unsigned)left, (unsigned)right);
                toy_merge(y, text);
                n++;
            }
        }
        if (n_wanted > LK_MAX_PROBES) {
            refuses(__LINE__, y, LK_E_LIMIT, "merges collide");
            continue;
        }
        lk_tokenizer_close(toy_open(y, NULL));
        free(y);
    }
}

LK_TEST(odd_but_usable_vocabularies) {
    toy *y = byte_level("gpt-2");
    (void)toy_bytes(y, "", 0, LK_TOKEN_NORMAL, 0.0F);           /* 263: nothing */
    (void)toy_bytes(y, "", 0, LK_TOKEN_CONTROL, 0.0F);          /* 264: nothing, but special */
    (void)toy_bytes(y, "\xE2\x82", 2, LK_TOKEN_CONTROL, 0.0F);  /* 265: half a character */
    (void)toy_bytes(y, "a\0b", 3, LK_TOKEN_USER_DEFINED, 0.0F); /* 266 */
    (void)toy_bytes(y, "<s>", 3, LK_TOKEN_USER_DEFINED, 0.0F);  /* 267: the same as 259 */
    toy_merge(y, "a b");                                        /* twice: the last rank counts */
    lk_tokenizer *t = toy_open(y, NULL);
    IDS(t, "\xE2\x82\xAC", LK_TOKENIZE_PARSE_SPECIAL, 0xE2, 0x82, 0xAC);
    IDS(t, "<s>", LK_TOKENIZE_PARSE_SPECIAL, 259);
    IDS(t, " ab", 0, 258, 'b');
    check_ids(__FILE__, __LINE__, t, "xa\0b", 4, 0, (const int32_t[]){'x', 266, -1});
    TEXT(t, LK_DETOKENIZE_SPECIAL, "", 263, 264);
    lk_tokenizer_close(t);
    y->source.types = NULL; /* all normal then */
    t = toy_open(y, NULL);
    IDS(t, "<s>", LK_TOKENIZE_PARSE_SPECIAL, '<', 's', '>');
    lk_tokenizer_close(t);
    free(y);
    y = spm();
    y->source.scores = NULL; /* all equal then: leftmost first */
    t = toy_open(y, NULL);
    IDS(t, "ab", 0, 7);
    lk_tokenizer_close(t);
    free(y);
}

LK_TEST_MAIN(LK_RUN(byte_level_words), LK_RUN(added_tokens), LK_RUN(flags_of_pre_splitters),
             LK_RUN(capacity_and_arguments), LK_RUN(questions), LK_RUN(byte_level_decoding),
             LK_RUN(spm_words), LK_RUN(spm_byte_fallback), LK_RUN(spm_without_a_way_out),
             LK_RUN(spm_unused_tokens), LK_RUN(spm_decoding), LK_RUN(damaged_vocabularies),
             LK_RUN(colliding_vocabularies), LK_RUN(colliding_merges),
             LK_RUN(odd_but_usable_vocabularies))
