/* server_embeddings.c - the answer of /v1/embeddings as text. Numbers are binary32: in decimal they
 * are read back exactly; in base64 they are their bytes, little-endian. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

static bool add_text(lk_buffer *out, const char *text) {
    return lk_buffer_add(out, text, strlen(text));
}

static bool add_numbers(lk_buffer *out, const float *values, size_t n) {
    bool ok = add_text(out, "[");
    for (size_t i = 0; i < n && ok; i++) {
        char number[32];
        (void)snprintf(number, sizeof number, "%s%.9g", i > 0 ? "," : "", (double)values[i]);
        ok = add_text(out, number);
    }
    return ok && add_text(out, "]");
}

/* Byte k of the values in a file. */
static uint32_t byte_at(const float *values, size_t n_bytes, size_t k) {
    uint32_t bits = 0;
    if (k >= n_bytes) {
        return 0;
    }
    memcpy(&bits, &values[k / 4], sizeof bits);
    return bits >> (8 * (k % 4)) & 0xff;
}

static bool add_base64(lk_buffer *out, const float *values, size_t n) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n_bytes = 4 * n;
    bool ok = add_text(out, "\"");
    for (size_t k = 0; k < n_bytes && ok; k += 3) {
        const uint32_t bits = byte_at(values, n_bytes, k) << 16 |
                              byte_at(values, n_bytes, k + 1) << 8 |
                              byte_at(values, n_bytes, k + 2);
        char group[4];
        for (size_t i = 0; i < 4; i++) {
            group[i] = k + i <= n_bytes ? letters[bits >> (18 - 6 * i) & 63] : '=';
        }
        ok = lk_buffer_add(out, group, sizeof group);
    }
    return ok && add_text(out, "\"");
}

static bool add_item(const serve_job *job, size_t i, lk_buffer *out) {
    const serve_choice *choice = &job->choices[i];
    char head[96];
    (void)snprintf(head, sizeof head,
                   "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i > 0 ? "," : "", i);
    return add_text(out, head) &&
           (job->settings.base64 ? add_base64(out, choice->embedding, choice->n_embedding)
                                 : add_numbers(out, choice->embedding, choice->n_embedding)) &&
           add_text(out, "}");
}

/* What follows the list: model, usage, fingerprint. */
static bool add_rest(const server *s, const serve_job *job, lk_buffer *out) {
    json_int_t n_prompt = 0;
    json_int_t n_cached = 0;
    for (size_t i = 0; i < job->n_choices; i++) {
        n_prompt += (json_int_t)job->prompts[i].n_ids;
        n_cached += job->choices[i].n_cached;
    }
    json_t *rest = json_pack(
        "{s:o, s:{s:I, s:I, s:{s:I}}, s:s}", "model", server_text(s->model_id, strlen(s->model_id)),
        "usage", "prompt_tokens", n_prompt, "total_tokens", n_prompt, "prompt_tokens_details",
        "cached_tokens", n_cached, "system_fingerprint", s->fingerprint);
    char *text = rest != NULL ? json_dumps(rest, JSON_COMPACT) : NULL;
    const bool ok = text != NULL && add_text(out, ",") && add_text(out, text + 1);
    free(text);
    json_decref(rest);
    return ok;
}

bool server_render_embeddings(const server *s, const serve_job *job, lk_buffer *out) {
    bool ok = add_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < job->n_choices && ok; i++) {
        ok = add_item(job, i, out);
    }
    return ok && add_text(out, "]") && add_rest(s, job, out);
}
