/* model_vocab.c - reads the keys tokenizer.ggml.* of a GGUF file into an lk_vocab_source. Checks
 * types and counts; what the values mean is checked by the tokenizer. */
#include "model/model_vocab.h"

#include <string.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

#define MAX_NAME 64

static lk_status fail_type(const char *key, const lk_gguf_value *value, const char *expected,
                           lk_error *err) {
    const bool is_array = value->type == LK_GGUF_ARRAY;
    return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(value->offset, key),
                   "%s at offset %llu is %s%s, expected %s", key, (unsigned long long)value->offset,
                   is_array ? "an array of " : "",
                   lk_gguf_type_name(is_array ? value->elem_type : value->type), expected);
}

/* *found says whether the file has the key; only other failures than its absence are returned. */
static lk_status find(const lk_gguf *gguf, const char *key, lk_gguf_value *value, bool *found,
                      lk_error *err) {
    const lk_status status = lk_gguf_find(gguf, key, value, NULL);
    *found = status == LK_OK;
    if (status == LK_OK || status == LK_E_NOT_FOUND) {
        return LK_OK;
    }
    return lk_gguf_find(gguf, key, value, err);
}

/* A short name into `out` [MAX_NAME]; *name stays NULL when the key is absent. */
static lk_status read_name(const lk_gguf *gguf, const char *key, char *out, const char **name,
                           lk_error *err) {
    lk_gguf_value value;
    bool found = false;
    const lk_status status = find(gguf, key, &value, &found, err);
    if (status != LK_OK || !found) {
        return status;
    }
    if (value.type != LK_GGUF_STRING) {
        return fail_type(key, &value, "a string", err);
    }
    if (value.n >= MAX_NAME || memchr(value.str, '\0', (size_t)value.n) != NULL) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_OFFSET(value.offset, key),
                       "%s is \"%.*s...\", which is not known", key, MAX_NAME / 2, value.str);
    }
    memcpy(out, value.str, (size_t)value.n);
    out[value.n] = '\0';
    *name = out;
    return LK_OK;
}

static bool is_integer(lk_gguf_type type) {
    return type == LK_GGUF_U8 || type == LK_GGUF_I8 || type == LK_GGUF_U16 || type == LK_GGUF_I16 ||
           type == LK_GGUF_U32 || type == LK_GGUF_I32 || type == LK_GGUF_U64 || type == LK_GGUF_I64;
}

/* Leaves *out alone when the key is absent. Converters write -1, as some unsigned type, for "none".
 */
static lk_status read_id(const lk_gguf *gguf, const char *key, int64_t *out, lk_error *err) {
    lk_gguf_value value;
    bool found = false;
    const lk_status status = find(gguf, key, &value, &found, err);
    if (status != LK_OK || !found) {
        return status;
    }
    if (!is_integer(value.type)) {
        return fail_type(key, &value, "an integer", err);
    }
    *out = value.i == (int64_t)UINT32_MAX ? -1 : value.i;
    return LK_OK;
}

static lk_status read_flag(const lk_gguf *gguf, const char *key, int *out, lk_error *err) {
    lk_gguf_value value;
    bool found = false;
    const lk_status status = find(gguf, key, &value, &found, err);
    if (status != LK_OK || !found) {
        return status;
    }
    if (value.type != LK_GGUF_BOOL) {
        return fail_type(key, &value, "a bool", err);
    }
    *out = value.i != 0;
    return LK_OK;
}

/* An array of numbers with one element for each token; *out stays NULL when the key is absent. */
static lk_status read_numbers(const lk_gguf *gguf, const char *key, lk_gguf_type type,
                              lk_gguf_type other, const char *expected, uint64_t n,
                              const void **out, lk_error *err) {
    lk_gguf_value value;
    bool found = false;
    const lk_status status = find(gguf, key, &value, &found, err);
    if (status != LK_OK || !found) {
        return status;
    }
    if (value.type != LK_GGUF_ARRAY || (value.elem_type != type && value.elem_type != other)) {
        return fail_type(key, &value, expected, err);
    }
    if (value.n != n) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(value.offset, key),
                       "%s has %llu elements, expected %llu, one for each token", key,
                       (unsigned long long)value.n, (unsigned long long)n);
    }
    *out = value.arr;
    return LK_OK;
}

typedef struct string_array {
    const lk_gguf *gguf;
    lk_gguf_value value;
} string_array;

static lk_status string_at(void *ctx, uint64_t i, const char **text, uint64_t *n_bytes,
                           lk_error *err) {
    const string_array *array = ctx;
    return lk_gguf_array_string(array->gguf, &array->value, i, text, n_bytes, err);
}

static lk_status read_strings(const lk_gguf *gguf, const char *key, string_array *array,
                              uint64_t *n, lk_error *err) {
    bool found = false;
    array->gguf = gguf;
    const lk_status status = find(gguf, key, &array->value, &found, err);
    if (status != LK_OK || !found) {
        return status;
    }
    if (array->value.type != LK_GGUF_ARRAY || array->value.elem_type != LK_GGUF_STRING) {
        return fail_type(key, &array->value, "an array of strings", err);
    }
    *n = array->value.n;
    return LK_OK;
}

/* Some files ask for a treatment of the text that this build does not have. Going on without would
 * give wrong tokens. */
static lk_status refuse_unsupported(const lk_gguf *gguf, lk_error *err) {
    int removes_spaces = 0;
    lk_gguf_value value;
    bool found = false;
    lk_status status =
        read_flag(gguf, "tokenizer.ggml.remove_extra_whitespaces", &removes_spaces, err);
    if (status == LK_OK && removes_spaces) {
        return lk_fail(err, LK_E_UNSUPPORTED,
                       LK_AT_SUBJECT("tokenizer.ggml.remove_extra_whitespaces"),
                       "the tokenizer removes extra white space, which this build cannot do");
    }
    if (status == LK_OK) {
        status = find(gguf, "tokenizer.ggml.precompiled_charsmap", &value, &found, err);
    }
    if (status == LK_OK && found && value.n != 0) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("tokenizer.ggml.precompiled_charsmap"),
                       "the tokenizer has a map of characters, which this build cannot apply");
    }
    return status;
}

static lk_status read_ids_and_flags(const lk_gguf *gguf, lk_vocab_source *source, lk_error *err) {
    const struct {
        const char *key;
        int64_t *out;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", &source->bos},
        {"tokenizer.ggml.eos_token_id", &source->eos},
        {"tokenizer.ggml.eot_token_id", &source->eot},
        {"tokenizer.ggml.eom_token_id", &source->eom},
        {"tokenizer.ggml.unknown_token_id", &source->unknown},
    };
    const struct {
        const char *key;
        int *out;
    } flags[] = {
        {"tokenizer.ggml.add_bos_token", &source->add_bos},
        {"tokenizer.ggml.add_eos_token", &source->add_eos},
        {"tokenizer.ggml.add_space_prefix", &source->add_space_prefix},
    };
    lk_status status = LK_OK;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0] && status == LK_OK; i++) {
        status = read_id(gguf, ids[i].key, ids[i].out, err);
    }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && status == LK_OK; i++) {
        status = read_flag(gguf, flags[i].key, flags[i].out, err);
    }
    return status;
}

static lk_status read_source(const lk_gguf *gguf, lk_vocab_source *source, string_array *tokens,
                             string_array *merges, lk_error *err) {
    lk_status status = read_strings(gguf, "tokenizer.ggml.tokens", tokens, &source->n_tokens, err);
    if (status == LK_OK) {
        status = read_strings(gguf, "tokenizer.ggml.merges", merges, &source->n_merges, err);
    }
    source->token = string_at;
    source->token_ctx = tokens;
    source->merge = string_at;
    source->merge_ctx = merges;
    if (status == LK_OK) {
        status = read_numbers(gguf, "tokenizer.ggml.scores", LK_GGUF_F32, LK_GGUF_F32,
                              "an array of f32", source->n_tokens, &source->scores, err);
    }
    if (status == LK_OK) {
        status = read_numbers(gguf, "tokenizer.ggml.token_type", LK_GGUF_I32, LK_GGUF_U32,
                              "an array of i32", source->n_tokens, &source->types, err);
    }
    if (status == LK_OK) {
        status = read_ids_and_flags(gguf, source, err);
    }
    return status == LK_OK ? refuse_unsupported(gguf, err) : status;
}

lk_status lk_tokenizer_create_from_gguf(const lk_gguf *gguf, const lk_allocator *allocator,
                                        lk_tokenizer **out, lk_error *err) {
    *out = NULL;
    char kind[MAX_NAME], pre[MAX_NAME];
    lk_vocab_source source = LK_VOCAB_SOURCE_INIT;
    string_array tokens, merges;
    lk_status status = read_name(gguf, "tokenizer.ggml.model", kind, &source.kind, err);
    if (status == LK_OK) {
        status = read_name(gguf, "tokenizer.ggml.pre", pre, &source.pre, err);
    }
    if (status != LK_OK) {
        return status;
    }
    if (source.kind == NULL || strcmp(kind, "none") == 0 || strcmp(kind, "no_vocab") == 0) {
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT("tokenizer.ggml.model"),
                       "the file has no tokenizer");
    }
    status = read_source(gguf, &source, &tokens, &merges, err);
    return status == LK_OK ? lk_tokenizer_create(&source, allocator, out, err) : status;
}
