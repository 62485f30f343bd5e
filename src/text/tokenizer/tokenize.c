/* tokenize.c - text -> token ids: repair of the text, added tokens, normalisation, and then one of
 * the two kinds of BPE for what lies between the added tokens. */
#include <string.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/normalize.h"

#define ALL_FLAGS                                                                                  \
    ((uint32_t)(LK_TOKENIZE_ADD_SPECIAL | LK_TOKENIZE_PARSE_SPECIAL | LK_TOKENIZE_PLAIN))

static lk_status fail_text(lk_encoder *e, size_t n) {
    return lk_fail_nomem(e->err, "the normalised text", n);
}

/* A stretch between added tokens, as the model's own tokenizer normalises it. */
static lk_status encode_stretch(lk_encoder *e, const uint8_t *text, size_t n) {
    const lk_tokenizer *t = e->t;
    if (n == 0) {
        return LK_OK;
    }
    e->normal.n = 0;
    if (t->vocab.kind == LK_VOCAB_BYTE_LEVEL) {
        if ((t->pre->flags & LK_PRE_NFC) == 0 || lk_nfc_is_certain(text, n)) {
            return lk_bpe_encode(e, text, n);
        }
        return lk_nfc(text, n, &e->normal) ? lk_bpe_encode(e, e->normal.data, e->normal.n)
                                           : fail_text(e, n);
    }
    /* The model's U+2581 and the space are the same to it. */
    if (!lk_text_buffer_reserve(&e->normal, n + 1)) {
        return fail_text(e, n);
    }
    uint8_t *out = e->normal.data;
    size_t n_out = 0;
    if (t->add_space_prefix) {
        out[n_out++] = ' ';
    }
    for (size_t i = 0; i < n;) {
        if (text[i] == 0xE2 && text[i + 1] == 0x96 && text[i + 2] == 0x81) {
            out[n_out++] = ' ';
            i += 3;
        } else {
            out[n_out++] = text[i++];
        }
    }
    return lk_spm_encode(e, out, n_out);
}

static lk_status encode_text(lk_encoder *e, const uint8_t *text, const uint8_t *foreign, size_t n,
                             uint32_t flags) {
    uint32_t sets = LK_ADDED_USER;
    if ((flags & LK_TOKENIZE_PLAIN) != 0) {
        return encode_stretch(e, text, n);
    }
    if ((flags & LK_TOKENIZE_PARSE_SPECIAL) != 0) {
        sets |= LK_ADDED_CONTROL;
    }
    for (size_t pos = 0; pos < n;) {
        uint32_t id = 0;
        size_t length = 0;
        const size_t next = lk_added_tokens_next(&e->t->added, &e->t->vocab, sets, text, foreign, n,
                                                 pos, &id, &length);
        const lk_status status = encode_stretch(e, text + pos, next - pos);
        if (status != LK_OK) {
            return status;
        }
        if (next < n) {
            lk_encoder_emit(e, id);
        }
        pos = next + length;
    }
    return LK_OK;
}

static lk_status encode(lk_encoder *e, const char *text, const uint8_t *foreign, size_t n,
                        uint32_t flags) {
    const lk_tokenizer *t = e->t;
    const uint8_t *bytes = (const uint8_t *)text;
    lk_text_buffer repaired;
    lk_text_buffer_init(&repaired, &t->allocator);
    if (t->has_unused) {
        e->splits = lk_alloc_array_zero(&t->allocator, t->vocab.n_tokens, sizeof *e->splits);
        if (e->splits == NULL) {
            return lk_fail_nomem(e->err, "the parts of unused tokens", t->vocab.n_tokens * 2);
        }
    }
    if ((flags & LK_TOKENIZE_ADD_SPECIAL) != 0 && lk_tokenizer_adds_bos(t)) {
        lk_encoder_emit(e, (uint32_t)t->bos);
    }
    lk_status status = LK_OK;
    if (!lk_utf8_is_valid(bytes, n)) {
        if (foreign != NULL) { /* its bytes would no longer fit */
            status = lk_fail(e->err, LK_E_FORMAT, LK_NOWHERE, "the text is not well-formed UTF-8");
        } else if (lk_utf8_repair(bytes, n, &repaired)) {
            bytes = repaired.data;
            n = repaired.n;
        } else {
            status = lk_fail_nomem(e->err, "the repaired text", n);
        }
    }
    if (status == LK_OK) {
        status = encode_text(e, bytes, foreign, n, flags);
    }
    if (status == LK_OK && (flags & LK_TOKENIZE_ADD_SPECIAL) != 0 && lk_tokenizer_adds_eos(t)) {
        lk_encoder_emit(e, (uint32_t)t->eos);
    }
    lk_text_buffer_deinit(&repaired);
    return status;
}

lk_status lk_tokenizer_encode(const lk_tokenizer *t, const char *text, size_t n_bytes,
                              uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                              lk_error *err) {
    return lk_tokenizer_encode_marked(t, text, NULL, n_bytes, flags, ids, capacity, n_ids, err);
}

lk_status lk_tokenizer_encode_marked(const lk_tokenizer *t, const char *text,
                                     const uint8_t *foreign, size_t n_bytes, uint32_t flags,
                                     int32_t *ids, size_t capacity, size_t *n_ids, lk_error *err) {
    if (n_ids != NULL) {
        *n_ids = 0;
    }
    if (t == NULL || n_ids == NULL || (text == NULL && n_bytes != 0) ||
        (ids == NULL && capacity != 0)) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_tokenizer_encode: tokenizer, text, ids or n_ids is missing");
    }
    if ((flags & ~ALL_FLAGS) != 0) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "lk_tokenizer_encode: unknown flags 0x%lx",
                       (unsigned long)(flags & ~ALL_FLAGS));
    }
    if ((flags & LK_TOKENIZE_PLAIN) != 0 && (flags & LK_TOKENIZE_PARSE_SPECIAL) != 0) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE,
                       "lk_tokenizer_encode: PLAIN and PARSE_SPECIAL exclude each other");
    }
    if (n_bytes > LK_MAX_TEXT_BYTES) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE,
                       "the text has %zu bytes, at most %zu are supported", n_bytes,
                       LK_MAX_TEXT_BYTES);
    }
    lk_encoder e = {.t = t, .err = err, .ids = ids, .capacity = capacity};
    lk_text_buffer_init(&e.normal, &t->allocator);
    lk_merge_list_init(&e.list, &t->allocator);
    lk_word_cache_init(&e.words, n_bytes, &t->allocator);
    const lk_status status = encode(&e, text, foreign, n_bytes, flags);
    lk_text_buffer_deinit(&e.normal);
    lk_merge_list_deinit(&e.list);
    lk_word_cache_deinit(&e.words, &t->allocator);
    lk_free_array(&t->allocator, e.splits, t->vocab.n_tokens, sizeof *e.splits);
    if (status != LK_OK) {
        return status;
    }
    *n_ids = e.n_ids;
    if (e.n_ids > capacity) {
        return lk_fail(err, LK_E_LIMIT, LK_NOWHERE, "the text has %zu tokens, room for %zu",
                       e.n_ids, capacity);
    }
    return LK_OK;
}
