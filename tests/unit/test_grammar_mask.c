/* test_grammar_mask.c - masks and samplers under a grammar. A mask must equal what trying each
 * token of the vocabulary byte by byte gives, in states that random walks reach, with short and
 * with huge counts, from a cold and from a warm cache. */
#include <math.h>

#include "grammar/matcher.h"
#include "lk_test.h"
#include "toy_vocab.h"

static lk_grammar *compile(const char *text) {
    lk_grammar *g = NULL;
    lk_error err = {0};
    REQUIRE_OK(lk_grammar_create_gbnf(text, strlen(text), NULL, &g, &err), err);
    return g;
}

/* A vocabulary of all bytes, of random pieces of the texts that the grammars speak of, of a long
 * token, of equal ones, and of tokens that may never be allowed. */
static lk_tokenizer *make_vocabulary(uint64_t *random, int has_end) {
    static const char source[] =
        "the quick {\"name\": \"J\xC3\xA9r\xC3\xB4me\", \"n\": [1, 22, 333]}\n"
        "((aaabbb))\xE4\xB8\xAD\xE6\x96\x87 -- end, aaaaaaaaaaaaaaaa true false";
    toy *t = toy_new("llama", NULL);
    lk_tokenizer *out = NULL;
    lk_error err = {0};
    (void)toy_bytes(t, "<unk>", 5, LK_TOKEN_UNKNOWN, 0.0F);
    (void)toy_bytes(t, "<ctl>", 5, LK_TOKEN_CONTROL, 0.0F);
    if (has_end) {
        t->source.eos = toy_bytes(t, "</s>", 4, LK_TOKEN_CONTROL, 0.0F);
    }
    t->source.unknown = 0;
    t->source.add_space_prefix = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        (void)snprintf(text, sizeof text, "<0x%02X>", byte);
        (void)toy_bytes(t, text, 6, LK_TOKEN_BYTE, 0.0F);
    }
    for (int i = 0; i < 700; i++) {
        size_t begin = (size_t)(lk_test_random(random) % (sizeof source - 1));
        size_t n = 1 + (size_t)(lk_test_random(random) % 12);
        while (begin > 0 && ((uint8_t)source[begin] & 0xC0u) == 0x80) {
            begin--;
        }
        n = n < sizeof source - 1 - begin ? n : sizeof source - 1 - begin;
        while (begin + n < sizeof source - 1 && ((uint8_t)source[begin + n] & 0xC0u) == 0x80) {
            n++;
        }
        (void)toy_bytes(t, source + begin, n,
                        i % 50 == 0   ? LK_TOKEN_USER_DEFINED
                        : i % 51 == 0 ? LK_TOKEN_UNUSED
                                      : LK_TOKEN_NORMAL,
                        -(float)i);
    }
    REQUIRE_OK(lk_tokenizer_create(&t->source, NULL, &out, &err), err);
    free(t);
    return out;
}

static int is_set(const uint32_t *words, uint32_t id) {
    return (int)(words[id / 32] >> (id % 32) & 1u);
}

/* What a token adds to a text, asked from the public API; 0 bytes: never allowed. */
static size_t bytes_of(const lk_tokenizer *t, uint32_t id, char *bytes) {
    size_t n = 0;
    lk_error err = {0};
    const lk_token_type type = lk_tokenizer_token_type(t, (int32_t)id);
    if (type == LK_TOKEN_UNUSED || lk_tokenizer_is_end(t, (int32_t)id)) {
        return 0;
    }
    REQUIRE_OK(lk_tokenizer_token_bytes(t, (int32_t)id, 0, bytes, 2048, &n, &err), err);
    return n;
}

/* The mask of `m` against trying every token on `probe`, which has read the same text. */
static uint32_t compare(lk_matcher *m, lk_matcher *probe, const lk_tokenizer *t, const char *what) {
    const uint32_t *words = NULL;
    lk_error err = {0};
    char bytes[2048];
    uint32_t n_allowed = 0;
    REQUIRE_OK(lk_matcher_mask(m, &words, &err), err);
    for (uint32_t id = 0; id < m->trie->n_vocab; id++) {
        int wanted = 0;
        const size_t n = bytes_of(t, id, bytes);
        if (lk_tokenizer_is_end(t, (int32_t)id)) {
            wanted = probe->places[probe->at].is_end;
        } else if (n != 0) {
            const uint32_t at = probe->at;
            lk_error inner;
            uint32_t next = at;
            wanted = 1;
            for (size_t i = 0; i < n && wanted; i++) {
                REQUIRE_OK(lk_matcher_step(probe, next, probe->grammar->class_of[(uint8_t)bytes[i]],
                                           NULL, &next, &inner),
                           inner);
                wanted = next != LK_DEAD_PLACE;
            }
        }
        CHECK_MSG(is_set(words, id) == wanted, "%s: token %u: %d, wanted %d", what, id,
                  is_set(words, id), wanted);
        n_allowed += is_set(words, id) != 0;
    }
    return n_allowed;
}

/* A random token that the mask allows. */
static uint32_t draw(const uint32_t *words, uint32_t n_vocab, uint32_t n_allowed,
                     uint64_t *random) {
    uint32_t skip = (uint32_t)(lk_test_random(random) % n_allowed);
    for (uint32_t id = 0; id < n_vocab; id++) {
        if (is_set(words, id) && skip-- == 0) {
            return id;
        }
    }
    return 0;
}

static const char *const grammars[] = {
    "root ::= \"{\" ws \"\\\"name\\\":\" ws s (\",\" ws \"\\\"n\\\":\" ws v)? \"}\"\n"
    "s ::= \"\\\"\" [^\"\\\\\\n]* \"\\\"\"\nws ::= [ \\n]{0,3}\n"
    "v ::= \"[\" ws (v (\",\" ws v)*)? \"]\" | [0-9]{1,3} | s",
    "root ::= \"(\" root \")\" | [ab]{0,40} \"c\"?",
    "root ::= [a-z ]{0,100000} \"-\"",
    "root ::= [a-z ]{60,100000} \".\"",
    "root ::= ([a-z]{1,2000} [\\u00e0-\\uffff]{3,50}){2,3}",
    "root ::= (\"aa\" | \"a\"){0,30} \"b\"+ | \"a\"{5,9} \"c\"",
    "root ::= .*",
    "root ::= \"true\" | \"false\" | \"the quick\" [^\\x00-\\x7f]?",
};

LK_TEST(masks_equal_brute_force) {
    uint64_t random = lk_test_seed(11);
    const uint64_t n_walks = lk_test_size(1, 6, 60);
    lk_tokenizer *t = make_vocabulary(&random, 1);
    lk_token_trie *trie = NULL;
    lk_error err = {0};
    uint32_t n_seen = 0;
    REQUIRE_OK(lk_token_trie_create(t, NULL, &trie, &err), err);
    for (size_t g = 0; g < sizeof grammars / sizeof grammars[0]; g++) {
        lk_grammar *grammar = compile(grammars[g]);
        lk_matcher m, probe;
        REQUIRE_OK(lk_matcher_init(&m, grammar, trie, NULL, &err), err);
        for (uint64_t walk = 0; walk < n_walks; walk++) {
            REQUIRE_OK(lk_matcher_init(&probe, grammar, trie, NULL, &err), err);
            lk_matcher_rewind(&m);
            for (int step = 0; step < 40; step++) {
                const uint32_t n_allowed = compare(&m, &probe, t, grammars[g]);
                const uint32_t *words = NULL;
                REQUIRE_OK(lk_matcher_mask(&m, &words, &err), err);
                CHECK(n_allowed > 0); /* all bytes are tokens: there is always a way */
                if (n_allowed == 0) {
                    break;
                }
                const uint32_t token = draw(words, trie->n_vocab, n_allowed, &random);
                REQUIRE_OK(lk_matcher_token(&m, token, &err), err);
                REQUIRE_OK(lk_matcher_token(&probe, token, &err), err);
                CHECK(lk_matcher_progress(&m) == lk_matcher_progress(&probe));
                n_seen++;
                if (m.is_finished) {
                    CHECK(lk_matcher_progress(&m) == LK_GRAMMAR_COMPLETE);
                    break;
                }
            }
            lk_matcher_deinit(&probe);
        }
        lk_matcher_deinit(&m);
        lk_grammar_destroy(grammar);
    }
    CHECK(n_seen > 100 * n_walks / 2);
    lk_token_trie_destroy(trie);
    lk_tokenizer_close(t);
}

/* A real vocabulary of 151,936 tokens, where it is there. */
LK_TEST(masks_of_a_large_vocabulary) {
    const char *path = lk_test_shared("refs/tokenizers/qwen3.vocab.gguf");
    if (path == NULL) {
        (void)printf("no shared reference data: left out\n");
        return;
    }
    lk_tokenizer *t = NULL;
    lk_token_trie *trie = NULL;
    lk_error err = {0};
    uint64_t random = lk_test_seed(12);
    REQUIRE_OK(lk_tokenizer_open(path, NULL, &t, &err), err);
    REQUIRE_OK(lk_token_trie_create(t, NULL, &trie, &err), err);
    const uint64_t n_steps = lk_test_size(1, 6, 60);
    for (size_t g = 0; g < sizeof grammars / sizeof grammars[0]; g++) {
        lk_grammar *grammar = compile(grammars[g]);
        lk_matcher m, probe;
        REQUIRE_OK(lk_matcher_init(&m, grammar, trie, NULL, &err), err);
        REQUIRE_OK(lk_matcher_init(&probe, grammar, trie, NULL, &err), err);
        for (uint64_t step = 0; step < n_steps && !m.is_finished; step++) {
            const uint32_t n_allowed = compare(&m, &probe, t, grammars[g]);
            const uint32_t *words = NULL;
            REQUIRE_OK(lk_matcher_mask(&m, &words, &err), err);
            CHECK(n_allowed > 0);
            const uint32_t token = draw(words, trie->n_vocab, n_allowed, &random);
            REQUIRE_OK(lk_matcher_token(&m, token, &err), err);
            REQUIRE_OK(lk_matcher_token(&probe, token, &err), err);
        }
        lk_matcher_deinit(&probe);
        lk_matcher_deinit(&m);
        lk_grammar_destroy(grammar);
    }
    lk_token_trie_destroy(trie);
    lk_tokenizer_close(t);
}

/* ---- samplers ---- */

enum { PAD = 7 }; /* models have more logits than tokens */

typedef struct bench {
    lk_tokenizer *tokenizer;
    lk_token_trie *trie;
    int32_t n_vocab;
    float *logits;
} bench;

static bench make_bench(int has_end) {
    bench b = {0};
    lk_error err = {0};
    uint64_t random = 5;
    b.tokenizer = make_vocabulary(&random, has_end);
    REQUIRE_OK(lk_token_trie_create(b.tokenizer, NULL, &b.trie, &err), err);
    b.n_vocab = lk_tokenizer_n_vocab(b.tokenizer) + PAD;
    b.logits = calloc((size_t)b.n_vocab, sizeof b.logits[0]);
    return b;
}

static void free_bench(bench *b) {
    free(b->logits);
    lk_token_trie_destroy(b->trie);
    lk_tokenizer_close(b->tokenizer);
}

static lk_sampler *make_sampler(const bench *b, float temperature, const lk_allocator *a) {
    lk_sampler_params params = LK_SAMPLER_PARAMS_INIT;
    lk_sampler *s = NULL;
    lk_error err = {0};
    params.temperature = temperature;
    params.top_k = 0;
    params.top_p = 1.0F;
    params.min_p = 0.0F;
    params.allocator = a;
    REQUIRE_OK(lk_sampler_create(&params, b->n_vocab, &s, &err), err);
    return s;
}

LK_TEST(a_sampler_keeps_to_its_grammar) {
    bench b = make_bench(1);
    lk_grammar *g = compile("root ::= \"a\" [bc] \"d\"?");
    lk_error err = {0};
    for (uint64_t seed = 0; seed < 50; seed++) {
        lk_sampler *s = make_sampler(&b, seed % 2 == 0 ? 1.5F : 0.0F, NULL);
        char text[256];
        size_t n = 0;
        uint64_t random = seed;
        REQUIRE_OK(lk_sampler_accept(s, 1, &err), err); /* of the prompt */
        CHECK(lk_sampler_grammar_progress(s) == LK_GRAMMAR_MAY_END);
        REQUIRE_OK(lk_sampler_set_grammar(s, g, b.trie, &err), err);
        int is_done = 0;
        for (int64_t pos = 0; pos < 10 && !is_done; pos++) {
            lk_sample sample;
            for (int32_t i = 0; i < b.n_vocab; i++) {
                b.logits[i] = (float)(lk_test_random(&random) % 1000) / 50.0F;
            }
            REQUIRE_OK(lk_sampler_sample(s, b.logits, pos, &sample, &err), err);
            REQUIRE_OK(lk_sampler_accept(s, sample.token, &err), err);
            is_done = lk_tokenizer_is_end(b.tokenizer, sample.token);
            if (!is_done) {
                n += bytes_of(b.tokenizer, (uint32_t)sample.token, text + n);
            }
        }
        int good = 0;
        REQUIRE_OK(lk_grammar_accepts(g, text, n, &good, &err), err);
        CHECK_MSG(is_done && good, "%.*s", (int)n, text);
        CHECK(lk_sampler_grammar_progress(s) == LK_GRAMMAR_COMPLETE);
        /* Nothing follows the end; a reset begins anew; without a grammar all is as before. */
        lk_sample sample;
        CHECK_STATUS(LK_E_ARG, lk_sampler_sample(s, b.logits, 11, &sample, &err));
        CHECK_STATUS(LK_E_ARG, lk_sampler_accept(s, 3 + 'a', &err));
        lk_sampler_reset(s);
        CHECK(lk_sampler_grammar_progress(s) == LK_GRAMMAR_OPEN);
        CHECK_STATUS(LK_OK, lk_sampler_accept(s, 3 + 'a', &err));
        REQUIRE_OK(lk_sampler_set_grammar(s, NULL, NULL, &err), err);
        CHECK_STATUS(LK_OK, lk_sampler_accept(s, 3 + 'z', &err));
        lk_sampler_destroy(s);
    }
    lk_grammar_destroy(g);
    free_bench(&b);
}

LK_TEST(refusals) {
    bench b = make_bench(1);
    lk_grammar *g = compile("root ::= \"ab\" \"c\"?");
    lk_error err = {0};
    lk_sample sample;
    lk_sampler *s = make_sampler(&b, 1.0F, NULL);
    const size_t n_words = ((size_t)b.n_vocab + 31) / 32;
    uint32_t *words = calloc(n_words + 1, sizeof words[0]);
    CHECK_STATUS(LK_E_ARG, lk_sampler_grammar_mask(s, words, n_words, &err));
    CHECK_STATUS(LK_E_ARG, lk_sampler_set_grammar(s, g, NULL, &err));
    CHECK_STATUS(LK_E_ARG, lk_sampler_set_grammar(s, NULL, b.trie, &err));
    CHECK_STATUS(LK_E_ARG, lk_sampler_set_grammar(NULL, g, b.trie, &err));
    REQUIRE_OK(lk_sampler_set_grammar(s, g, b.trie, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_sampler_grammar_mask(s, words, n_words + 1, &err));
    REQUIRE_OK(lk_sampler_grammar_mask(s, words, n_words, &err), err);
    CHECK(is_set(words, 3 + 'a') && !is_set(words, 3 + 'b') && !is_set(words, 2));
    /* A token that is not allowed changes nothing. */
    CHECK_STATUS(LK_E_ARG, lk_sampler_accept(s, 3 + 'b', &err));
    CHECK(strstr(err.message, "does not allow token") != NULL);
    CHECK_STATUS(LK_E_ARG, lk_sampler_accept(s, 2, &err));             /* the end, too early */
    CHECK_STATUS(LK_E_ARG, lk_sampler_accept(s, 1, &err));             /* control */
    CHECK_STATUS(LK_E_ARG, lk_sampler_accept(s, b.n_vocab - 1, &err)); /* no token at all */
    REQUIRE_OK(lk_sampler_accept(s, 3 + 'a', &err), err);
    REQUIRE_OK(lk_sampler_accept(s, 3 + 'b', &err), err);
    CHECK(lk_sampler_grammar_progress(s) == LK_GRAMMAR_MAY_END);
    REQUIRE_OK(lk_sampler_grammar_mask(s, words, n_words, &err), err);
    CHECK(is_set(words, 2) && is_set(words, 3 + 'c'));
    REQUIRE_OK(lk_sampler_accept(s, 3 + 'c', &err), err);
    CHECK(lk_sampler_grammar_progress(s) == LK_GRAMMAR_COMPLETE);
    REQUIRE_OK(lk_sampler_sample(s, b.logits, 0, &sample, &err), err);
    CHECK(sample.token == 2 && sample.n_candidates == 1);
    lk_sampler_destroy(s);

    /* A bias that bans what the grammar allows. */
    const lk_logit_bias ban = {2, -INFINITY};
    lk_sampler_params params = LK_SAMPLER_PARAMS_INIT;
    params.logit_bias = &ban;
    params.n_logit_bias = 1;
    REQUIRE_OK(lk_sampler_create(&params, b.n_vocab, &s, &err), err);
    REQUIRE_OK(lk_sampler_set_grammar(s, g, b.trie, &err), err);
    for (const char *c = "abc"; *c != '\0'; c++) {
        REQUIRE_OK(lk_sampler_accept(s, 3 + *c, &err), err);
    }
    CHECK_STATUS(LK_E_ARG, lk_sampler_sample(s, b.logits, 0, &sample, &err));
    CHECK(strstr(err.message, "that the grammar allows") != NULL);
    lk_sampler_destroy(s);
    REQUIRE_OK(lk_sampler_create(&params, 10, &s, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_sampler_set_grammar(s, g, b.trie, &err)); /* a larger vocabulary */
    lk_sampler_destroy(s);
    free_bench(&b);

    /* No end token: the complete text is an error, not a junk token. */
    b = make_bench(0);
    s = make_sampler(&b, 1.0F, NULL);
    REQUIRE_OK(lk_sampler_set_grammar(s, g, b.trie, &err), err);
    for (const char *c = "abc"; *c != '\0'; c++) {
        REQUIRE_OK(lk_sampler_accept(s, 2 + *c, &err), err);
    }
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_sampler_sample(s, b.logits, 0, &sample, &err));
    CHECK(strstr(err.message, "no end token") != NULL);
    lk_sampler_destroy(s);
    lk_grammar_destroy(g);
    free_bench(&b);
    free(words);
}

/* A vocabulary that cannot write what the grammar wants. */
LK_TEST(no_token_is_an_error) {
    toy *t = toy_new("llama", NULL);
    lk_tokenizer *tokenizer = NULL;
    lk_token_trie *trie = NULL;
    lk_sampler *s = NULL;
    lk_sample sample;
    lk_error err = {0};
    const float logits[4] = {0};
    t->source.unknown = toy_bytes(t, "<unk>", 5, LK_TOKEN_UNKNOWN, 0.0F);
    t->source.eos = toy_bytes(t, "</s>", 4, LK_TOKEN_CONTROL, 0.0F);
    (void)toy_bytes(t, "a", 1, LK_TOKEN_NORMAL, 0.0F);
    (void)toy_bytes(t, "b", 1, LK_TOKEN_NORMAL, 0.0F);
    REQUIRE_OK(lk_tokenizer_create(&t->source, NULL, &tokenizer, &err), err);
    REQUIRE_OK(lk_token_trie_create(tokenizer, NULL, &trie, &err), err);
    REQUIRE_OK(lk_sampler_create(NULL, 4, &s, &err), err);
    lk_grammar *g = compile("root ::= \"a\" [x-z]");
    REQUIRE_OK(lk_sampler_set_grammar(s, g, trie, &err), err);
    REQUIRE_OK(lk_sampler_sample(s, logits, 0, &sample, &err), err);
    CHECK(sample.token == 2);
    REQUIRE_OK(lk_sampler_accept(s, 2, &err), err);
    CHECK_STATUS(LK_E_UNSUPPORTED, lk_sampler_sample(s, logits, 1, &sample, &err));
    CHECK(strstr(err.message, "no token of the vocabulary") != NULL);
    lk_sampler_destroy(s);
    lk_grammar_destroy(g);
    lk_token_trie_destroy(trie);
    lk_tokenizer_close(tokenizer);
    free(t);
}

/* What is kept is thrown away when it has grown too large, and that changes nothing. */
LK_TEST(trimming_changes_nothing) {
    bench b = make_bench(1);
    lk_error err = {0};
    lk_grammar *g = compile("root ::= ([a-z]{1,9} \" \"){0,300000} \"end\"");
    lk_matcher m;
    uint64_t random = 3;
    REQUIRE_OK(lk_matcher_init(&m, g, b.trie, NULL, &err), err);
    size_t most = 0;
    size_t n_trims = 0;
    for (int i = 0; i < 400000; i++) {
        const uint8_t byte = i % 4 == 3 ? ' ' : (uint8_t)('a' + lk_test_random(&random) % 26);
        const size_t before = m.n_places;
        REQUIRE_OK(lk_matcher_bytes(&m, &byte, 1, &err), err);
        n_trims += m.n_places < before;
        most = m.n_places > most ? m.n_places : most;
    }
    lk_matcher probe;
    REQUIRE_OK(lk_matcher_init(&probe, g, b.trie, NULL, &err), err);
    for (int i = 0; i < 4; i++) {
        const uint8_t byte = i % 4 == 3 ? ' ' : 'a';
        REQUIRE_OK(lk_matcher_bytes(&probe, &byte, 1, &err), err);
    }
    (void)compare(&m, &probe, b.tokenizer, "after trimming");
    CHECK(n_trims > 0 && most < 1000000);
    lk_matcher_rewind(&m);
    lk_matcher_rewind(&probe);
    (void)compare(&m, &probe, b.tokenizer, "after trimming, at the beginning");
    lk_matcher_deinit(&probe);
    lk_matcher_deinit(&m);
    lk_grammar_destroy(g);
    free_bench(&b);
}

LK_TEST(a_mask_has_a_limit) {
    bench b = make_bench(1);
    lk_error err = {0};
    lk_grammar *g = compile("root ::= (\"a\"{1,9}){1,4000}");
    lk_matcher m;
    const uint32_t *words = NULL;
    lk_status status = LK_OK;
    REQUIRE_OK(lk_matcher_init(&m, g, b.trie, NULL, &err), err);
    int n = 0;
    while (n < 20000 && status == LK_OK) {
        status = lk_matcher_mask(&m, &words, &err);
        n++;
        if (status == LK_OK) {
            status = lk_matcher_bytes(&m, (const uint8_t *)"aaaaaaaaaaaaaaaa", 16, &err);
        }
    }
    CHECK(status == LK_E_LIMIT && n > 10);
    /* The text is where it was. */
    CHECK(lk_matcher_progress(&m) == LK_GRAMMAR_MAY_END);
    lk_matcher_deinit(&m);
    lk_grammar_destroy(g);
    free_bench(&b);
}

/* Work is limited by what the grammar and the text ask for, whether or not it was done before. */
LK_TEST(work_has_a_limit) {
    bench b = make_bench(1);
    lk_error err = {0};
    lk_matcher m;
    const uint32_t *words = NULL;
    enum { N_SAME = 100000, N_NESTS = 10 };
    char *text = malloc(N_SAME * 3 + 64);
    /* Nests whose depth is open: after n letters there are about n * N_NESTS ways. */
    size_t n = (size_t)snprintf(text, 64, "root ::= s0");
    for (int i = 1; i < N_NESTS; i++) {
        n += (size_t)snprintf(text + n, 64, " | s%d", i);
    }
    for (int i = 0; i < N_NESTS; i++) {
        n += (size_t)snprintf(text + n, 64, "\ns%d ::= (. | . .) s%d \"%d\" | \"-\"", i, i, i);
    }
    lk_grammar *g = compile(text);
    REQUIRE_OK(lk_matcher_init(&m, g, b.trie, NULL, &err), err);
    CHECK_STATUS(LK_OK, lk_matcher_mask(&m, &words, &err));
    for (int i = 0; i < 100; i++) {
        REQUIRE_OK(lk_matcher_bytes(&m, (const uint8_t *)"a", 1, &err), err);
    }
    for (int k = 0; k < 8; k++) { /* what the calls before have found does not matter */
        const lk_status status = lk_matcher_mask(&m, &words, &err);
        CHECK_MSG(status == LK_E_LIMIT && strstr(err.message, "next token takes more") != NULL,
                  "call %d: %s: %s", k, lk_status_name(status), err.message);
    }
    lk_matcher_deinit(&m);
    lk_grammar_destroy(g);
    /* The same choice 100,000 times over. */
    n = (size_t)snprintf(text, 64, "root ::= \"a\" x\nx ::= \"b\"");
    for (int i = 0; i < N_SAME; i++, n += 3) {
        memcpy(text + n, "|\"\"", 4);
    }
    g = compile(text);
    free(text);
    REQUIRE_OK(lk_matcher_init(&m, g, b.trie, NULL, &err), err);
    CHECK_STATUS(LK_E_LIMIT, lk_matcher_bytes(&m, (const uint8_t *)"a", 1, &err));
    CHECK(strstr(err.message, "one more byte") != NULL);
    lk_matcher_deinit(&m);
    lk_grammar_destroy(g);
    free_bench(&b);
}

LK_TEST(every_failing_allocation) {
    bench b = make_bench(1);
    lk_grammar *g = compile("root ::= ([a-z]{1,9} \" \"){0,300} \"end\"");
    for (uint64_t n = 1;; n++) {
        lk_test_allocator a;
        lk_test_allocator_init(&a);
        lk_sampler *s = make_sampler(&b, 1.0F, &a.base);
        lk_error err = {0};
        lk_token_trie *trie = NULL;
        a.fail_at = a.n_calls + n;
        lk_status status = lk_token_trie_create(b.tokenizer, &a.base, &trie, &err);
        if (status == LK_OK) {
            status = lk_sampler_set_grammar(s, g, trie, &err);
        }
        for (int64_t pos = 0; pos < 5 && status == LK_OK; pos++) {
            lk_sample sample;
            status = lk_sampler_sample(s, b.logits, pos, &sample, &err);
            if (status == LK_OK) {
                status = lk_sampler_accept(s, sample.token, &err);
            }
            if (status == LK_E_NOMEM) { /* and it goes on when there is memory again */
                CHECK_STATUS(LK_OK, lk_sampler_sample(s, b.logits, pos, &sample, &err));
                CHECK_STATUS(LK_OK, lk_sampler_accept(s, sample.token, &err));
            }
        }
        CHECK(status == LK_OK || status == LK_E_NOMEM);
        lk_sampler_destroy(s);
        lk_token_trie_destroy(trie);
        CHECK(a.n_live == 0);
        if (status == LK_OK) {
            CHECK(n > 20);
            break;
        }
    }
    lk_grammar_destroy(g);
    free_bench(&b);
}

LK_TEST_MAIN(LK_RUN(masks_equal_brute_force), LK_RUN(masks_of_a_large_vocabulary),
             LK_RUN(a_sampler_keeps_to_its_grammar), LK_RUN(refusals), LK_RUN(no_token_is_an_error),
             LK_RUN(trimming_changes_nothing), LK_RUN(a_mask_has_a_limit), LK_RUN(work_has_a_limit),
             LK_RUN(every_failing_allocation))
