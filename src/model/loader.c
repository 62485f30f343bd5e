/* loader.c - reads hyperparameters and tensors for an architecture (see arch.h). Knows no
 * architecture. Invariant: whatever of the file is not marked as used at the end was read by
 * nobody. */
#include "model/loader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { MAX_NAME = 160 };

void lk_loader_fail(lk_loader *loader, lk_status status, const char *subject, const char *format,
                    ...) {
    if (loader->graph->status != LK_OK) {
        return;
    }
    char message[sizeof loader->graph->error.message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    loader->graph->status =
        lk_fail(&loader->graph->error, status, LK_AT_SUBJECT(subject), "%s", message);
}

static bool has_failed(const lk_loader *loader) {
    return loader->graph->status != LK_OK;
}

/* Whether `full` is "<arch>.<key>"; every key when `key` is NULL. */
static bool is_key(const lk_loader *loader, const char *full, const char *key) {
    const size_t n = strlen(loader->arch);
    return strncmp(full, loader->arch, n) == 0 && full[n] == '.' &&
           (key == NULL || strcmp(full + n + 1, key) == 0);
}

/* The index of the key among the metadata, or -1. */
static int64_t find(const lk_loader *loader, const char *key, lk_gguf_value *value) {
    const uint64_t n = lk_gguf_n_meta(loader->gguf);
    for (uint64_t i = 0; i < n; i++) {
        const char *full = NULL;
        if (lk_gguf_meta(loader->gguf, i, &full, value, NULL) == LK_OK &&
            is_key(loader, full, key)) {
            return (int64_t)i;
        }
    }
    return -1;
}

/* Finds a key and marks it as read. False after an error or where it is absent (an error when it is
 * required). */
static bool read_key(lk_loader *loader, const char *key, bool required, lk_gguf_value *value) {
    if (has_failed(loader)) {
        return false;
    }
    const int64_t i = find(loader, key, value);
    if (i >= 0) {
        loader->key_used[i] = true;
    } else if (required) {
        lk_loader_fail(loader, LK_E_FORMAT, key, "key %s.%s is missing", loader->arch, key);
    }
    return i >= 0;
}

static void fail_type(lk_loader *loader, const char *key, const lk_gguf_value *value,
                      const char *expected) {
    lk_loader_fail(loader, LK_E_FORMAT, key, "key %s.%s has type %s, expected %s", loader->arch,
                   key, lk_gguf_type_name(value->type), expected);
}

static bool is_integer(lk_gguf_type type) {
    return type <= LK_GGUF_I32 || type == LK_GGUF_U64 || type == LK_GGUF_I64 ||
           type == LK_GGUF_BOOL;
}

static int64_t array_element(const lk_gguf_value *value, uint64_t i) {
    const uint8_t *p = value->arr;
    switch (value->elem_type) {
    case LK_GGUF_U8:
    case LK_GGUF_BOOL:
        return p[i];
    case LK_GGUF_I8:
        return (int8_t)p[i];
    case LK_GGUF_U16:
        return lk_load_u16(p + 2 * i);
    case LK_GGUF_I16:
        return (int16_t)lk_load_u16(p + 2 * i);
    case LK_GGUF_U32:
        return lk_load_u32(p + 4 * i);
    case LK_GGUF_I32:
        return (int32_t)lk_load_u32(p + 4 * i);
    default:
        return (int64_t)lk_load_u64(p + 8 * i);
    }
}

/* The integer of a scalar, or the one that fills an array. */
static bool get_integer(lk_loader *loader, const char *key, const lk_gguf_value *value,
                        int64_t *out) {
    if (is_integer(value->type)) {
        *out = value->i;
        return true;
    }
    if (value->type != LK_GGUF_ARRAY || !is_integer(value->elem_type) || value->n == 0) {
        fail_type(loader, key, value, "an integer");
        return false;
    }
    *out = array_element(value, 0);
    for (uint64_t i = 1; i < value->n; i++) {
        if (array_element(value, i) != *out) {
            lk_loader_fail(
                loader, LK_E_UNSUPPORTED, key,
                "key %s.%s is %lld for the first layer and %lld for layer %llu, expected "
                "one value for all layers",
                loader->arch, key, (long long)*out, (long long)array_element(value, i),
                (unsigned long long)i);
            return false;
        }
    }
    return true;
}

static uint32_t read_u32(lk_loader *loader, const char *key, bool required, uint32_t fallback) {
    lk_gguf_value value;
    int64_t i = 0;
    if (!read_key(loader, key, required, &value) || !get_integer(loader, key, &value, &i)) {
        return fallback;
    }
    if (i < 0 || i > INT32_MAX) {
        lk_loader_fail(loader, LK_E_FORMAT, key, "key %s.%s is %lld, expected 0 .. %d",
                       loader->arch, key, (long long)i, INT32_MAX);
        return fallback;
    }
    return (uint32_t)i;
}

/* `found`, or 0 after an error. */
static uint32_t size_in_range(lk_loader *loader, const char *key, uint32_t found, uint32_t high) {
    if (found >= 1 && found <= high) {
        return found;
    }
    lk_loader_fail(loader, LK_E_FORMAT, key, "key %s.%s is %u, expected 1 .. %u", loader->arch, key,
                   found, high);
    return 0;
}

uint32_t lk_loader_size(lk_loader *loader, const char *key, uint32_t high) {
    return size_in_range(loader, key, read_u32(loader, key, true, 0), high);
}

uint32_t lk_loader_size_or(lk_loader *loader, const char *key, uint32_t high, uint32_t fallback) {
    return size_in_range(loader, key, read_u32(loader, key, false, fallback), high);
}

uint32_t lk_loader_u32_or(lk_loader *loader, const char *key, uint32_t fallback) {
    return read_u32(loader, key, false, fallback);
}

void lk_loader_u32s(lk_loader *loader, const char *key, uint32_t *out, uint32_t n) {
    lk_gguf_value value;
    memset(out, 0, n * sizeof out[0]);
    if (!read_key(loader, key, true, &value)) {
        return;
    }
    if (value.type != LK_GGUF_ARRAY || !is_integer(value.elem_type)) {
        fail_type(loader, key, &value, "an array of integers");
        return;
    }
    if (value.n != n) {
        lk_loader_fail(loader, LK_E_FORMAT, key, "key %s.%s has %llu elements, expected %u",
                       loader->arch, key, (unsigned long long)value.n, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        const int64_t element = array_element(&value, i);
        if (element < 0 || element > INT32_MAX) {
            lk_loader_fail(loader, LK_E_FORMAT, key, "element %u of key %s.%s is %lld", i,
                           loader->arch, key, (long long)element);
            return;
        }
        out[i] = (uint32_t)element;
    }
}

static double read_float(lk_loader *loader, const char *key, bool required, double fallback) {
    lk_gguf_value value;
    if (!read_key(loader, key, required, &value)) {
        return fallback;
    }
    if (value.type != LK_GGUF_F32 && value.type != LK_GGUF_F64) {
        fail_type(loader, key, &value, "a float");
        return fallback;
    }
    return value.f;
}

double lk_loader_float(lk_loader *loader, const char *key) {
    return read_float(loader, key, true, 0.0);
}

double lk_loader_float_or(lk_loader *loader, const char *key, double fallback) {
    return read_float(loader, key, false, fallback);
}

void lk_loader_text(lk_loader *loader, const char *key, char *text, size_t size) {
    lk_gguf_value value;
    text[0] = '\0';
    if (!read_key(loader, key, false, &value)) {
        return;
    }
    if (value.type != LK_GGUF_STRING || value.n >= size ||
        memchr(value.str, '\0', (size_t)value.n) != NULL) {
        fail_type(loader, key, &value, "a short string");
        return;
    }
    memcpy(text, value.str, (size_t)value.n);
    text[value.n] = '\0';
}

void lk_loader_ignore(lk_loader *loader, const char *key) {
    lk_gguf_value value;
    (void)read_key(loader, key, false, &value);
}

void lk_loader_expect(lk_loader *loader, const char *key, uint32_t expected) {
    lk_gguf_value value;
    const int64_t at = has_failed(loader) ? -1 : find(loader, key, &value);
    if (at < 0 || loader->key_used[at] || !read_key(loader, key, false, &value)) {
        return;
    }
    const bool is_float = value.type == LK_GGUF_F32 || value.type == LK_GGUF_F64;
    int64_t i = 0;
    if (!is_float && !get_integer(loader, key, &value, &i)) {
        return;
    }
    const double found = is_float ? value.f : (double)i;
    if (found != (double)expected) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, key,
                       "key %s.%s is %g, only %u is supported for this architecture", loader->arch,
                       key, found, expected);
    }
}

/* The weight's index, or n_weights. Begins behind the last one found. */
static size_t find_weight(lk_loader *loader, const char *name) {
    for (size_t k = 0; k < loader->n_weights; k++) {
        const size_t i = (loader->next_weight + k) % loader->n_weights;
        if (strcmp(loader->weights[i].name, name) == 0) {
            loader->next_weight = i;
            return i;
        }
    }
    return loader->n_weights;
}

static void full_name(const char *name, int32_t layer, char full[MAX_NAME]) {
    if (layer >= 0) {
        (void)snprintf(full, MAX_NAME, "blk.%d.%s", layer, name);
    } else {
        (void)snprintf(full, MAX_NAME, "%s", name);
    }
}

static const lk_weight *get_weight(lk_loader *loader, const char *name, int32_t layer,
                                   const lk_tensor_shape *shape, bool required) {
    if (has_failed(loader)) {
        return NULL;
    }
    char full[MAX_NAME];
    full_name(name, layer, full);
    if (loader->invent != NULL) {
        return loader->invent(loader->invent_ctx, full, shape, required);
    }
    const size_t i = find_weight(loader, full);
    if (i == loader->n_weights) {
        if (required) {
            lk_loader_fail(loader, LK_E_FORMAT, full, "tensor %s is missing", full);
        }
        return NULL;
    }
    loader->weight_used[i] = true;
    const lk_weight *w = &loader->weights[i];
    loader->graph->status =
        lk_weight_check_shape(w, shape->n_dims, shape->ne, &loader->graph->error);
    return has_failed(loader) ? NULL : w;
}

const lk_weight *lk_loader_weight(lk_loader *loader, const char *name, int32_t layer,
                                  lk_tensor_shape shape) {
    return get_weight(loader, name, layer, &shape, true);
}

const lk_weight *lk_loader_weight_or_null(lk_loader *loader, const char *name, int32_t layer,
                                          lk_tensor_shape shape) {
    return get_weight(loader, name, layer, &shape, false);
}

void lk_loader_ignore_tensor(lk_loader *loader, const char *name, int32_t layer) {
    if (has_failed(loader)) {
        return;
    }
    char full[MAX_NAME];
    full_name(name, layer, full);
    const size_t i = find_weight(loader, full);
    if (i < loader->n_weights) {
        loader->weight_used[i] = true;
    }
}

void lk_loader_ignore_all(lk_loader *loader, const char *key_prefix, const char *tensor_prefix) {
    const size_t n_arch = strlen(loader->arch) + 1;
    const uint64_t n_meta = lk_gguf_n_meta(loader->gguf);
    for (uint64_t i = 0; key_prefix != NULL && i < n_meta; i++) {
        const char *key = NULL;
        lk_gguf_value value;
        if (lk_gguf_meta(loader->gguf, i, &key, &value, NULL) == LK_OK &&
            is_key(loader, key, NULL) &&
            strncmp(key + n_arch, key_prefix, strlen(key_prefix)) == 0) {
            loader->key_used[i] = true;
        }
    }
    for (size_t i = 0; tensor_prefix != NULL && i < loader->n_weights; i++) {
        if (strncmp(loader->weights[i].name, tensor_prefix, strlen(tensor_prefix)) == 0) {
            loader->weight_used[i] = true;
        }
    }
}

void lk_loader_check_all_used(lk_loader *loader) {
    const uint64_t n_meta = lk_gguf_n_meta(loader->gguf);
    for (uint64_t i = 0; i < n_meta && !has_failed(loader); i++) {
        const char *key = NULL;
        lk_gguf_value value;
        if (!loader->key_used[i] && lk_gguf_meta(loader->gguf, i, &key, &value, NULL) == LK_OK &&
            is_key(loader, key, NULL)) {
            lk_loader_fail(
                loader, LK_E_UNSUPPORTED, key,
                "key %.128s is not known for architecture %s and could change the result", key,
                loader->arch);
        }
    }
    for (size_t i = 0; i < loader->n_weights && !has_failed(loader); i++) {
        const char *name = loader->weights[i].name;
        if (!loader->weight_used[i]) {
            lk_loader_fail(loader, LK_E_UNSUPPORTED, name,
                           "tensor %.128s is not known for architecture %s and could change the "
                           "result",
                           name, loader->arch);
        }
    }
}
