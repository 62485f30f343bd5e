/* toy_vocab.h - small vocabularies put together in memory, to make tokenizers without a file.
 * Invariant: the texts of a toy live as long as the toy; a full toy ends the program. */
#ifndef LK_TEST_TOY_VOCAB_H
#define LK_TEST_TOY_VOCAB_H

#include "base/bytes.h"
#include "lk_test.h"
#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/tokenizer.h"

enum { TOY_MAX = 2048, TOY_TEXT = 1 << 18 };

typedef struct toy {
    lk_vocab_source source;
    const char *tokens[TOY_MAX];
    size_t token_bytes[TOY_MAX];
    const char *merges[TOY_MAX];
    uint8_t scores[4 * TOY_MAX];
    uint8_t types[4 * TOY_MAX];
    char texts[TOY_TEXT];
    size_t n_text;
} toy;

static inline lk_status toy_token_at(void *ctx, uint64_t i, const char **text, uint64_t *n_bytes,
                                     lk_error *err) {
    const toy *t = ctx;
    (void)err;
    *text = t->tokens[i];
    *n_bytes = t->token_bytes[i];
    return LK_OK;
}

static inline lk_status toy_merge_at(void *ctx, uint64_t i, const char **text, uint64_t *n_bytes,
                                     lk_error *err) {
    const toy *t = ctx;
    (void)err;
    *text = t->merges[i];
    *n_bytes = strlen(t->merges[i]);
    return LK_OK;
}

/* An empty toy on the heap; free it with free(). */
static inline toy *toy_new(const char *kind, const char *pre) {
    toy *t = calloc(1, sizeof *t);
    if (t == NULL) {
        exit(1);
    }
    t->source = LK_VOCAB_SOURCE_INIT;
    t->source.kind = kind;
    t->source.pre = pre;
    t->source.token = toy_token_at;
    t->source.token_ctx = t;
    t->source.merge = toy_merge_at;
    t->source.merge_ctx = t;
    t->source.types = t->types;
    t->source.scores = t->scores;
    return t;
}

static inline const char *toy_keep(toy *t, const char *text, size_t n) {
    if (t->n_text + n + 1 > sizeof t->texts) {
        (void)fprintf(stderr, "the toy is full\n");
        exit(1);
    }
    char *copy = t->texts + t->n_text;
    memcpy(copy, text, n);
    copy[n] = '\0';
    t->n_text += n + 1;
    return copy;
}

/* Adds a token and returns its id. */
static inline int32_t toy_bytes(toy *t, const char *text, size_t n, lk_token_type type,
                                float score) {
    const size_t id = (size_t)t->source.n_tokens++;
    if (id >= TOY_MAX) {
        (void)fprintf(stderr, "the toy is full\n");
        exit(1);
    }
    t->tokens[id] = toy_keep(t, text, n);
    t->token_bytes[id] = n;
    lk_store_u32(t->types + 4 * id, (uint32_t)type);
    lk_store_u32(t->scores + 4 * id, lk_f32_bits(score));
    return (int32_t)id;
}

static inline int32_t toy_token(toy *t, const char *text, lk_token_type type, float score) {
    return toy_bytes(t, text, strlen(text), type, score);
}

static inline void toy_merge(toy *t, const char *text) {
    const size_t i = (size_t)t->source.n_merges++;
    if (i >= TOY_MAX) {
        (void)fprintf(stderr, "the toy is full\n");
        exit(1);
    }
    t->merges[i] = toy_keep(t, text, strlen(text));
}

/* Byte level: the 256 bytes, ids 0 to 255 in their order. */
static inline void toy_add_bytes(toy *t) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t text[4];
        const size_t n = lk_utf8_put(lk_char_of_byte((uint8_t)byte), text);
        (void)toy_bytes(t, (const char *)text, n, LK_TOKEN_NORMAL, 0.0F);
    }
}

/* SPM: <0x00> to <0xFF>. */
static inline void toy_add_byte_tokens(toy *t) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        (void)snprintf(text, sizeof text, "<0x%02X>", byte);
        (void)toy_token(t, text, LK_TOKEN_BYTE, 0.0F);
    }
}

/* The tokenizer; exits the program when it cannot be made. */
static inline lk_tokenizer *toy_open(toy *t, const lk_allocator *allocator) {
    lk_tokenizer *tokenizer = NULL;
    lk_error err = {0};
    REQUIRE_OK(lk_tokenizer_create(&t->source, allocator, &tokenizer, &err), err);
    return tokenizer;
}

#endif
