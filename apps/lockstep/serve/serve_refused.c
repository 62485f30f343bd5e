/* serve_refused.c - see serve_refused.h. One list of names; a field joins it when a client is known
 * to send it and leaving it aside would give another answer than was asked for. */
#include "serve_refused.h"

#include <stdio.h>
#include <string.h>

enum {
    IN_CHAT = 1 << SERVE_CHAT,
    IN_COMPLETION = 1 << SERVE_COMPLETION,
    IN_LLAMA = 1 << SERVE_LLAMA,
    IN_ALL = IN_CHAT | IN_COMPLETION | IN_LLAMA
};

typedef struct refusal {
    const char *name;
    const char *harmless; /* values that ask for nothing, beside those of is_nothing */
    unsigned kinds;       /* endpoints that refuse it */
    bool is_asked_by_false;
} refusal;

static const refusal refusals[] = {
    /* OpenAI's. */
    {"functions", NULL, IN_ALL, false},
    {"function_call", "none|auto", IN_ALL, false},
    {"audio", NULL, IN_ALL, false},
    {"prediction", NULL, IN_ALL, false},
    {"web_search_options", NULL, IN_ALL, false},
    {"suffix", NULL, IN_ALL, false},
    /* llama-server's. */
    {"input_prefix", NULL, IN_ALL, false},
    {"input_suffix", NULL, IN_ALL, false},
    {"input_extra", NULL, IN_ALL, false},
    {"image_data", NULL, IN_ALL, false},
    {"lora", NULL, IN_ALL, false},
    {"samplers", NULL, IN_ALL, false},
    {"dry_multiplier", NULL, IN_ALL, false},
    {"xtc_probability", NULL, IN_ALL, false},
    {"dynatemp_range", NULL, IN_ALL, false},
    {"mirostat", NULL, IN_ALL, false},
    {"top_n_sigma", NULL, IN_ALL, false},
    {"min_keep", NULL, IN_ALL, false},
    {"post_sampling_probs", NULL, IN_ALL, false},
    {"t_max_predict_ms", NULL, IN_ALL, false},
    {"n_indent", NULL, IN_ALL, false},
    {"n_cmpl", "1", IN_ALL, false},
    {"response_fields", NULL, IN_ALL, false},
    {"timings_per_token", NULL, IN_ALL, false},
    {"return_progress", NULL, IN_ALL, false},
    /* vLLM's. */
    {"guided_json", NULL, IN_ALL, false},
    {"guided_regex", NULL, IN_ALL, false},
    {"guided_choice", NULL, IN_ALL, false},
    {"guided_grammar", NULL, IN_ALL, false},
    {"structured_outputs", NULL, IN_ALL, false},
    {"use_beam_search", NULL, IN_ALL, false},
    {"length_penalty", "1", IN_ALL, false},
    {"min_tokens", NULL, IN_ALL, false},
    {"stop_token_ids", NULL, IN_ALL, false},
    {"bad_words", NULL, IN_ALL, false},
    {"allowed_token_ids", NULL, IN_ALL, false},
    {"include_stop_str_in_output", NULL, IN_ALL, false},
    {"skip_special_tokens", "true", IN_ALL, true},
    {"prompt_logprobs", NULL, IN_ALL, false},
    {"truncate_prompt_tokens", NULL, IN_ALL, false},
    {"continue_final_message", NULL, IN_ALL, false},
    {"logits_processors", NULL, IN_ALL, false},
    /* Of another endpoint. */
    {"messages", NULL, IN_COMPLETION | IN_LLAMA, false},
    {"chat_template_kwargs", NULL, IN_COMPLETION | IN_LLAMA, false},
    {"reasoning_effort", "none", IN_COMPLETION | IN_LLAMA, false},
    {"top_logprobs", NULL, IN_COMPLETION | IN_LLAMA, false},
    {"prompt", NULL, IN_CHAT, false},
    {"echo", NULL, IN_CHAT | IN_LLAMA, false},
    {"n_probs", NULL, IN_CHAT | IN_COMPLETION, false},
    {"logprobs", NULL, IN_LLAMA, false},
    {"n", "1", IN_LLAMA, false},
};

static bool is_nothing(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL:
    case JSON_FALSE:
        return true;
    case JSON_STRING:
        return json_string_length(value) == 0;
    case JSON_ARRAY:
        return json_array_size(value) == 0;
    case JSON_OBJECT:
        return json_object_size(value) == 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return json_number_value(value) <= 0;
    default:
        return false;
    }
}

/* Whether a text, a number or true is in a list. */
static bool is_listed(const json_t *value, const char *list) {
    char number[32];
    const char *text = json_is_true(value) ? "true" : json_string_value(value);
    if (json_is_number(value)) {
        (void)snprintf(number, sizeof number, "%g", json_number_value(value));
        text = number;
    }
    return text != NULL && list != NULL && field_is_one_of(text, list);
}

static bool asks_for(const refusal *r, const json_t *value) {
    if (json_is_null(value) || is_listed(value, r->harmless)) {
        return false;
    }
    return !is_nothing(value) || (r->is_asked_by_false && json_is_false(value));
}

static bool check_modalities(const json_t *root, serve_problem *problem) {
    const json_t *modalities = json_object_get(root, "modalities");
    const json_t *item = NULL;
    size_t i = 0;
    json_array_foreach(modalities, i, item) {
        if (!json_is_string(item) || strcmp(json_string_value(item), "text") != 0) {
            return serve_fail(problem, 400, "unsupported_value", "modalities",
                              "'modalities' is only supported as [\"text\"]");
        }
    }
    return true;
}

bool serve_check_refused(const json_t *root, serve_kind kind, serve_problem *problem) {
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        const json_t *value = json_object_get(root, r->name);
        if (value == NULL || (r->kinds >> kind & 1u) == 0 || !asks_for(r, value)) {
            continue;
        }
        return serve_fail(problem, 400, "unsupported_parameter", r->name,
                          r->kinds == IN_ALL ? "'%s' is not supported by this server"
                                             : "'%s' is not supported by this endpoint",
                          r->name);
    }
    return check_modalities(root, problem);
}

bool serve_check_refused_input(const json_t *root, serve_problem *problem) {
    static const char *const names[] = {"truncate_prompt_tokens", "receipt", "stream"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *value = json_object_get(root, names[i]);
        if (value != NULL && !json_is_null(value) && !json_is_false(value)) {
            return serve_fail(problem, 400, "unsupported_parameter", names[i],
                              "'%s' is not supported for embeddings", names[i]);
        }
    }
    return true;
}
