/* lk/grammar.h - output that keeps to a grammar or a JSON schema.
 *
 * A grammar says which texts a sampler may give. Before each choice the tokens that cannot go on
 * towards a complete text are masked out; the end tokens of the vocabulary are allowed where the
 * text is complete, and only there. What may follow depends on the grammar, the vocabulary and the
 * tokens accepted so far, and on nothing else.
 *
 *     lk_token_trie_create(tokenizer, NULL, &trie, &err);             once for a vocabulary
 *     lk_grammar_create_json_schema(text, n, NULL, &grammar, &err);
 *     lk_sampler_set_grammar(sampler, grammar, trie, &err);           after the prompt
 *     loop: lk_sampler_sample, lk_sampler_accept
 *
 * What is understood: docs/structured-output.md. Nothing is dropped in silence: a grammar or schema
 * that cannot be enforced is an error that names the rule or the keyword.
 *
 * Thread rule: grammars and tries are immutable; any number of threads and samplers may use one.
 */
#ifndef LK_GRAMMAR_H
#define LK_GRAMMAR_H

#include "lk/base.h"
#include "lk/chat_parser.h"
#include "lk/sampler.h"
#include "lk/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits; what is beyond them is LK_E_LIMIT. */
#define LK_GRAMMAR_MAX_BYTES (1 << 20) /* of a grammar or schema as text */
#define LK_GRAMMAR_MAX_TOOLS 512
#define LK_GRAMMAR_MAX_STATES (1 << 20)
#define LK_GRAMMAR_MAX_EDGES (1 << 22)
#define LK_GRAMMAR_MAX_DEPTH 256        /* rules that are open at once while a text is read */
#define LK_GRAMMAR_MAX_REPEAT (1 << 20) /* of counted repetitions and lengths */
#define LK_GRAMMAR_MAX_WAYS 4096        /* ways to read a text so far that are followed at once */
/* Work on a text that can be read in many ways, in units of about eight ways that are followed: for
 * one byte more, for a token that is accepted, and for a mask (the few very long tokens of a
 * vocabulary take another token's work). It depends on the grammar, the text and the vocabulary
 * alone; a unit takes some tenths of a microsecond. */
#define LK_GRAMMAR_MAX_STEP_WORK (1 << 13)
#define LK_GRAMMAR_MAX_TOKEN_WORK (1 << 15)
#define LK_GRAMMAR_MAX_MASK_WORK (3 << 14)

typedef struct lk_grammar lk_grammar;

/* A grammar in GBNF; its text begins with the rule `root`. LK_E_FORMAT names the line; left
 * recursion and rules that are missing or there twice are named. On success *out is owned by the
 * caller (lk_grammar_destroy). */
LK_API lk_status lk_grammar_create_gbnf(const char *text, size_t n_bytes,
                                        const lk_allocator *allocator, lk_grammar **out,
                                        lk_error *err);
/* A JSON schema (drafts 7 to 2020-12, the keywords of docs/structured-output.md). LK_E_FORMAT: no
 * JSON, or no schema; LK_E_UNSUPPORTED: a keyword that cannot be enforced. The error's subject is
 * the JSON pointer of the keyword. */
LK_API lk_status lk_grammar_create_json_schema(const char *text, size_t n_bytes,
                                               const lk_allocator *allocator, lk_grammar **out,
                                               lk_error *err);
/* Any JSON object. */
LK_API lk_status lk_grammar_create_json_object(const lk_allocator *allocator, lk_grammar **out,
                                               lk_error *err);
/* Answers with calls of tools, in the syntax of a chat template (lk/chat_parser.h). The text is a
 * JSON object:
 *
 *     tools                the array of tools as in OpenAI's API; a tool without parameters takes
 * {} tool_choice          "auto" (or absent): any text, in which what the syntax's mark begins is
 *                          a call. "required": nothing but calls. {"type": "function", "function":
 *                          {"name": ...}}: nothing but one call of that tool
 *     content              with "auto": a JSON schema, to which an answer without calls must keep
 *     parallel_tool_calls  false: not more than one call
 *     syntax               lk_chat_parser_syntax
 *     reasoning            [open, close] of lk_chat_parser_reasoning, or null: none. It may come
 *                          before the calls
 *     begins               "text", "reasoning", "calls" or "header": lk_chat_parser_place of a new
 *                          parser
 *
 * Each call has the name of a tool and arguments of its schema. With "auto" the schema of a tool
 * that is not `strict` and cannot be enforced is left aside; its arguments are a JSON object. The
 * masks need the tree of lk_token_trie_create_chat. Errors as of lk_grammar_create_json_schema;
 * the subject is the member. */
LK_API lk_status lk_grammar_create_tool_calls(const char *text, size_t n_bytes,
                                              const lk_allocator *allocator, lk_grammar **out,
                                              lk_error *err);
/* Accepts NULL. No sampler may have it any more. */
LK_API void lk_grammar_destroy(lk_grammar *grammar);

/* Whether a whole text is a sentence of the grammar: *result 1 or 0. */
LK_API lk_status lk_grammar_accepts(const lk_grammar *grammar, const char *text, size_t n_bytes,
                                    int *result, lk_error *err);

/* The texts of a vocabulary as a tree, which masks are computed with. Control tokens, unused ones
 * and those without bytes are not in it. The tokenizer is not needed afterwards. */
typedef struct lk_token_trie lk_token_trie;
LK_API lk_status lk_token_trie_create(const lk_tokenizer *tokenizer, const lk_allocator *allocator,
                                      lk_token_trie **out, lk_error *err);
/* The same with those control tokens whose text is of a mark of the call syntax (NULL: none) or of
 * reasoning (lk_chat_syntax_has_mark). LK_E_NOT_FOUND: no syntax of that name. */
LK_API lk_status lk_token_trie_create_chat(const lk_tokenizer *tokenizer, const char *syntax,
                                           const lk_allocator *allocator, lk_token_trie **out,
                                           lk_error *err);
LK_API void lk_token_trie_destroy(lk_token_trie *trie); /* accepts NULL; no sampler has it */

/* Puts a sampler under a grammar, at its beginning; NULL for both takes it off. From now on
 * lk_sampler_sample chooses among the tokens that are allowed, and lk_sampler_accept moves on by
 * the token, or refuses it with LK_E_ARG when it is not allowed; tokens of the prompt must be
 * accepted before. lk_sampler_reset goes back to the beginning. Both objects are borrowed until
 * they are taken off or the sampler is destroyed. A state in which no token of the vocabulary can
 * go on is LK_E_UNSUPPORTED from lk_sampler_sample. The vocabulary may not be larger than the
 * sampler's (LK_E_ARG). */
LK_API lk_status lk_sampler_set_grammar(lk_sampler *sampler, const lk_grammar *grammar,
                                        const lk_token_trie *trie, lk_error *err);

typedef enum lk_grammar_progress {
    LK_GRAMMAR_OPEN = 0,    /* the text must go on */
    LK_GRAMMAR_MAY_END = 1, /* it is complete, and may go on */
    LK_GRAMMAR_COMPLETE = 2 /* it is complete, and only an end token can follow */
} lk_grammar_progress;
/* Where the sampler's text stands; MAY_END without a grammar. */
LK_API lk_grammar_progress lk_sampler_grammar_progress(const lk_sampler *sampler);

/* The mask of the next token: bit i % 32 of words[i / 32] is set when token i is allowed. n_words
 * must be (n_vocab + 31) / 32 of the sampler, else LK_E_ARG; also without a grammar. LK_E_LIMIT:
 * LK_GRAMMAR_MAX_WAYS, or one of the limits of work. */
LK_API lk_status lk_sampler_grammar_mask(lk_sampler *sampler, uint32_t *words, size_t n_words,
                                         lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
