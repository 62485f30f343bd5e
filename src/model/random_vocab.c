/* random_vocab.c - see random_vocab.h. Tokens of the letters F (a space or a letter) and L (a
 * letter), in this order: F L, then (F L) L, then (F L)(L L); one merge each, as in the brackets.
 */
#include "model/random_vocab.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "lk/tokenizer.h"
#include "text/tokenizer/byte_chars.h"

enum { N_LETTERS = 26, N_FIRST = 27, N_PAIRS = N_FIRST * N_LETTERS };
enum { N_TRIPLES = N_PAIRS * N_LETTERS, N_QUADS = N_PAIRS * N_LETTERS * N_LETTERS };
static_assert(LK_RANDOM_VOCAB_MAX <= N_PAIRS + N_TRIPLES + N_QUADS, "enough merges");

enum { SLOT_BYTES = 24 };

static const char *const control_texts[LK_RANDOM_VOCAB_CONTROLS] = {
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"};
enum { CONTROL_BOS = 0, CONTROL_EOS = 2, N_TEXT_CONTROLS = 3 };

static const char chat_template[] =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/* A message's content is text, or a list of texts and recordings. */
static const char audio_template[] =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if 'audio' in part['type'] %}"
    "<|audio_bos|><|AUDIO|><|audio_eos|>{% elif 'text' in part %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

typedef struct texts {
    const lk_allocator *allocator;
    uint32_t n_tokens;
    uint32_t n_merges;
    bool has_audio;
    char (*slots)[SLOT_BYTES]; /* [n_tokens + n_merges] */
    const char **strings;      /* [n_tokens + n_merges]: tokens, then merges */
    uint8_t *types;            /* [4 n_tokens] little-endian int32 */
} texts;

/* The characters of the two halves of merge i. */
static void split_merge(uint32_t i, char left[8], char right[8]) {
    uint32_t rest = 0; /* 0, 1 or 2 letters more than a pair; their number */
    uint32_t n_more = 0;
    if (i >= N_PAIRS + N_TRIPLES) {
        n_more = 2;
        i -= N_PAIRS + N_TRIPLES;
        rest = i % (N_LETTERS * N_LETTERS);
        i /= N_LETTERS * N_LETTERS;
    } else if (i >= N_PAIRS) {
        n_more = 1;
        i -= N_PAIRS;
        rest = i % N_LETTERS;
        i /= N_LETTERS;
    }
    const uint32_t first = i / N_LETTERS;
    const char second = (char)('a' + i % N_LETTERS);
    size_t n = 1;
    if (first == 0) {
        n = lk_utf8_put(lk_char_of_byte(' '), (uint8_t *)left);
    } else {
        left[0] = (char)('a' + first - 1);
    }
    if (n_more == 0) {
        left[n] = '\0';
        right[0] = second;
        right[1] = '\0';
        return;
    }
    left[n] = second;
    left[n + 1] = '\0';
    if (n_more == 1) {
        right[0] = (char)('a' + rest);
        right[1] = '\0';
    } else {
        right[0] = (char)('a' + rest / N_LETTERS);
        right[1] = (char)('a' + rest % N_LETTERS);
        right[2] = '\0';
    }
}

static lk_token_type fill_token(texts *t, uint32_t id, uint32_t n_ordinary) {
    char *slot = t->slots[id];
    if (id < 256) {
        slot[lk_utf8_put(lk_char_of_byte((uint8_t)id), (uint8_t *)slot)] = '\0';
        return LK_TOKEN_NORMAL;
    }
    if (id < n_ordinary) {
        char left[8];
        char right[8];
        split_merge(id - 256, left, right);
        (void)snprintf(slot, SLOT_BYTES, "%s%s", left, right);
        (void)snprintf(t->slots[t->n_tokens + id - 256], SLOT_BYTES, "%s %s", left, right);
        return LK_TOKEN_NORMAL;
    }
    if (id < n_ordinary + (t->has_audio ? LK_RANDOM_VOCAB_CONTROLS : N_TEXT_CONTROLS)) {
        (void)snprintf(slot, SLOT_BYTES, "%s", control_texts[id - n_ordinary]);
        return LK_TOKEN_CONTROL;
    }
    (void)snprintf(slot, SLOT_BYTES, "[PAD%u]", (unsigned)id);
    return LK_TOKEN_UNUSED;
}

static lk_status write_keys(lk_gguf_writer *w, const texts *t, const char *pre, uint32_t n_ordinary,
                            lk_error *err) {
    const bool has_bos = strcmp(pre, "llama-bpe") == 0;
    lk_status status = lk_gguf_writer_string(w, "tokenizer.ggml.model", "gpt2", 4, err);
    if (status == LK_OK) {
        status = lk_gguf_writer_string(w, "tokenizer.ggml.pre", pre, strlen(pre), err);
    }
    if (status == LK_OK) {
        status =
            lk_gguf_writer_strings(w, "tokenizer.ggml.tokens", t->strings, NULL, t->n_tokens, err);
    }
    if (status == LK_OK) {
        status = lk_gguf_writer_array(w, "tokenizer.ggml.token_type", LK_GGUF_I32, t->types,
                                      t->n_tokens, err);
    }
    if (status == LK_OK) {
        status = lk_gguf_writer_strings(w, "tokenizer.ggml.merges", t->strings + t->n_tokens, NULL,
                                        t->n_merges, err);
    }
    const struct {
        const char *key;
        lk_gguf_type type;
        int64_t value;
    } numbers[] = {
        {"tokenizer.ggml.bos_token_id", LK_GGUF_U32, (int64_t)n_ordinary + CONTROL_BOS},
        {"tokenizer.ggml.eos_token_id", LK_GGUF_U32, (int64_t)n_ordinary + CONTROL_EOS},
        {"tokenizer.ggml.padding_token_id", LK_GGUF_U32, (int64_t)n_ordinary + CONTROL_BOS},
        {"tokenizer.ggml.add_bos_token", LK_GGUF_BOOL, has_bos},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == LK_OK; i++) {
        status = lk_gguf_writer_int(w, numbers[i].key, numbers[i].type, numbers[i].value, err);
    }
    const char *format = t->has_audio ? audio_template : chat_template;
    return status == LK_OK
               ? lk_gguf_writer_string(w, "tokenizer.chat_template", format, strlen(format), err)
               : status;
}

lk_status lk_random_vocab_write(lk_gguf_writer *w, const char *pre, bool has_audio,
                                uint32_t n_ordinary, uint32_t n_tokens,
                                const lk_allocator *allocator, lk_error *err) {
    texts t = {.allocator = allocator,
               .n_tokens = n_tokens,
               .n_merges = n_ordinary - 256,
               .has_audio = has_audio};
    const size_t n = (size_t)n_tokens + t.n_merges;
    t.slots = lk_alloc_array(allocator, n, sizeof *t.slots);
    t.strings = (const char **)lk_alloc_array(allocator, n, sizeof *t.strings);
    t.types = (uint8_t *)lk_alloc_array(allocator, n_tokens, 4);
    lk_status status = LK_OK;
    if (t.slots == NULL || t.strings == NULL || t.types == NULL) {
        status = lk_fail_nomem(err, "the vocabulary", n * (sizeof *t.slots + sizeof *t.strings));
    } else {
        for (uint32_t id = 0; id < n_tokens; id++) {
            lk_store_u32(t.types + (size_t)id * 4, (uint32_t)fill_token(&t, id, n_ordinary));
        }
        for (size_t i = 0; i < n; i++) {
            t.strings[i] = t.slots[i];
        }
        status = write_keys(w, &t, pre, n_ordinary, err);
    }
    lk_free_array(allocator, t.slots, n, sizeof *t.slots);
    lk_free_array(allocator, (void *)t.strings, n, sizeof *t.strings);
    lk_free_array(allocator, t.types, n_tokens, 4);
    return status;
}
