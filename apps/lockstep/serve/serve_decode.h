/* serve_decode.h - the body of a request for text: bytes to checked settings. Knows nothing of
 * HTTP, the model or the engine, so that it can be fuzzed alone. */
#ifndef LK_SERVE_DECODE_H
#define LK_SERVE_DECODE_H

#include "lk/model.h"
#include "lk/sampler.h"
#include "serve_fields.h"

typedef enum serve_kind {
    SERVE_CHAT,       /* /v1/chat/completions */
    SERVE_COMPLETION, /* /v1/completions */
    SERVE_LLAMA,      /* /completion, as llama-server has it */
    SERVE_EMBEDDING,  /* /v1/embeddings */
    SERVE_N_KINDS
} serve_kind;

enum { SERVE_MAX_STOPS = 16, SERVE_MAX_STOP_BYTES = 1024 };
/* Prompts of one request; texts of one request for embeddings. */
enum { SERVE_MAX_PROMPTS = 64, SERVE_MAX_INPUTS = 2048 };
/* Of the values of one body, beside the bytes of their texts. */
enum { SERVE_MAX_VALUE_BYTES = 128 << 20 };

/* What the text must keep to. */
typedef enum serve_grammar {
    SERVE_FREE,
    SERVE_GBNF,
    SERVE_JSON_SCHEMA,
    SERVE_JSON_OBJECT,
    SERVE_TOOL_CALLS, /* set when the prompt is made (serve_tools.h) */
    SERVE_N_GRAMMARS
} serve_grammar;
/* "gbnf", "json_schema", "json_object", "tool_calls"; NULL for SERVE_FREE. */
const char *serve_grammar_name(serve_grammar grammar);

typedef enum serve_tool_choice {
    SERVE_CALLS_AUTO,
    SERVE_CALLS_NONE,
    SERVE_CALLS_FORCED /* "required", or one by its name */
} serve_tool_choice;

typedef struct serve_settings {
    serve_kind kind;
    json_t *root;           /* owned */
    const char *model;      /* NULL: not given; borrowed from root, likewise below */
    const json_t *messages; /* SERVE_CHAT: an array that is not empty */
    const json_t *tools;    /* SERVE_CHAT: those that may be called; NULL: none */
    const json_t *prompt;   /* the others: of one of the forms that serve_prompt_at takes apart */
    size_t n_prompts;
    bool stream;
    bool include_usage;
    int64_t max_tokens; /* -1: as many as there is room for */
    int64_t n;
    lk_sampler_params sampler; /* logit_bias points to `biases` */
    lk_logit_bias *biases;     /* owned */
    bool has_seed;
    const char *stops[SERVE_MAX_STOPS];
    size_t n_stops;
    serve_grammar grammar;
    char *grammar_text; /* owned; NULL where the kind has none */
    serve_tool_choice tool_choice;
    bool parallel_calls;
    bool logprobs;
    int64_t n_top; /* 0 .. 20 */
    bool echo;
    bool ignore_eos;
    bool return_token_ids;
    bool receipt;
    bool cache_prompt;
    int64_t timeout_ms; /* 0: the server's */
    lk_pooling pooling; /* SERVE_EMBEDDING, likewise below */
    bool normalise;
    bool base64;
} serve_settings;

/* What a server fills in where a request says nothing. */
typedef struct serve_defaults {
    lk_sampler_params sampler;
    int64_t max_tokens;
    int32_t n_vocab;
    int32_t max_choices; /* of one request, over all its prompts */
    int32_t n_embd;
    lk_pooling pooling;
} serve_defaults;

/* Parses JSON as any endpoint takes it: an object. NULL and a problem otherwise. */
json_t *serve_parse(const char *body, size_t n_bytes, serve_problem *problem);
/* On success *settings must be freed with serve_settings_free; on failure nothing is held. */
bool serve_decode(serve_kind kind, const char *body, size_t n_bytes, const serve_defaults *defaults,
                  serve_settings *settings, serve_problem *problem);
/* Lets go of what the body held, stop texts excepted: the prompts are made. */
void serve_settings_trim(serve_settings *settings);
void serve_settings_free(serve_settings *settings);

/* "mean", "first", "last"; LK_POOLING_NONE for any other name. */
lk_pooling serve_parse_pooling(const char *name);
/* Whether an array is one prompt of token ids, each in the vocabulary. */
bool serve_is_ids(const json_t *value, int32_t n_vocab);
/* Prompt i of settings->n_prompts: a string, or an array of ids. */
const json_t *serve_prompt_at(const serve_settings *settings, size_t i);

#endif
