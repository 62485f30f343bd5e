/* server_receipt.c - the receipt of a choice: all that another machine needs to compute it again,
 * and the digest of the logits of every token to hold its own against (docs/serve.md). */
#include <math.h>

#include "server.h"
#include "shared/open_model.h"

static json_t *bias_list(const lk_sampler_params *p) {
    json_t *list = json_array();
    for (int32_t i = 0; i < p->n_logit_bias; i++) {
        const double bias = (double)p->logit_bias[i].bias;
        /* null: the token is banned; JSON has no infinity. */
        (void)json_array_append_new(list,
                                    json_pack("[i, o]", p->logit_bias[i].token,
                                              isfinite(bias) ? json_real(bias) : json_null()));
    }
    return list;
}

/* Numbers are binary32, written so that they are read back exactly. */
static json_t *sampler_object(const lk_sampler_params *p) {
    return json_pack("{s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:o}", "temperature",
                     (double)p->temperature, "top_k", p->top_k, "top_p", (double)p->top_p, "min_p",
                     (double)p->min_p, "typical_p", (double)p->typical_p, "repeat_penalty",
                     (double)p->repeat_penalty, "presence_penalty", (double)p->presence_penalty,
                     "frequency_penalty", (double)p->frequency_penalty, "repeat_last_n",
                     p->penalty_last_n, "logit_bias", bias_list(p));
}

/* Where the recordings stand in the prompt, and digests of the samples and of the vectors. */
static json_t *audio_list(const serve_job *job) {
    json_t *list = json_array();
    for (size_t i = 0; i < job->n_clips; i++) {
        char samples[65];
        char vectors[33];
        lk_hex(job->vectors[i].samples, 32, samples);
        lk_hex(job->vectors[i].digest, 16, vectors);
        (void)json_array_append_new(
            list, json_pack("{s:I, s:I, s:s, s:s}", "first", (json_int_t)job->spans[i].first, "n",
                            (json_int_t)job->spans[i].n, "samples", samples, "vectors", vectors));
    }
    return list;
}

json_t *server_receipt(const server *s, const serve_job *job, size_t i_choice) {
    const serve_prompt *prompt = &job->prompts[i_choice / (size_t)job->settings.n];
    const serve_tokens *tokens = &job->choices[i_choice].tokens;
    json_t *prompt_ids = json_array();
    json_t *ids = json_array();
    json_t *digests = json_array();
    for (size_t i = 0; i < prompt->n_ids; i++) {
        (void)json_array_append_new(prompt_ids, json_integer(prompt->ids[i]));
    }
    for (size_t i = 0; i < tokens->n; i++) {
        char hex[33];
        lk_hex(tokens->items[i].digest, 16, hex);
        (void)json_array_append_new(ids, json_integer(tokens->items[i].id));
        (void)json_array_append_new(digests, json_string(hex));
    }
    const char *kind = serve_grammar_name(job->settings.grammar);
    json_t *grammar = json_null();
    if (kind != NULL) {
        grammar = json_pack("{s:s, s:s?}", "kind", kind, "text", job->settings.grammar_text);
    }
    json_t *receipt = json_pack(
        "{s:i, s:s, s:s, s:[s, s], s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "receipt", 1, "model",
        s->digest, "numerics", lk_numerics_version(), "kv_types",
        lk_kv_type_name(s->options.k_type), lk_kv_type_name(s->options.v_type), "sampler",
        sampler_object(&job->sampler), "grammar", grammar, "seed", (json_int_t)job->sampler.seed,
        "choice", (json_int_t)i_choice, "prompt_ids", prompt_ids, "ids", ids, "digests", digests);
    if (receipt != NULL && job->n_clips > 0) {
        (void)json_object_set_new(receipt, "audio", audio_list(job));
    }
    return receipt;
}
