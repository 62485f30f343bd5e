/* open_model.c - see open_model.h. */
#include "open_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lk_model *lk_open_model(const char *command, const char *path, int64_t n_threads, bool repack) {
    lk_error err;
    lk_model *model = NULL;
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.progress = lk_progress_bar_draw;
    params.progress_ctx = &bar;
    params.n_threads = (uint32_t)n_threads;
    params.flags = repack ? 0 : LK_MODEL_NO_REPACK;
    const lk_status status = lk_model_open(path, &params, &model, &err);
    lk_progress_bar_clear(&bar);
    if (status != LK_OK) {
        (void)lk_console_failed(command, &err);
        return NULL;
    }
    if (lk_model_tokenizer(model) == NULL) {
        (void)lk_console_error(command, "%s has no tokenizer", path);
        lk_model_close(model);
        return NULL;
    }
    return model;
}

static const char *const kv_names[] = {
    [LK_KV_F32] = "f32",
    [LK_KV_F16] = "f16",
    [LK_KV_Q8_0] = "q8_0",
};

const char *lk_kv_type_name(lk_kv_type type) {
    return kv_names[type];
}

static bool parse_one(const char *text, size_t n, lk_kv_type *type) {
    for (size_t i = 0; i < sizeof kv_names / sizeof kv_names[0]; i++) {
        if (strlen(kv_names[i]) == n && strncmp(kv_names[i], text, n) == 0) {
            *type = (lk_kv_type)i;
            return true;
        }
    }
    return false;
}

bool lk_check_device(const char *command, int64_t device) {
    lk_device_info info = LK_DEVICE_INFO_INIT;
    lk_error err;
    return device == LK_DEVICE_CPU || lk_device_get_info((uint32_t)device, &info, &err) == LK_OK ||
           lk_console_error(command, "--device %lld: %s", (long long)device, err.message) == 0;
}

bool lk_parse_kv_type(const char *command, const char *text, lk_kv_type *k, lk_kv_type *v) {
    const char *comma = strchr(text, ',');
    const size_t n = comma != NULL ? (size_t)(comma - text) : strlen(text);
    const char *second = comma != NULL ? comma + 1 : text;
    if (parse_one(text, n, k) && parse_one(second, strlen(second), v)) {
        return true;
    }
    (void)lk_console_error(command,
                           "--kv-type needs f32, f16 or q8_0, or two of them for keys and values "
                           "(q8_0,f16), not '%s'",
                           text);
    return false;
}

int32_t *lk_encode(const char *command, const lk_tokenizer *tokenizer, const char *text,
                   size_t n_bytes, uint32_t flags, size_t *n_ids) {
    lk_error err;
    size_t capacity = n_bytes / 2 + 16;
    for (;;) {
        int32_t *ids = malloc(capacity * sizeof ids[0]);
        if (ids == NULL) {
            (void)lk_console_error(command, "out of memory for %zu tokens", capacity);
            return NULL;
        }
        const lk_status status =
            lk_tokenizer_encode(tokenizer, text, n_bytes, flags, ids, capacity, n_ids, &err);
        if (status == LK_OK) {
            return ids;
        }
        free(ids);
        if (status != LK_E_LIMIT || *n_ids <= capacity) {
            (void)lk_console_failed(command, &err);
            return NULL;
        }
        capacity = *n_ids;
    }
}

void lk_hex(const uint8_t *bytes, size_t n, char *text) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * n] = '\0';
}
