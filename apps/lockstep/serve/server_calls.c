/* server_calls.c - chats whose answers are taken apart: the syntax of calls that the model's
 * template has, the parser of each answer, and the grammar that holds calls to the tools. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

bool server_open_calls(server *s, lk_error *err) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *parser = NULL;
    if (s->chat_template == NULL) {
        return true;
    }
    const lk_status status = lk_chat_parser_create(s->chat_template, &params, &parser, err);
    if (status == LK_E_UNSUPPORTED) {
        (void)snprintf(s->no_calls, sizeof s->no_calls, "%s", err->message);
        return true; /* requests with tools are refused */
    }
    if (status == LK_OK) {
        (void)snprintf(s->call_syntax, sizeof s->call_syntax, "%s", lk_chat_parser_syntax(parser));
    }
    lk_chat_parser_destroy(parser);
    return status == LK_OK && lk_token_trie_create_chat(s->tokenizer, s->call_syntax, NULL,
                                                        &s->call_trie, err) == LK_OK;
}

/* FNV-1a of the job's id, so that no two answers give calls the same ids. */
static uint64_t seed_of(const char *text) {
    uint64_t seed = 0xCBF29CE484222325u;
    for (; *text != '\0'; text++) {
        seed = (seed ^ (unsigned char)*text) * 0x100000001B3u;
    }
    return seed;
}

/* An answer under a grammar of the client's is the text that it describes, and nothing else. */
static bool make_parsers(server *s, serve_job *job, const lk_chat_prompt *prompt, const char *tools,
                         serve_problem *problem) {
    const serve_settings *settings = &job->settings;
    lk_error err;
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    params.prompt = prompt;
    params.tools = tools;
    params.n_tools = tools != NULL ? strlen(tools) : 0;
    params.syntax = settings->tools != NULL ? s->call_syntax : NULL;
    params.flags = settings->tools != NULL           ? LK_PARSE_TOOL_CALLS | LK_PARSE_REASONING
                   : settings->grammar == SERVE_FREE ? LK_PARSE_REASONING
                                                     : 0;
    for (size_t i = 0; i < job->n_choices; i++) {
        serve_choice *choice = &job->choices[i];
        params.id_seed = seed_of(job->id) + i * 1000003;
        choice->answer.is_one_call = settings->tools != NULL && !settings->parallel_calls;
        if (serve_answer_begin(&choice->answer, s->chat_template, &params, &choice->stream,
                               &choice->text, &err) != LK_OK) {
            return serve_fail_status(problem, &err);
        }
    }
    return true;
}

/* The text of lk_grammar_create_tool_calls for an answer that `parser`, a new one, takes apart. */
static char *write_rules(const serve_settings *s, const lk_chat_parser *parser) {
    static const char *const places[] = {"text", "reasoning", "calls", "header"};
    const char *open = NULL;
    const char *close = NULL;
    lk_chat_parser_reasoning(parser, &open, &close);
    json_t *rules = json_pack("{s:s, s:s, s:b, s:O}", "syntax", lk_chat_parser_syntax(parser),
                              "begins", places[lk_chat_parser_place(parser)], "parallel_tool_calls",
                              (int)s->parallel_calls, "tools", s->tools);
    int failed = rules == NULL;
    if (close != NULL) {
        failed |= json_object_set_new(rules, "reasoning", json_pack("[s, s]", open, close));
    }
    if (s->tool_choice == SERVE_CALLS_FORCED) {
        failed |= json_object_set(rules, "tool_choice", json_object_get(s->root, "tool_choice"));
    } else if (s->grammar == SERVE_JSON_OBJECT) {
        failed |= json_object_set_new(rules, "content", json_pack("{s:s}", "type", "object"));
    } else if (s->grammar == SERVE_JSON_SCHEMA) {
        failed |= json_object_set_new(rules, "content",
                                      json_loads(s->grammar_text, JSON_DECODE_ANY, NULL));
    }
    char *text = failed == 0 ? json_dumps(rules, JSON_COMPACT) : NULL;
    json_decref(rules);
    return text;
}

bool server_prepare_calls(server *s, serve_job *job, const lk_chat_prompt *prompt,
                          serve_problem *problem) {
    serve_settings *settings = &job->settings;
    if (settings->tools != NULL && s->call_trie == NULL) {
        return serve_fail(problem, 400, "unsupported_value", "tools", "%s", s->no_calls);
    }
    char *tools = settings->tools != NULL ? json_dumps(settings->tools, JSON_COMPACT) : NULL;
    const bool has_parsers = make_parsers(s, job, prompt, tools, problem);
    free(tools);
    if (!has_parsers) {
        return false;
    }
    job->call_syntax = lk_chat_parser_syntax(job->choices[0].answer.parser);
    if (settings->tools == NULL || settings->grammar == SERVE_GBNF) {
        return true; /* a grammar of the client's says what is written, calls included */
    }
    char *rules = write_rules(settings, job->choices[0].answer.parser);
    free(settings->grammar_text);
    settings->grammar_text = rules;
    settings->grammar = SERVE_TOOL_CALLS;
    if (rules == NULL) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the tools");
    }
    return serve_job_constrain(job, s->call_trie, problem);
}
