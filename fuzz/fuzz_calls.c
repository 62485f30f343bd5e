/* fuzz_calls.c - the grammars of calls, from tools as clients write them, against the parser of
 * answers. Byte 0 of an input is the syntax, byte 1 what is asked for, byte 2 the number of choices
 * that follow; the rest is the schema of a tool. Invariants: a status with a message, or a grammar;
 * an answer that keeps to it, which the choices lead to, comes out of the parser as calls of the
 * tool, complete, with arguments in JSON; memory is bounded, all given back. */
#include "fuzz.h"

#include <string.h>

#include "base/json.h"
#include "grammar/matcher.h"
#include "lk/chat_parser.h"
#include "toy_vocab.h"

enum { MAX_INPUT = 1 << 12, MAX_ANSWER = 1024, MAX_STEPS = 600 };

static const lk_token_trie *vocabulary(void) {
    static lk_token_trie *trie;
    if (trie == NULL) {
        toy *t = toy_new("llama", NULL);
        t->source.unknown = toy_bytes(t, "<unk>", 5, LK_TOKEN_UNKNOWN, 0.0F);
        t->source.eos = toy_bytes(t, "</s>", 4, LK_TOKEN_CONTROL, 0.0F);
        toy_add_byte_tokens(t);
        lk_tokenizer *tokenizer = NULL;
        fuzz_check(lk_tokenizer_create(&t->source, NULL, &tokenizer, NULL) == LK_OK);
        fuzz_check(lk_token_trie_create(tokenizer, NULL, &trie, NULL) == LK_OK);
        lk_tokenizer_close(tokenizer);
        free(t);
    }
    return trie;
}

/* ---- an answer ---- */

/* The bytes that may follow, those that lead to an end first. */
static size_t list_next(lk_matcher *m, uint8_t *bytes) {
    static const char closers[] = "<>/\"}])|\n";
    bool is_listed[256] = {false};
    size_t n = 0;
    lk_error err = {0};
    enum { N_CLOSERS = sizeof closers - 1 };
    for (unsigned i = 0; i < 256 + N_CLOSERS; i++) {
        const unsigned byte = i < N_CLOSERS ? (unsigned char)closers[i] : i - N_CLOSERS;
        uint32_t next = 0;
        if (!is_listed[byte] &&
            lk_matcher_step(m, m->at, m->grammar->class_of[byte], NULL, &next, &err) == LK_OK &&
            next != LK_DEAD_PLACE) {
            bytes[n++] = (uint8_t)byte;
            is_listed[byte] = true;
        }
    }
    return n;
}

/* A sentence that the choices lead to; 0: none within the limits. */
static size_t walk(const lk_grammar *g, const uint8_t *choices, size_t n_choices, fuzz_memory *c,
                   char *answer) {
    lk_matcher m;
    lk_error err = {0};
    size_t n = 0;
    bool is_whole = false;
    if (lk_matcher_init(&m, g, vocabulary(), &c->base, &err) != LK_OK) {
        return 0;
    }
    for (size_t i = 0; i < MAX_STEPS && n < MAX_ANSWER && !is_whole; i++) {
        uint8_t bytes[256];
        const size_t n_next = list_next(&m, bytes);
        const bool may_end = lk_matcher_progress(&m) != LK_GRAMMAR_OPEN;
        if (n_next == 0 || (may_end && i >= n_choices)) {
            is_whole = may_end;
            break;
        }
        const uint8_t byte = bytes[i < n_choices ? choices[i] % n_next : (i * 7 + 3) % 5 % n_next];
        if (lk_matcher_bytes(&m, &byte, 1, &err) != LK_OK) {
            break;
        }
        answer[n++] = (char)byte;
    }
    lk_matcher_deinit(&m);
    return is_whole ? n : 0;
}

/* ---- the parser ---- */

typedef struct taken {
    char arguments[8 * MAX_ANSWER];
    size_t n;
    int n_calls, n_complete, n_json;
    fuzz_memory *memory;
} taken;

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    taken *t = ctx;
    if (delta->kind == LK_DELTA_CALL_BEGIN) {
        fuzz_check(delta->n_text == 1 && delta->text[0] == 'f');
        t->n_calls++;
        t->n = 0;
    } else if (delta->kind == LK_DELTA_CALL_ARGUMENTS) {
        fuzz_check(t->n + delta->n_text <= sizeof t->arguments);
        memcpy(t->arguments + t->n, delta->text, delta->n_text);
        t->n += delta->n_text;
    } else if (delta->kind == LK_DELTA_CALL_END) {
        const lk_json_limits limits = {sizeof t->arguments, 500};
        lk_json json;
        lk_error err = {0};
        const lk_status status =
            lk_json_parse(t->arguments, t->n, limits, &t->memory->base, &json, &err);
        /* Names that are not declared may repeat. */
        fuzz_check(status == LK_OK || strstr(err.message, "twice") != NULL);
        t->n_json += status != LK_OK || json.values[0].type == LK_JSON_OBJECT;
        if (status == LK_OK) {
            lk_json_deinit(&json);
        }
        t->n_complete += delta->is_complete != 0;
    }
}

static void take_apart(const char *syntax, const char *tools, size_t n_tools, const char *answer,
                       size_t n, bool is_forced, fuzz_memory *c) {
    static const char source[] = "{{ messages[0].content }}</think>";
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_template *t = NULL;
    lk_chat_parser *p = NULL;
    static taken got;
    got = (taken){.memory = c};
    fuzz_check(lk_chat_template_create(source, sizeof source - 1, &c->base, &t, NULL) == LK_OK);
    params.allocator = &c->base;
    params.syntax = syntax;
    params.tools = tools;
    params.n_tools = n_tools;
    params.on_delta = on_delta;
    params.ctx = &got;
    fuzz_check(lk_chat_parser_create(t, &params, &p, NULL) == LK_OK);
    fuzz_check(lk_chat_parser_push(p, answer, n, NULL) == LK_OK);
    fuzz_check(lk_chat_parser_finish(p, NULL) == LK_OK);
    fuzz_check(got.n_complete == got.n_calls && got.n_json == got.n_calls);
    fuzz_check(!is_forced || got.n_calls > 0);
    lk_chat_parser_destroy(p);
    lk_chat_template_close(t);
}

/* ---- the target ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char head[] = "[{\"function\":{\"name\":\"f\",\"parameters\":";
    static char tools[MAX_INPUT + 64], rules[MAX_INPUT + 512], answer[MAX_ANSWER];
    fuzz_memory c;
    fuzz_memory_init(&c);
    if (size < 3 || size > MAX_INPUT || data[2] + 3u > size) {
        return 0;
    }
    size_t n_syntaxes = 0;
    while (lk_chat_syntax_name(n_syntaxes) != NULL) {
        n_syntaxes++;
    }
    const char *syntax = lk_chat_syntax_name(data[0] % n_syntaxes);
    const bool is_forced = (data[1] & 1) != 0;
    const size_t n_choices = data[2];
    const char *schema = (const char *)data + 3 + n_choices;
    const size_t n_schema = size - 3 - n_choices;
    size_t n_tools = sizeof head - 1;
    memcpy(tools, head, n_tools);
    memcpy(tools + n_tools, schema, n_schema);
    n_tools += n_schema;
    memcpy(tools + n_tools, "}}]", 3);
    n_tools += 3;
    int n = snprintf(rules, 256, "{\"syntax\":\"%s\",%s%s%s\"tools\":", syntax,
                     is_forced ? "\"tool_choice\":\"required\"," : "",
                     (data[1] & 2) != 0 ? "\"parallel_tool_calls\":false," : "",
                     (data[1] & 4) != 0 ? "\"reasoning\":[\"<think>\",\"</think>\"]," : "");
    memcpy(rules + n, tools, n_tools);
    rules[(size_t)n + n_tools] = '}';
    lk_grammar *g = NULL;
    lk_error err = {0};
    const lk_status status =
        lk_grammar_create_tool_calls(rules, (size_t)n + n_tools + 1, &c.base, &g, &err);
    fuzz_check((status == LK_OK) == (g != NULL));
    if (status == LK_OK) {
        const size_t n_answer = walk(g, data + 3, n_choices, &c, answer);
        if (n_answer > 0) {
            take_apart(syntax, tools, n_tools, answer, n_answer, is_forced, &c);
        }
    } else {
        fuzz_check(status == LK_E_FORMAT || status == LK_E_UNSUPPORTED || status == LK_E_LIMIT);
        fuzz_check(err.status == status && err.message[0] != '\0');
    }
    lk_grammar_destroy(g);
    fuzz_check(c.live == 0 && c.peak < (size_t)512 << 20);
    return 0;
}
