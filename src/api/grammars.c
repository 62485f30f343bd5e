/* grammars.c - bodies of lk/grammar.h: arguments are checked here, the work is in src/grammar and
 * src/engine. */
#include "base/error.h"
#include "engine/sampler.h"
#include "grammar/call_grammar.h"
#include "grammar/gbnf.h"
#include "grammar/grammar_builder.h"
#include "grammar/matcher.h"
#include "grammar/schema.h"

static lk_status check_text(const char *what, const char *text, size_t n_bytes, lk_grammar **out,
                            lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (out == NULL || (text == NULL && n_bytes != 0)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(what), "%s: text or out is NULL", what);
    }
    return LK_OK;
}

lk_status lk_grammar_create_gbnf(const char *text, size_t n_bytes, const lk_allocator *allocator,
                                 lk_grammar **out, lk_error *err) {
    const lk_status status = check_text("lk_grammar_create_gbnf", text, n_bytes, out, err);
    return status == LK_OK ? lk_gbnf_compile(text, n_bytes, allocator, out, err) : status;
}

lk_status lk_grammar_create_json_schema(const char *text, size_t n_bytes,
                                        const lk_allocator *allocator, lk_grammar **out,
                                        lk_error *err) {
    const lk_status status = check_text("lk_grammar_create_json_schema", text, n_bytes, out, err);
    return status == LK_OK ? lk_schema_compile(text, n_bytes, allocator, out, err) : status;
}

lk_status lk_grammar_create_json_object(const lk_allocator *allocator, lk_grammar **out,
                                        lk_error *err) {
    static const char schema[] = "{\"type\":\"object\"}";
    return lk_grammar_create_json_schema(schema, sizeof schema - 1, allocator, out, err);
}

lk_status lk_grammar_create_tool_calls(const char *text, size_t n_bytes,
                                       const lk_allocator *allocator, lk_grammar **out,
                                       lk_error *err) {
    const lk_status status = check_text("lk_grammar_create_tool_calls", text, n_bytes, out, err);
    return status == LK_OK ? lk_call_grammar_compile(text, n_bytes, allocator, out, err) : status;
}

void lk_grammar_destroy(lk_grammar *grammar) {
    lk_grammar_free(grammar);
}

lk_status lk_grammar_accepts(const lk_grammar *grammar, const char *text, size_t n_bytes,
                             int *result, lk_error *err) {
    if (result != NULL) {
        *result = 0;
    }
    if (grammar == NULL || result == NULL || (text == NULL && n_bytes != 0)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("lk_grammar_accepts"),
                       "lk_grammar_accepts: grammar, text or result is NULL");
    }
    lk_matcher m;
    lk_status status = lk_matcher_init(&m, grammar, NULL, grammar->allocator, err);
    if (status != LK_OK) {
        return status;
    }
    bool goes_on = true;
    enum { PIECE = 64 }; /* so that what is kept can be trimmed on the way */
    for (size_t i = 0; i < n_bytes && goes_on && status == LK_OK; i += PIECE) {
        lk_error inner;
        const size_t n = n_bytes - i < PIECE ? n_bytes - i : PIECE;
        status = lk_matcher_bytes(&m, (const uint8_t *)text + i, n, &inner);
        goes_on = status != LK_E_ARG;
        if (status != LK_OK && goes_on && err != NULL) {
            *err = inner;
        }
    }
    *result = goes_on && status == LK_OK && lk_matcher_progress(&m) != LK_GRAMMAR_OPEN;
    lk_matcher_deinit(&m);
    return goes_on ? status : LK_OK;
}

static lk_status create_trie(const char *what, const lk_tokenizer *tokenizer,
                             const lk_trie_marks *marks, const lk_allocator *allocator,
                             lk_token_trie **out, lk_error *err) {
    if (out != NULL) {
        *out = NULL;
    }
    if (tokenizer == NULL || out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(what), "%s: tokenizer or out is NULL", what);
    }
    return lk_token_trie_build(tokenizer, marks, allocator, out, err);
}

lk_status lk_token_trie_create(const lk_tokenizer *tokenizer, const lk_allocator *allocator,
                               lk_token_trie **out, lk_error *err) {
    return create_trie("lk_token_trie_create", tokenizer, NULL, allocator, out, err);
}

lk_status lk_token_trie_create_chat(const lk_tokenizer *tokenizer, const char *syntax,
                                    const lk_allocator *allocator, lk_token_trie **out,
                                    lk_error *err) {
    lk_trie_marks marks = {NULL};
    if (syntax != NULL && syntax[0] != '\0') {
        const lk_status status = lk_call_syntax_find(syntax, &marks.syntax, err);
        if (status != LK_OK) {
            if (out != NULL) {
                *out = NULL;
            }
            return status;
        }
    }
    return create_trie("lk_token_trie_create_chat", tokenizer, &marks, allocator, out, err);
}

void lk_token_trie_destroy(lk_token_trie *trie) {
    lk_token_trie_free(trie);
}

lk_status lk_sampler_set_grammar(lk_sampler *sampler, const lk_grammar *grammar,
                                 const lk_token_trie *trie, lk_error *err) {
    if (sampler == NULL || (grammar == NULL) != (trie == NULL)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("lk_sampler_set_grammar"),
                       "lk_sampler_set_grammar: the sampler is NULL, or one of grammar and trie");
    }
    return lk_sampler_constrain(sampler, grammar, trie, err);
}

lk_grammar_progress lk_sampler_grammar_progress(const lk_sampler *sampler) {
    return sampler != NULL && sampler->matcher != NULL ? lk_matcher_progress(sampler->matcher)
                                                       : LK_GRAMMAR_MAY_END;
}

lk_status lk_sampler_grammar_mask(lk_sampler *sampler, uint32_t *words, size_t n_words,
                                  lk_error *err) {
    if (sampler == NULL || sampler->matcher == NULL || words == NULL ||
        n_words != ((size_t)sampler->n_vocab + 31) / 32) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("lk_sampler_grammar_mask"),
                       "lk_sampler_grammar_mask: no sampler, no grammar, no words, or not the "
                       "number of words that the vocabulary needs");
    }
    const uint32_t *own = NULL;
    const lk_status status = lk_matcher_mask(sampler->matcher, &own, err);
    for (size_t i = 0; i < n_words; i++) {
        words[i] = status == LK_OK && i < sampler->matcher->n_words ? own[i] : 0;
    }
    return status;
}
