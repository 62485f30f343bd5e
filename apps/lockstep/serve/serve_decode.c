/* serve_decode.c - see serve_decode.h. The rule for fields: those that are known are checked and
 * obeyed; those that are known to ask for something this server cannot do are refused by name;
 * others, which clients send for their own reasons, are left alone. */
#include "serve_decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lk/grammar.h"
#include "serve_refused.h"
#include "serve_tools.h"

/* ---- JSON ---- */

/* What the values of a body take in memory at most, beside the bytes of their texts: a container
 * takes up to a hundred times its two characters. */
static size_t memory_of_values(const char *body, size_t n_bytes) {
    enum { PER_OBJECT = 208, PER_ARRAY = 128, PER_NAME = 64, PER_VALUE = 48 };
    size_t n = 0;
    bool in_text = false;
    for (size_t i = 0; i < n_bytes; i++) {
        const char c = body[i];
        if (c == '"') {
            in_text = !in_text;
        } else if (in_text) {
            i += c == '\\'; /* what follows is no end of the text */
        } else {
            n += c == '{' ? PER_OBJECT : c == '[' ? PER_ARRAY : c == ':' ? PER_NAME : 0;
            n += c == ',' ? PER_VALUE : 0;
        }
    }
    return n;
}

/* The largest nesting is jansson's own limit (2048). */
json_t *serve_parse(const char *body, size_t n_bytes, serve_problem *problem) {
    json_error_t error;
    if (n_bytes == 0) {
        (void)serve_fail(problem, 400, "invalid_json", NULL,
                         "the body is empty, expected a JSON object");
        return NULL;
    }
    const size_t n_memory = memory_of_values(body, n_bytes);
    if (n_memory > SERVE_MAX_VALUE_BYTES) {
        (void)serve_fail(problem, 413, "body_too_large", NULL,
                         "the values of the body would take %zu bytes of memory, at most %d",
                         n_memory, SERVE_MAX_VALUE_BYTES);
        return NULL;
    }
    json_t *root = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        (void)serve_fail(problem, 400, "invalid_json", NULL,
                         "the body is not valid JSON: line %d, column %d: %s", error.line,
                         error.column, error.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        (void)serve_fail(problem, 400, "invalid_type", NULL,
                         "the body must be a JSON object, not %s", field_kind(root));
        json_decref(root);
        return NULL;
    }
    return root;
}

/* ---- grammars ---- */

const char *serve_grammar_name(serve_grammar grammar) {
    static const char *const names[SERVE_N_GRAMMARS] = {NULL, "gbnf", "json_schema", "json_object",
                                                        "tool_calls"};
    return names[grammar];
}

/* Takes a text that was allocated; only one field may ask for a grammar. */
static bool set_grammar(serve_settings *s, serve_grammar grammar, char *text, bool has_text,
                        const char *name, serve_problem *problem) {
    if (has_text && text == NULL) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the grammar");
    }
    if (s->grammar != SERVE_FREE) {
        free(text);
        return serve_fail(problem, 400, "invalid_value", name,
                          "'%s' comes beside another field that asks for a grammar", name);
    }
    s->grammar = grammar;
    s->grammar_text = text;
    return true;
}

static bool decode_response_format(const json_t *root, serve_settings *s, serve_problem *problem) {
    const json_t *format = json_object_get(root, "response_format");
    if (format == NULL || json_is_null(format)) {
        return true;
    }
    const char *type = json_string_value(json_object_get(format, "type"));
    const json_t *outer = json_object_get(format, "json_schema");
    const json_t *schema = json_object_get(outer, "schema");
    if (type != NULL && strcmp(type, "text") == 0) {
        return true;
    }
    if (type != NULL && strcmp(type, "json_object") == 0) {
        return set_grammar(s, SERVE_JSON_OBJECT, NULL, false, "response_format", problem);
    }
    if (type == NULL || strcmp(type, "json_schema") != 0) {
        return serve_fail(problem, 400, "unsupported_value", "response_format",
                          "'response_format' needs the type \"text\", \"json_object\" or "
                          "\"json_schema\"");
    }
    if (schema == NULL) {
        return serve_fail(problem, 400, "missing_parameter", "response_format",
                          "'response_format.json_schema.schema' is missing");
    }
    return set_grammar(s, SERVE_JSON_SCHEMA, json_dumps(schema, JSON_ENCODE_ANY), true,
                       "response_format", problem);
}

static bool decode_grammar(const json_t *root, serve_settings *s, serve_problem *problem) {
    const char *grammar = NULL;
    const json_t *schema = json_object_get(root, "json_schema");
    if (!decode_response_format(root, s, problem) ||
        !field_text(root, "grammar", LK_GRAMMAR_MAX_BYTES, &grammar, problem)) {
        return false;
    }
    if (grammar != NULL && grammar[0] != '\0' &&
        !set_grammar(s, SERVE_GBNF, strdup(grammar), true, "grammar", problem)) {
        return false;
    }
    if (schema != NULL && !json_is_null(schema) &&
        !set_grammar(s, SERVE_JSON_SCHEMA, json_dumps(schema, JSON_ENCODE_ANY), true, "json_schema",
                     problem)) {
        return false;
    }
    if (s->grammar != SERVE_FREE && s->ignore_eos) {
        return serve_fail(problem, 400, "invalid_value", "ignore_eos",
                          "'ignore_eos' excludes a grammar, whose text has an end");
    }
    return true;
}

/* ---- sampling ---- */

static bool decode_sampler(const json_t *root, serve_settings *s, serve_problem *problem) {
    lk_sampler_params *p = &s->sampler;
    const struct {
        const char *name;
        float *value;
        double min, max;
    } reals[] = {
        {"temperature", &p->temperature, 0, 100},
        {"top_p", &p->top_p, 0, 1},
        {"min_p", &p->min_p, 0, 1},
        {"typical_p", &p->typical_p, 0, 1},
        {"repeat_penalty", &p->repeat_penalty, 0.01, 100},
        {"repetition_penalty", &p->repeat_penalty, 0.01, 100},
        {"presence_penalty", &p->presence_penalty, -100, 100},
        {"frequency_penalty", &p->frequency_penalty, -100, 100},
    };
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = (double)*reals[i].value;
        if (!field_real(root, reals[i].name, reals[i].min, reals[i].max, &value, problem)) {
            return false;
        }
        *reals[i].value = (float)value;
    }
    int64_t top_k = p->top_k;
    int64_t last_n = p->penalty_last_n;
    int64_t seed = -1;
    if (!field_int(root, "top_k", 0, INT32_MAX, &top_k, problem) ||
        !field_int(root, "repeat_last_n", -1, LK_MAX_PENALTY_TOKENS, &last_n, problem) ||
        !field_int(root, "seed", s->kind == SERVE_LLAMA ? -1 : 0, INT64_MAX, &seed, problem)) {
        return false;
    }
    p->top_k = (int32_t)top_k;
    p->penalty_last_n = (int32_t)last_n;
    s->has_seed = seed >= 0;
    p->seed = seed >= 0 ? (uint64_t)seed : 0;
    return true;
}

static bool add_bias(serve_settings *s, int64_t token, const json_t *value, int32_t n_vocab,
                     serve_problem *problem) {
    if (token < 0 || token >= n_vocab) {
        return serve_fail(problem, 400, "out_of_range", "logit_bias",
                          "'logit_bias' names token %lld, expected 0 .. %d", (long long)token,
                          n_vocab - 1);
    }
    double bias = json_number_value(value);
    if (json_is_false(value)) {
        bias = -HUGE_VAL; /* llama-server's way to ban a token */
    } else if (!json_is_number(value) || !(bias >= -100 && bias <= 100)) {
        return serve_fail(problem, 400, "out_of_range", "logit_bias",
                          "the bias of token %lld must be a number from -100 to 100",
                          (long long)token);
    }
    s->biases[s->sampler.n_logit_bias++] = (lk_logit_bias){(int32_t)token, (float)bias};
    return true;
}

/* A token as the name in an object: decimal digits. -1 for others. */
static int64_t parse_token(const char *text) {
    int64_t value = 0;
    for (size_t i = 0; text[i] != '\0' || i == 0; i++) {
        if (text[i] < '0' || text[i] > '9' || i == 10) {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* An object from token to bias, or an array of pairs [token, bias]. */
static bool decode_bias(const json_t *root, serve_settings *s, int32_t n_vocab,
                        serve_problem *problem) {
    json_t *bias = json_object_get(root, "logit_bias");
    if (bias == NULL || json_is_null(bias)) {
        return true;
    }
    if (!json_is_object(bias) && !json_is_array(bias)) {
        return serve_fail(problem, 400, "invalid_type", "logit_bias",
                          "'logit_bias' must be an object, not %s", field_kind(bias));
    }
    const size_t n = json_is_object(bias) ? json_object_size(bias) : json_array_size(bias);
    if (n > LK_MAX_LOGIT_BIAS) {
        return serve_fail(problem, 400, "out_of_range", "logit_bias",
                          "'logit_bias' has %zu entries, at most %d", n, LK_MAX_LOGIT_BIAS);
    }
    s->biases = calloc(n + 1, sizeof s->biases[0]);
    if (s->biases == NULL) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory");
    }
    s->sampler.logit_bias = s->biases;
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(bias, name, value) {
        if (!add_bias(s, parse_token(name), value, n_vocab, problem)) {
            return false;
        }
    }
    size_t i = 0;
    json_array_foreach(bias, i, value) {
        const json_t *token = json_array_get(value, 0);
        if (json_array_size(value) != 2 || !json_is_integer(token)) {
            return serve_fail(problem, 400, "invalid_type", "logit_bias",
                              "entry %zu of 'logit_bias' must be [token id, bias]", i);
        }
        if (!add_bias(s, json_integer_value(token), json_array_get(value, 1), n_vocab, problem)) {
            return false;
        }
    }
    return true;
}

/* ---- text ---- */

static bool add_stop(serve_settings *s, const json_t *value, serve_problem *problem) {
    if (!json_is_string(value) || json_string_length(value) == 0 ||
        json_string_length(value) > SERVE_MAX_STOP_BYTES) {
        return serve_fail(problem, 400, "invalid_value", "stop",
                          "'stop' must hold texts of 1 .. %d bytes", SERVE_MAX_STOP_BYTES);
    }
    if (s->n_stops == SERVE_MAX_STOPS) {
        return serve_fail(problem, 400, "out_of_range", "stop", "'stop' has more than %d texts",
                          SERVE_MAX_STOPS);
    }
    s->stops[s->n_stops++] = json_string_value(value);
    return true;
}

static bool decode_stop(const json_t *root, serve_settings *s, serve_problem *problem) {
    const json_t *stop = json_object_get(root, "stop");
    if (stop == NULL || json_is_null(stop)) {
        return true;
    }
    if (!json_is_array(stop)) {
        return add_stop(s, stop, problem);
    }
    const json_t *item = NULL;
    size_t i = 0;
    json_array_foreach(stop, i, item) {
        if (!add_stop(s, item, problem)) {
            return false;
        }
    }
    return true;
}

/* Chat: logprobs is a switch and top_logprobs a number. Completions: logprobs is the number.
 * llama-server: n_probs. */
static bool decode_logprobs(const json_t *root, serve_settings *s, serve_problem *problem) {
    int64_t n = -1;
    switch (s->kind) {
    case SERVE_CHAT:
        if (!field_bool(root, "logprobs", &s->logprobs, problem) ||
            !field_int(root, "top_logprobs", 0, 20, &n, problem)) {
            return false;
        }
        if (n > 0 && !s->logprobs) {
            return serve_fail(problem, 400, "invalid_value", "top_logprobs",
                              "'top_logprobs' needs 'logprobs' to be true");
        }
        break;
    case SERVE_COMPLETION:
        if (!field_int(root, "logprobs", 0, 20, &n, problem)) {
            return false;
        }
        s->logprobs = n >= 0;
        break;
    case SERVE_LLAMA:
        if (!field_int(root, "n_probs", 0, 20, &n, problem)) {
            return false;
        }
        s->logprobs = n > 0;
        break;
    default:
        break;
    }
    s->n_top = n > 0 ? n : 0;
    return true;
}

/* Each endpoint takes the names of all; of several limits the smallest holds. */
static bool decode_max_tokens(const json_t *root, serve_settings *s, serve_problem *problem) {
    const struct {
        const char *name;
        int64_t min;
    } limits[] = {
        {"max_tokens", s->kind == SERVE_CHAT    ? 1
                       : s->kind == SERVE_LLAMA ? -1
                                                : 0},
        {"max_completion_tokens", 1},
        {"n_predict", -1},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int64_t n = -1;
        if (!field_int(root, limits[i].name, limits[i].min, INT32_MAX, &n, problem)) {
            return false;
        }
        if (n >= 0 && (s->max_tokens < 0 || n < s->max_tokens)) {
            s->max_tokens = n;
        }
    }
    return true;
}

bool serve_is_ids(const json_t *value, int32_t n_vocab) {
    const json_t *item = NULL;
    size_t i = 0;
    json_array_foreach(value, i, item) {
        if (!json_is_integer(item) || json_integer_value(item) < 0 ||
            json_integer_value(item) >= n_vocab) {
            return false;
        }
    }
    return json_array_size(value) > 0;
}

/* A string, ids, or an array of these. */
static bool decode_prompt(const json_t *root, serve_settings *s, int32_t n_vocab,
                          serve_problem *problem) {
    const bool is_input = s->kind == SERVE_EMBEDDING;
    const char *name = is_input ? "input" : "prompt";
    const size_t most = is_input ? SERVE_MAX_INPUTS : SERVE_MAX_PROMPTS;
    s->prompt = json_object_get(root, name);
    if (s->prompt == NULL || json_is_null(s->prompt)) {
        return serve_fail(problem, 400, "missing_parameter", name, "'%s' is missing", name);
    }
    if (json_is_string(s->prompt) || serve_is_ids(s->prompt, n_vocab)) {
        s->n_prompts = 1;
        return true;
    }
    const size_t n = json_array_size(s->prompt);
    if (!json_is_array(s->prompt) || n == 0) {
        return serve_fail(problem, 400, "invalid_type", name,
                          "'%s' must be a text, an array of token ids, or an array of these", name);
    }
    if (n > most || s->kind == SERVE_LLAMA) {
        return serve_fail(problem, 400, "out_of_range", name,
                          "'%s' has %zu entries that are no token ids, at most %zu", name, n,
                          s->kind == SERVE_LLAMA ? 0 : most);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(s->prompt, i);
        if (!json_is_string(item) && !serve_is_ids(item, n_vocab)) {
            return serve_fail(problem, 400, "invalid_value", name,
                              "entry %zu of '%s' is neither a text nor an array of token ids "
                              "0 .. %d",
                              i, name, n_vocab - 1);
        }
    }
    s->n_prompts = n;
    return true;
}

const json_t *serve_prompt_at(const serve_settings *s, size_t i) {
    const json_t *first = json_array_get(s->prompt, 0);
    return json_is_string(s->prompt) || json_is_integer(first) ? s->prompt
                                                               : json_array_get(s->prompt, i);
}

/* Texts and parts are the chat template's to judge. */
static bool check_role(const json_t *message, size_t i, serve_problem *problem) {
    const json_t *role = json_object_get(message, "role");
    if (!json_is_object(message)) {
        return serve_fail(problem, 400, "invalid_type", "messages",
                          "message %zu must be an object, not %s", i, field_kind(message));
    }
    if (role == NULL) {
        return serve_fail(problem, 400, "missing_parameter", "messages", "message %zu has no role",
                          i);
    }
    if (!json_is_string(role) ||
        !field_is_one_of(json_string_value(role),
                         "system|developer|user|assistant|tool|function")) {
        return serve_fail(problem, 400, "invalid_value", "messages",
                          "message %zu has the role '%.40s', expected system, developer, user, "
                          "assistant, tool or function",
                          i, json_is_string(role) ? json_string_value(role) : field_kind(role));
    }
    return true;
}

static bool decode_messages(const json_t *root, serve_settings *s, serve_problem *problem) {
    s->messages = json_object_get(root, "messages");
    s->n_prompts = 1;
    if (s->messages == NULL || json_is_null(s->messages)) {
        return serve_fail(problem, 400, "missing_parameter", "messages", "'messages' is missing");
    }
    if (!json_is_array(s->messages)) {
        return serve_fail(problem, 400, "invalid_type", "messages",
                          "'messages' must be an array, not %s", field_kind(s->messages));
    }
    if (json_array_size(s->messages) == 0) {
        return serve_fail(problem, 400, "invalid_value", "messages", "'messages' is empty");
    }
    const json_t *message = NULL;
    size_t i = 0;
    json_array_foreach(s->messages, i, message) {
        if (!check_role(message, i, problem)) {
            return false;
        }
    }
    return true;
}

static bool decode_stream_options(const json_t *root, serve_settings *s, serve_problem *problem) {
    const json_t *options = json_object_get(root, "stream_options");
    if (options == NULL || json_is_null(options)) {
        return true;
    }
    if (!json_is_object(options)) {
        return serve_fail(problem, 400, "invalid_type", "stream_options",
                          "'stream_options' must be an object, not %s", field_kind(options));
    }
    return field_bool(options, "include_usage", &s->include_usage, problem);
}

static bool decode_counts(const json_t *root, serve_settings *s, int32_t max_choices,
                          serve_problem *problem) {
    if (!field_int(root, "n", 1, max_choices, &s->n, problem)) {
        return false;
    }
    int64_t best_of = s->n;
    if (!field_int(root, "best_of", 1, INT32_MAX, &best_of, problem)) {
        return false;
    }
    if (best_of != s->n) {
        return serve_fail(problem, 400, "unsupported_value", "best_of",
                          "'best_of' is only supported when it equals 'n'");
    }
    if ((int64_t)s->n_prompts * s->n > max_choices) {
        return serve_fail(problem, 400, "out_of_range", "n",
                          "%zu prompts with %lld choices each, at most %d choices in all",
                          s->n_prompts, (long long)s->n, max_choices);
    }
    return true;
}

/* ---- embeddings ---- */

lk_pooling serve_parse_pooling(const char *name) {
    static const char *const names[] = {"", "mean", "first", "last"};
    lk_pooling pooling = LK_POOLING_LAST;
    while (pooling != LK_POOLING_NONE && strcmp(name, names[pooling]) != 0) {
        pooling--;
    }
    return pooling;
}

static bool decode_embedding(const json_t *root, const serve_defaults *defaults, serve_settings *s,
                             serve_problem *problem) {
    const char *format = "float";
    const char *pooling = NULL;
    int64_t dimensions = defaults->n_embd;
    s->max_tokens = 0;
    s->normalise = true;
    s->pooling = defaults->pooling;
    if (!decode_prompt(root, s, defaults->n_vocab, problem) ||
        !field_text(root, "model", 1024, &s->model, problem) ||
        !serve_check_refused_input(root, problem) ||
        !field_text(root, "encoding_format", 32, &format, problem) ||
        !field_text(root, "pooling", 32, &pooling, problem) ||
        !field_int(root, "dimensions", 1, INT32_MAX, &dimensions, problem) ||
        !field_bool(root, "normalize", &s->normalise, problem) ||
        !field_bool(root, "cache_prompt", &s->cache_prompt, problem) ||
        !field_int(root, "timeout_ms", 1, INT32_MAX, &s->timeout_ms, problem)) {
        return false;
    }
    s->base64 = strcmp(format, "base64") == 0;
    if (!s->base64 && strcmp(format, "float") != 0) {
        return serve_fail(problem, 400, "invalid_value", "encoding_format",
                          "'encoding_format' is '%s', expected float or base64", format);
    }
    if (pooling != NULL && (s->pooling = serve_parse_pooling(pooling)) == LK_POOLING_NONE) {
        return serve_fail(problem, 400, "invalid_value", "pooling",
                          "'pooling' is '%s', expected mean, first or last", pooling);
    }
    if (dimensions != defaults->n_embd) {
        return serve_fail(problem, 400, "unsupported_value", "dimensions",
                          "'dimensions' is %lld, this model's embeddings have %d",
                          (long long)dimensions, defaults->n_embd);
    }
    return true;
}

static bool decode_all(const json_t *root, const serve_defaults *defaults, serve_settings *s,
                       serve_problem *problem) {
    if (s->kind == SERVE_EMBEDDING) {
        return decode_embedding(root, defaults, s, problem);
    }
    const bool has_prompt = s->kind == SERVE_CHAT
                                ? decode_messages(root, s, problem)
                                : decode_prompt(root, s, defaults->n_vocab, problem);
    return has_prompt && field_text(root, "model", 1024, &s->model, problem) &&
           serve_check_refused(root, s->kind, problem) &&
           field_bool(root, "stream", &s->stream, problem) &&
           decode_stream_options(root, s, problem) && decode_max_tokens(root, s, problem) &&
           decode_counts(root, s, defaults->max_choices, problem) &&
           decode_sampler(root, s, problem) && decode_bias(root, s, defaults->n_vocab, problem) &&
           decode_stop(root, s, problem) && decode_logprobs(root, s, problem) &&
           (s->kind != SERVE_COMPLETION || field_bool(root, "echo", &s->echo, problem)) &&
           field_bool(root, "ignore_eos", &s->ignore_eos, problem) &&
           decode_grammar(root, s, problem) && serve_decode_tools(root, s, problem) &&
           field_bool(root, "return_token_ids", &s->return_token_ids, problem) &&
           field_bool(root, "return_tokens", &s->return_token_ids, problem) &&
           field_bool(root, "receipt", &s->receipt, problem) &&
           field_bool(root, "cache_prompt", &s->cache_prompt, problem) &&
           field_int(root, "timeout_ms", 1, INT32_MAX, &s->timeout_ms, problem);
}

bool serve_decode(serve_kind kind, const char *body, size_t n_bytes, const serve_defaults *defaults,
                  serve_settings *s, serve_problem *problem) {
    *s = (serve_settings){
        .kind = kind,
        .max_tokens = defaults->max_tokens,
        .n = 1,
        .sampler = defaults->sampler,
        .cache_prompt = true,
    };
    s->root = serve_parse(body, n_bytes, problem);
    if (s->root == NULL || !decode_all(s->root, defaults, s, problem)) {
        serve_settings_free(s);
        return false;
    }
    return true;
}

void serve_settings_trim(serve_settings *s) {
    json_t *stop = json_incref(json_object_get(s->root, "stop"));
    (void)json_object_clear(s->root);
    (void)json_object_set_new(s->root, "stop", stop);
    s->model = NULL;
    s->messages = s->tools = s->prompt = NULL;
}

void serve_settings_free(serve_settings *s) {
    json_decref(s->root);
    free(s->biases);
    free(s->grammar_text);
    *s = (serve_settings){.root = NULL};
}
