/* verify_receipt_read.c - see verify_receipt_read.h. */
#include "verify_receipt_read.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/open_model.h"

typedef struct reader {
    verify_receipt *receipt;
    char *why;
    size_t size;
} reader;

static bool fail(const reader *r, const char *what) {
    (void)snprintf(r->why, r->size, "%s", what);
    return false;
}

static int hex_value(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "" is a row whose logits were not seen. */
static bool read_digest(const json_t *json, bool *has, uint8_t *digest) {
    const char *text = json_string_value(json);
    const size_t n = json_string_length(json);
    *has = n > 0;
    if (text == NULL || (n != 0 && n != 2 * (size_t)VERIFY_RECEIPT_DIGEST)) {
        return false;
    }
    for (size_t i = 0; i < n / 2; i++) {
        const int high = hex_value(text[2 * i]);
        const int low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* An integer from low to high. */
static bool read_int(const json_t *object, const char *name, int32_t low, int32_t high,
                     int32_t *value) {
    const json_t *json = json_object_get(object, name);
    const json_int_t x = json_integer_value(json);
    if (!json_is_integer(json) || x < low || x > high) {
        return false;
    }
    *value = (int32_t)x;
    return true;
}

static bool read_run(const reader *r, const json_t *json, verify_receipt_run *run) {
    const json_t *ids = json_object_get(json, "ids");
    const json_t *digests = json_object_get(json, "digests");
    const size_t n = json_array_size(ids);
    if (!read_int(json, "prompt", 0, INT32_MAX, &run->i_prompt) ||
        !read_int(json, "n", 1, VERIFY_RECEIPT_TOKENS, &run->n)) {
        return fail(r, "a run has no 'prompt', or no 'n' from 1 to 1048576");
    }
    if (!json_is_array(ids) || n > (size_t)run->n || !json_is_array(digests) ||
        json_array_size(digests) != n) {
        return fail(r, "a run's 'ids' and 'digests' are not lists of one length, 'n' at most");
    }
    run->ids = calloc(n + 1, sizeof run->ids[0]);
    run->has_digest = calloc(n + 1, sizeof run->has_digest[0]);
    run->digests = calloc(n + 1, VERIFY_RECEIPT_DIGEST);
    if (run->ids == NULL || run->has_digest == NULL || run->digests == NULL) {
        return fail(r, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        const json_int_t x = json_integer_value(id);
        if (!json_is_integer(id) || x < 0 || x > INT32_MAX) {
            return fail(r, "a run's 'ids' are not all token ids");
        }
        if (!read_digest(json_array_get(digests, i), &run->has_digest[i],
                         run->digests + i * VERIFY_RECEIPT_DIGEST)) {
            return fail(r, "a run's 'digests' are not all texts of 32 hexadecimal digits");
        }
        run->ids[i] = (int32_t)x;
    }
    run->n_tokens = (int32_t)n;
    return true;
}

static bool read_kv_type(const json_t *object, const char *name, lk_kv_type *type) {
    const char *text = json_string_value(json_object_get(object, name));
    for (int k = LK_KV_F32; text != NULL && k <= LK_KV_Q8_0; k++) {
        if (strcmp(text, lk_kv_type_name((lk_kv_type)k)) == 0) {
            *type = (lk_kv_type)k;
            return true;
        }
    }
    return false;
}

static bool read_type(const reader *r, const json_t *json, verify_receipt_type *type) {
    const json_t *runs = json_object_get(json, "runs");
    const size_t n = json_array_size(runs);
    if (!read_kv_type(json, "k_type", &type->k_type) ||
        !read_kv_type(json, "v_type", &type->v_type)) {
        return fail(r, "its 'k_type' and 'v_type' are not KV types that are known here");
    }
    if (n < 1 || n > VERIFY_RECEIPT_RUNS) {
        return fail(r, "a KV type has no list of 1 to 32 'runs'");
    }
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        type->n_runs = i + 1; /* what is half read is freed, too */
        ok = read_run(r, json_array_get(runs, i), &type->runs[i]);
    }
    return ok;
}

static bool read_head(const reader *r, const json_t *root) {
    const char *model = json_string_value(json_object_get(root, "model"));
    const char *numerics = json_string_value(json_object_get(root, "numerics"));
    const json_t *prompts = json_object_get(root, "prompts");
    if (json_integer_value(json_object_get(root, "lockstep_verify_receipt")) !=
            VERIFY_RECEIPT_VERSION ||
        model == NULL || strlen(model) != sizeof r->receipt->model - 1 || numerics == NULL ||
        strlen(numerics) >= sizeof r->receipt->numerics || !json_is_integer(prompts)) {
        return fail(r, "this is no receipt of `lockstep verify --record`");
    }
    memcpy(r->receipt->model, model, sizeof r->receipt->model);
    (void)snprintf(r->receipt->numerics, sizeof r->receipt->numerics, "%s", numerics);
    r->receipt->prompts = json_integer_value(prompts);
    return true;
}

static bool read_types(const reader *r, const json_t *root) {
    const json_t *types = json_object_get(root, "types");
    const size_t n = json_array_size(types);
    if (n < 1 || n > VERIFY_RECEIPT_TYPES) {
        return fail(r, "it has no list of 1 to 9 'types'");
    }
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        r->receipt->n_types = i + 1;
        ok = read_type(r, json_array_get(types, i), &r->receipt->types[i]);
    }
    return ok;
}

bool verify_receipt_read(const char *bytes, size_t n, verify_receipt *receipt, char *why,
                         size_t size) {
    const reader r = {receipt, why, size};
    memset(receipt, 0, sizeof *receipt);
    if (n > VERIFY_RECEIPT_BYTES) {
        return fail(&r, "it is larger than any receipt");
    }
    json_t *root = json_loadb(bytes, n, 0, NULL);
    const bool ok = read_head(&r, root) && read_types(&r, root);
    json_decref(root);
    if (!ok) {
        verify_receipt_free(receipt);
    }
    return ok;
}

void verify_receipt_free(verify_receipt *receipt) {
    for (size_t i = 0; i < receipt->n_types; i++) {
        for (size_t k = 0; k < receipt->types[i].n_runs; k++) {
            free(receipt->types[i].runs[k].ids);
            free(receipt->types[i].runs[k].has_digest);
            free(receipt->types[i].runs[k].digests);
        }
    }
    memset(receipt, 0, sizeof *receipt);
}
