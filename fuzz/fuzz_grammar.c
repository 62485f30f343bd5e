/* fuzz_grammar.c - the compilers of grammars and schemas on any bytes. Byte 0: 0 = GBNF, 1 = JSON
 * schema; byte 1: length of a text that is tried against what was compiled; then the text, then the
 * grammar. Invariants: a status with a message, or a grammar that answers; masks over a small
 * vocabulary hold what single bytes say; memory is bounded, all given back. */
#include "fuzz.h"

#include <string.h>

#include "grammar/matcher.h"
#include "toy_vocab.h"

enum { MAX_GRAMMAR = 1 << 12 };

/* All bytes, a few words, an end. Made once and kept. */
static const lk_token_trie *vocabulary(void) {
    static const char *const words[] = {"\"",    "{\"", "\":",      "},", "true", "null", "aaaa",
                                        "12345", "\n ", "\xC3\xA9", "[[", "]]",   "ab",   "-1."};
    static lk_token_trie *trie;
    if (trie == NULL) {
        toy *t = toy_new("llama", NULL);
        lk_tokenizer *tokenizer = NULL;
        t->source.unknown = toy_bytes(t, "<unk>", 5, LK_TOKEN_UNKNOWN, 0.0F);
        t->source.eos = toy_bytes(t, "</s>", 4, LK_TOKEN_CONTROL, 0.0F);
        t->source.add_space_prefix = 0;
        for (unsigned byte = 0; byte < 256; byte++) {
            char text[8];
            (void)snprintf(text, sizeof text, "<0x%02X>", byte);
            (void)toy_bytes(t, text, 6, LK_TOKEN_BYTE, 0.0F);
        }
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            (void)toy_bytes(t, words[i], strlen(words[i]), LK_TOKEN_NORMAL, -(float)i);
        }
        fuzz_check(lk_tokenizer_create(&t->source, NULL, &tokenizer, NULL) == LK_OK);
        fuzz_check(lk_token_trie_create(tokenizer, NULL, &trie, NULL) == LK_OK);
        lk_tokenizer_close(tokenizer);
        free(t);
    }
    return trie;
}

/* The mask of a state: a byte token is in it exactly when the byte can follow, and some token is.
 */
static void check_mask(lk_matcher *m) {
    const uint32_t *words = NULL;
    lk_error err = {0};
    const lk_status status = lk_matcher_mask(m, &words, &err);
    if (status != LK_OK) {
        fuzz_check(status == LK_E_LIMIT);
        return;
    }
    uint32_t any = words[0] & 2u; /* the end token */
    fuzz_check((any != 0) == (lk_matcher_progress(m) != LK_GRAMMAR_OPEN));
    for (uint32_t byte = 0; byte < 256; byte++) {
        const uint32_t id = 2 + byte;
        uint32_t next = 0;
        if (lk_matcher_step(m, m->at, m->grammar->class_of[byte], NULL, &next, &err) != LK_OK) {
            return;
        }
        const uint32_t bit = words[id / 32] >> (id % 32) & 1u;
        fuzz_check(bit == (next != LK_DEAD_PLACE));
        any |= bit;
    }
    fuzz_check(any != 0); /* no dead ends */
}

static void try_text(const lk_grammar *g, const uint8_t *text, size_t n, fuzz_memory *c) {
    int whole = 0;
    lk_error err = {0};
    const lk_status status = lk_grammar_accepts(g, (const char *)text, n, &whole, &err);
    fuzz_check(status == LK_OK || status == LK_E_LIMIT);
    lk_matcher m;
    if (lk_matcher_init(&m, g, vocabulary(), &c->base, &err) != LK_OK) {
        return;
    }
    size_t i = 0;
    check_mask(&m);
    while (i < n && lk_matcher_bytes(&m, text + i, 1, &err) == LK_OK) {
        i++;
        check_mask(&m);
    }
    fuzz_check(status != LK_OK || whole == (i == n && lk_matcher_progress(&m) != LK_GRAMMAR_OPEN));
    lk_matcher_deinit(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory c;
    fuzz_memory_init(&c);
    if (size < 2 || size > MAX_GRAMMAR) {
        return 0;
    }
    const bool is_schema = (data[0] & 1) != 0;
    const size_t n_text = data[1] % 64 < size - 2 ? data[1] % 64 : size - 2;
    const uint8_t *text = data + 2;
    const char *grammar = (const char *)text + n_text;
    const size_t n = size - 2 - n_text;
    lk_grammar *g = NULL;
    lk_error err = {0};
    const lk_status status = is_schema
                                 ? lk_grammar_create_json_schema(grammar, n, &c.base, &g, &err)
                                 : lk_grammar_create_gbnf(grammar, n, &c.base, &g, &err);
    fuzz_check((status == LK_OK) == (g != NULL));
    if (status == LK_OK) {
        try_text(g, text, n_text, &c);
    } else {
        fuzz_check(status == LK_E_FORMAT || status == LK_E_UNSUPPORTED || status == LK_E_LIMIT);
        fuzz_check(err.status == status && err.message[0] != '\0');
    }
    lk_grammar_destroy(g);
    fuzz_check(c.live == 0);
    fuzz_check(c.peak < (size_t)512 << 20);
    return 0;
}
