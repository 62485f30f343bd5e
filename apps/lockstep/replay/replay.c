/* replay.c - see replay.h. */
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/console.h"
#include "shared/open_model.h"

enum { MAX_TOKENS = 1 << 26 };

static bool is_receipt(const json_t *json) {
    return json_is_integer(json_object_get(json, "receipt"));
}

const json_t *replay_find(const json_t *root, size_t i) {
    if (is_receipt(root)) {
        return i == 0 ? root : NULL;
    }
    const json_t *own = json_object_get(root, "receipt");
    if (json_is_object(own)) {
        return i == 0 ? own : NULL;
    }
    const json_t *choice = NULL;
    size_t k = 0;
    json_array_foreach(json_object_get(root, "choices"), k, choice) {
        const json_t *found = json_object_get(choice, "receipt");
        if (json_is_object(found) && i-- == 0) {
            return found;
        }
    }
    return NULL;
}

static bool fail(const char *name, const char *wanted) {
    (void)lk_console_error("replay", "the receipt's '%s' is not %s", name, wanted);
    return false;
}

static bool read_real(const json_t *object, const char *name, float *value) {
    const json_t *found = json_object_get(object, name);
    if (!json_is_number(found)) {
        return fail(name, "a number");
    }
    *value = (float)json_number_value(found);
    return true;
}

static bool read_int(const json_t *object, const char *name, int32_t *value) {
    const json_t *found = json_object_get(object, name);
    if (!json_is_integer(found) || json_integer_value(found) < INT32_MIN ||
        json_integer_value(found) > INT32_MAX) {
        return fail(name, "an integer of 32 bits");
    }
    *value = (int32_t)json_integer_value(found);
    return true;
}

static bool read_biases(const json_t *sampler, replay_receipt *r) {
    const json_t *list = json_object_get(sampler, "logit_bias");
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > LK_MAX_LOGIT_BIAS) {
        return fail("logit_bias", "a list of [token, bias]");
    }
    r->biases = calloc(n + 1, sizeof r->biases[0]);
    for (size_t i = 0; i < n && r->biases != NULL; i++) {
        const json_t *token = json_array_get(json_array_get(list, i), 0);
        const json_t *bias = json_array_get(json_array_get(list, i), 1);
        if (!json_is_integer(token) || !(json_is_number(bias) || json_is_null(bias))) {
            return fail("logit_bias", "a list of [token, bias]");
        }
        r->biases[i].token = (int32_t)json_integer_value(token);
        r->biases[i].bias = json_is_null(bias) ? -INFINITY : (float)json_number_value(bias);
    }
    r->sampler.logit_bias = r->biases;
    r->sampler.n_logit_bias = (int32_t)n;
    return r->biases != NULL;
}

static bool read_sampler(const json_t *json, replay_receipt *r) {
    const json_t *sampler = json_object_get(json, "sampler");
    lk_sampler_params *p = &r->sampler;
    const json_t *seed = json_object_get(json, "seed");
    int32_t choice = 0;
    *p = LK_SAMPLER_PARAMS_INIT;
    if (!json_is_object(sampler)) {
        return fail("sampler", "an object");
    }
    if (!json_is_integer(seed)) {
        return fail("seed", "an integer");
    }
    p->seed = (uint64_t)json_integer_value(seed);
    const bool ok =
        read_int(json, "choice", &choice) && read_real(sampler, "temperature", &p->temperature) &&
        read_int(sampler, "top_k", &p->top_k) && read_real(sampler, "top_p", &p->top_p) &&
        read_real(sampler, "min_p", &p->min_p) && read_real(sampler, "typical_p", &p->typical_p) &&
        read_real(sampler, "repeat_penalty", &p->repeat_penalty) &&
        read_real(sampler, "presence_penalty", &p->presence_penalty) &&
        read_real(sampler, "frequency_penalty", &p->frequency_penalty) &&
        read_int(sampler, "repeat_last_n", &p->penalty_last_n) && read_biases(sampler, r);
    p->choice = (uint32_t)choice;
    return ok;
}

static bool read_ids(const json_t *json, const char *name, int32_t *ids) {
    const json_t *id = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(json, name), i, id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX) {
            return fail(name, "a list of token ids");
        }
        ids[i] = (int32_t)json_integer_value(id);
    }
    return true;
}

static bool read_tokens(const json_t *json, replay_receipt *r) {
    r->n_prompt = json_array_size(json_object_get(json, "prompt_ids"));
    r->n_ids = json_array_size(json_object_get(json, "ids"));
    r->digests = json_object_get(json, "digests");
    if (r->n_prompt == 0 || r->n_prompt + r->n_ids > MAX_TOKENS) {
        return fail("prompt_ids", "a list of token ids that is not empty");
    }
    if (json_array_size(r->digests) != r->n_ids) {
        return fail("digests", "a list as long as 'ids'");
    }
    for (size_t i = 0; i < r->n_ids; i++) {
        if (json_string_length(json_array_get(r->digests, i)) != 32) {
            return fail("digests", "a list of texts of 32 hexadecimal digits");
        }
    }
    r->tokens = malloc((r->n_prompt + r->n_ids) * sizeof r->tokens[0]);
    return r->tokens != NULL && read_ids(json, "prompt_ids", r->tokens) &&
           read_ids(json, "ids", r->tokens + r->n_prompt);
}

static bool read_kv_types(const json_t *json, replay_receipt *r) {
    const json_t *types = json_object_get(json, "kv_types");
    lk_kv_type unused = LK_KV_F16;
    if (json_array_size(types) != 2 || !json_is_string(json_array_get(types, 0)) ||
        !json_is_string(json_array_get(types, 1))) {
        return fail("kv_types", "a list of two names");
    }
    return lk_parse_kv_type("replay", json_string_value(json_array_get(types, 0)), &r->k_type,
                            &unused) &&
           lk_parse_kv_type("replay", json_string_value(json_array_get(types, 1)), &r->v_type,
                            &unused);
}

static bool read_clips(const json_t *json, replay_receipt *r) {
    const json_t *list = json_object_get(json, "audio");
    size_t end = 0;
    r->n_clips = json_array_size(list);
    if ((list != NULL && !json_is_array(list)) || r->n_clips > LK_MAX_MEDIA) {
        return fail("audio", "a list of recordings");
    }
    for (size_t i = 0; i < r->n_clips; i++) {
        const json_t *clip = json_array_get(list, i);
        const json_int_t first = json_integer_value(json_object_get(clip, "first"));
        const json_int_t n = json_integer_value(json_object_get(clip, "n"));
        r->clips[i].samples = json_string_value(json_object_get(clip, "samples"));
        r->clips[i].vectors = json_string_value(json_object_get(clip, "vectors"));
        if (first < (json_int_t)end || n < 1 || first > (json_int_t)r->n_prompt ||
            n > (json_int_t)r->n_prompt - first || r->clips[i].samples == NULL ||
            r->clips[i].vectors == NULL) {
            return fail("audio", "a list of recordings inside the prompt, one after another");
        }
        r->clips[i].first = (size_t)first;
        r->clips[i].n = (size_t)n;
        end = (size_t)(first + n);
    }
    return true;
}

bool replay_read(const json_t *json, replay_receipt *r) {
    *r = (replay_receipt){.model = json_string_value(json_object_get(json, "model")),
                          .numerics = json_string_value(json_object_get(json, "numerics"))};
    bool ok = true;
    if (!is_receipt(json) || json_integer_value(json_object_get(json, "receipt")) != 1) {
        ok = fail("receipt", "1, the version that is known here");
    } else if (r->model == NULL || r->numerics == NULL) {
        ok = fail(r->model == NULL ? "model" : "numerics", "a text");
    }
    r->grammar = json_object_get(json, "grammar");
    r->grammar = json_is_null(r->grammar) ? NULL : r->grammar;
    ok = ok && read_kv_types(json, r) && read_sampler(json, r) && read_tokens(json, r) &&
         read_clips(json, r);
    if (!ok) {
        replay_free(r);
    }
    return ok;
}

void replay_free(replay_receipt *r) {
    free(r->biases);
    free(r->tokens);
    r->biases = NULL;
    r->tokens = NULL;
}
