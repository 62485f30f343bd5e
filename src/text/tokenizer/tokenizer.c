/* tokenizer.c - makes a tokenizer from what a file says of it, and answers questions about its
 * tokens. */
#include "text/tokenizer/tokenizer.h"

#include <string.h>

#include "base/error.h"
#include "text/tokenizer/byte_chars.h"

/* Texts of control tokens that end a turn in the known chat formats. */
static const char *const end_texts[] = {
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "<|endofturn|>",
    "<end_of_utterance>",
    "<|eot|>",
    "<|eom|>",
    "<EOT>",
    "</s>",
    "<｜end▁of▁sentence｜>",
};

static lk_status check_id(const lk_tokenizer *t, const char *key, int64_t id, int32_t *out,
                          lk_error *err) {
    if (id < -1 || id >= (int64_t)t->vocab.n_tokens) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT(key),
                       "%s is %lld, expected 0 to %lu: the vocabulary has %lu tokens", key,
                       (long long)id, (unsigned long)t->vocab.n_tokens - 1,
                       (unsigned long)t->vocab.n_tokens);
    }
    *out = (int32_t)id;
    return LK_OK;
}

static void add_end(lk_tokenizer *t, int32_t id) {
    if (id >= 0 && !lk_tokenizer_is_end(t, id) && t->n_ends < LK_MAX_ENDS) {
        t->ends[t->n_ends++] = id;
    }
}

static int32_t find_control(const lk_tokenizer *t, const char *text) {
    const int32_t id = lk_tokenizer_find(t, text, strlen(text));
    return id >= 0 && t->vocab.types[id] == LK_TOKEN_CONTROL ? id : -1;
}

static lk_status set_ids(lk_tokenizer *t, const lk_vocab_source *source, lk_error *err) {
    int32_t eot = -1, eom = -1;
    const struct {
        const char *key;
        int64_t id;
        int32_t *out;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", source->bos, &t->bos},
        {"tokenizer.ggml.eos_token_id", source->eos, &t->eos},
        {"tokenizer.ggml.eot_token_id", source->eot, &eot},
        {"tokenizer.ggml.eom_token_id", source->eom, &eom},
        {"tokenizer.ggml.unknown_token_id", source->unknown, &t->unknown},
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const lk_status status = check_id(t, ids[i].key, ids[i].id, ids[i].out, err);
        if (status != LK_OK) {
            return status;
        }
    }
    add_end(t, t->eos);
    add_end(t, eot);
    add_end(t, eom);
    /* In the harmony format <|end|> only ends a message; a turn ends with one of these two. */
    const bool is_harmony = find_control(t, "<|return|>") >= 0 && find_control(t, "<|call|>") >= 0;
    for (size_t i = 0; i < sizeof end_texts / sizeof end_texts[0]; i++) {
        if (!is_harmony || strcmp(end_texts[i], "<|end|>") != 0) {
            add_end(t, find_control(t, end_texts[i]));
        }
    }
    return LK_OK;
}

/* Byte level: the token whose text is the byte's character. SPM: the token <0xHH>. */
static void set_byte_ids(lk_tokenizer *t) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        t->byte_ids[byte] = LK_NO_TOKEN;
        if (t->vocab.kind == LK_VOCAB_BYTE_LEVEL) {
            uint8_t text[4];
            const size_t n = lk_utf8_put(lk_char_of_byte((uint8_t)byte), text);
            t->byte_ids[byte] = lk_strings_find(&t->vocab.texts, text, n);
        }
    }
    if (t->vocab.kind == LK_VOCAB_BYTE_LEVEL) {
        return;
    }
    for (uint32_t id = t->vocab.n_tokens; id-- > 0;) {
        size_t n = 0;
        const uint8_t *bytes = lk_strings_get(&t->vocab.pieces, id, &n);
        if (t->vocab.types[id] == LK_TOKEN_BYTE && n == 1) {
            t->byte_ids[bytes[0]] = id;
        }
        t->has_unused = t->has_unused || t->vocab.types[id] == LK_TOKEN_UNUSED;
    }
}

static lk_status find_kind(const lk_vocab_source *source, lk_vocab_kind *kind, lk_error *err) {
    if (source->kind != NULL && strcmp(source->kind, "gpt2") == 0) {
        *kind = LK_VOCAB_BYTE_LEVEL;
        return LK_OK;
    }
    if (source->kind != NULL && strcmp(source->kind, "llama") == 0) {
        *kind = LK_VOCAB_SPM;
        return LK_OK;
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("tokenizer.ggml.model"),
                   "unknown kind of tokenizer \"%.64s\", expected \"gpt2\" or \"llama\"",
                   source->kind != NULL ? source->kind : "");
}

static lk_status fill(lk_tokenizer *t, const lk_vocab_source *source, lk_error *err) {
    lk_vocab_kind kind = LK_VOCAB_SPM;
    lk_status status = find_kind(source, &kind, err);
    if (status == LK_OK && kind == LK_VOCAB_BYTE_LEVEL) {
        status = lk_pre_splitter_find(source->pre, &t->pre, err);
    }
    if (status != LK_OK) {
        return status;
    }
    lk_vocab_source used = *source;
    used.n_merges = kind == LK_VOCAB_SPM ? 0 : source->n_merges;
    const uint32_t flags = t->pre != NULL ? t->pre->flags : 0;
    status = lk_vocab_init(&t->vocab, kind, (flags & LK_PRE_WHOLE_WORDS) != 0, &used, &t->allocator,
                           err);
    if (status != LK_OK) {
        return status;
    }
    const bool is_spm = kind == LK_VOCAB_SPM;
    t->add_bos =
        source->add_bos >= 0 ? source->add_bos != 0 : is_spm || (flags & LK_PRE_ADDS_BOS) != 0;
    t->add_eos = source->add_eos > 0;
    t->add_space_prefix = is_spm && source->add_space_prefix != 0;
    set_byte_ids(t);
    status = set_ids(t, source, err);
    if (status == LK_OK) {
        status = lk_added_tokens_init(&t->added, &t->vocab, err);
    }
    if (status == LK_OK && is_spm) {
        status = lk_spm_prepare(t, err);
    }
    return status;
}

lk_status lk_tokenizer_create(const lk_vocab_source *source, const lk_allocator *allocator,
                              lk_tokenizer **out, lk_error *err) {
    *out = NULL;
    allocator = lk_allocator_or_default(allocator);
    lk_tokenizer *t = lk_alloc_zero(allocator, sizeof *t);
    if (t == NULL) {
        return lk_fail_nomem(err, "the tokenizer", sizeof *t);
    }
    t->allocator = *allocator;
    t->vocab.allocator = &t->allocator;
    t->vocab.texts.allocator = &t->allocator;
    t->vocab.pieces.allocator = &t->allocator;
    const lk_status status = fill(t, source, err);
    if (status != LK_OK) {
        lk_tokenizer_close(t);
        return status;
    }
    *out = t;
    return LK_OK;
}

void lk_tokenizer_close(lk_tokenizer *t) {
    if (t == NULL) {
        return;
    }
    const lk_allocator allocator = t->allocator;
    lk_spm_release(t);
    lk_added_tokens_deinit(&t->added, &allocator);
    lk_vocab_deinit(&t->vocab);
    lk_free(&allocator, t, sizeof *t);
}

int32_t lk_tokenizer_n_vocab(const lk_tokenizer *t) {
    return (int32_t)t->vocab.n_tokens;
}

int32_t lk_tokenizer_bos(const lk_tokenizer *t) {
    return t->bos;
}

int32_t lk_tokenizer_eos(const lk_tokenizer *t) {
    return t->eos;
}

int lk_tokenizer_adds_bos(const lk_tokenizer *t) {
    return t->add_bos && t->bos >= 0;
}

int lk_tokenizer_adds_eos(const lk_tokenizer *t) {
    return t->add_eos && t->eos >= 0;
}

int lk_tokenizer_is_end(const lk_tokenizer *t, int32_t id) {
    for (uint32_t i = 0; i < t->n_ends; i++) {
        if (t->ends[i] == id) {
            return 1;
        }
    }
    return 0;
}

static bool is_id(const lk_tokenizer *t, int32_t id) {
    return id >= 0 && (uint32_t)id < t->vocab.n_tokens;
}

lk_token_type lk_tokenizer_token_type(const lk_tokenizer *t, int32_t id) {
    return is_id(t, id) ? (lk_token_type)t->vocab.types[id] : LK_TOKEN_UNUSED;
}

const char *lk_tokenizer_token_text(const lk_tokenizer *t, int32_t id, size_t *n_bytes) {
    *n_bytes = 0;
    return is_id(t, id) ? (const char *)lk_strings_get(&t->vocab.texts, (uint32_t)id, n_bytes)
                        : NULL;
}

int32_t lk_tokenizer_find(const lk_tokenizer *t, const char *text, size_t n_bytes) {
    const uint32_t id =
        text != NULL ? lk_strings_find(&t->vocab.texts, text, n_bytes) : LK_NO_STRING;
    return id == LK_NO_STRING ? -1 : (int32_t)id;
}

const char *lk_tokenizer_kind(const lk_tokenizer *t) {
    return t->vocab.kind == LK_VOCAB_SPM ? "llama" : "gpt2";
}

const char *lk_tokenizer_pre(const lk_tokenizer *t) {
    return t->pre != NULL ? t->pre->name : "";
}
