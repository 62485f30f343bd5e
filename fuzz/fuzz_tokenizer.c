/* fuzz_tokenizer.c - the tokenizers on any vocabulary and any text. An input that begins with
 * "GGUF" is a file, and the text is what the target knows; any other is a vocabulary in a short
 * form and a text: byte 0: 1 = SPM, 2 = byte tokens first, 4 = an unknown token, 8 = BOS, 16 = EOS,
 * 224 = splitter byte 1: flags of encode; byte 2: number of tokens; byte 3: number of merges a
 * token: type, score, length (each a byte), its bytes; a merge: two numbers of tokens the rest: the
 * text Invariants: a status with a message, or ids within the vocabulary and the bound that are the
 * same with less room, decode, and stream as whole characters; memory in proportion, all given
 * back. */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "gguf/gguf_internal.h"
#include "model/model_vocab.h"
#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/normalize.h"

enum { MAX_TOKENS = 256 + 255 + 255, MAX_TEXT = 1 << 16 };

/* The bytes of an input, one after another; zeros when there are no more. */
typedef struct reader {
    const uint8_t *data;
    size_t size;
} reader;

static uint8_t next(reader *r) {
    if (r->size == 0) {
        return 0;
    }
    r->size--;
    return *r->data++;
}

static const uint8_t *next_bytes(reader *r, size_t n, size_t *n_read) {
    const uint8_t *at = r->data;
    *n_read = n < r->size ? n : r->size;
    r->data += *n_read;
    r->size -= *n_read;
    return at;
}

typedef struct vocabulary {
    const char *texts[MAX_TOKENS];
    uint64_t sizes[MAX_TOKENS];
    uint8_t types[4 * MAX_TOKENS];
    uint8_t scores[4 * MAX_TOKENS];
    uint32_t n;
    char byte_texts[256][8];
    char merges[255][64];
    uint64_t merge_sizes[255];
    char joined[255][64];
} vocabulary;

static lk_status token_at(void *ctx, uint64_t i, const char **text, uint64_t *n, lk_error *err) {
    const vocabulary *v = ctx;
    (void)err;
    *text = v->texts[i];
    *n = v->sizes[i];
    return LK_OK;
}

static lk_status merge_at(void *ctx, uint64_t i, const char **text, uint64_t *n, lk_error *err) {
    const vocabulary *v = ctx;
    (void)err;
    *text = v->merges[i];
    *n = v->merge_sizes[i];
    return LK_OK;
}

static void add_token(vocabulary *v, const char *text, size_t n, uint32_t type, float score) {
    v->texts[v->n] = text;
    v->sizes[v->n] = n;
    lk_store_u32(v->types + 4 * v->n, type);
    lk_store_u32(v->scores + 4 * v->n, lk_f32_bits(score));
    v->n++;
}

static void add_byte_tokens(vocabulary *v, int spm) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        char *text = v->byte_texts[byte];
        size_t n = 6;
        if (spm) {
            (void)snprintf(text, 8, "<0x%02X>", (unsigned)byte);
        } else {
            n = lk_utf8_put(lk_char_of_byte((uint8_t)byte), (uint8_t *)text);
        }
        add_token(v, text, n, spm ? LK_TOKEN_BYTE : LK_TOKEN_NORMAL, 0.0F);
    }
}

/* A merge of two tokens, and now and then a token for what it gives. */
static void add_merge(vocabulary *v, size_t i, uint8_t a, uint8_t b) {
    const uint32_t left = v->n != 0 ? a * 3u % v->n : 0, right = v->n != 0 ? b * 3u % v->n : 0;
    size_t n_left = v->n != 0 ? (size_t)v->sizes[left] : 0;
    size_t n_right = v->n != 0 ? (size_t)v->sizes[right] : 0;
    n_left = n_left < 30 ? n_left : 30;
    n_right = n_right < 30 ? n_right : 30;
    if (n_left != 0) {
        memcpy(v->merges[i], v->texts[left], n_left);
        memcpy(v->joined[i], v->texts[left], n_left);
    }
    v->merges[i][n_left] = ' ';
    if (n_right != 0) {
        memcpy(v->merges[i] + n_left + 1, v->texts[right], n_right);
        memcpy(v->joined[i] + n_left, v->texts[right], n_right);
    }
    v->merge_sizes[i] = n_left + 1 + n_right;
    if ((a ^ b) % 32 != 31) {
        add_token(v, v->joined[i], n_left + n_right, LK_TOKEN_NORMAL, -(float)i);
    }
}

/* What must hold of the ids of a text. */
static void check_ids(const lk_tokenizer *t, const int32_t *ids, size_t n_ids, size_t n_text) {
    fuzz_check(n_ids <= LK_IDS_BOUND(n_text));
    for (size_t i = 0; i < n_ids; i++) {
        fuzz_check(ids[i] >= 0 && ids[i] < lk_tokenizer_n_vocab(t));
        size_t n = 0;
        fuzz_check(lk_tokenizer_token_text(t, ids[i], &n) != NULL);
    }
    size_t n_bytes = 0, again = 0, n_out = 0;
    const uint32_t flags = LK_DETOKENIZE_SPECIAL;
    (void)lk_tokenizer_decode(t, ids, n_ids, flags, NULL, 0, &n_bytes, NULL);
    char *bytes = malloc(n_bytes + 1);
    char *out = malloc(3 * (n_bytes + 3) + 12);
    fuzz_check(bytes != NULL && out != NULL);
    fuzz_check(lk_tokenizer_decode(t, ids, n_ids, flags, bytes, n_bytes, &again, NULL) == LK_OK);
    fuzz_check(again == n_bytes);
    lk_utf8_stream stream = {{0}, 0};
    fuzz_check(lk_utf8_stream_push(&stream, bytes, n_bytes, out, 3 * (n_bytes + 3), &n_out, NULL) ==
               LK_OK);
    fuzz_check(lk_utf8_is_valid((const uint8_t *)out, n_out));
    fuzz_check(lk_utf8_stream_finish(&stream, out, 12, &n_out, NULL) == LK_OK);
    free(bytes);
    free(out);
}

static void try_text(const lk_tokenizer *t, const uint8_t *text, size_t n, uint32_t flags) {
    const size_t capacity = LK_IDS_BOUND(n);
    int32_t *ids = malloc(capacity * sizeof *ids);
    int32_t *half = malloc(capacity * sizeof *half);
    size_t n_ids = 0, n_half = 0;
    lk_error err = {0};
    fuzz_check(ids != NULL && half != NULL);
    const lk_status status =
        lk_tokenizer_encode(t, (const char *)text, n, flags, ids, capacity, &n_ids, &err);
    if (status == LK_OK) {
        check_ids(t, ids, n_ids, n);
        const lk_status less =
            lk_tokenizer_encode(t, (const char *)text, n, flags, half, n_ids / 2, &n_half, &err);
        fuzz_check(less == (n_ids / 2 < n_ids ? LK_E_LIMIT : LK_OK) && n_half == n_ids);
        fuzz_check(memcmp(ids, half, n_ids / 2 * sizeof *ids) == 0);
    } else {
        fuzz_check(status == LK_E_UNSUPPORTED || status == LK_E_ARG);
        fuzz_check(err.status == status && err.message[0] != '\0' && n_ids == 0);
    }
    free(ids);
    free(half);
}

static void try_vocabulary(reader *r) {
    static vocabulary v;
    static const char *const pres[] = {NULL,     "default",     "llama3", "qwen2",
                                       "smollm", "deepseek-v3", "gpt-4o", "other"};
    fuzz_memory c;
    fuzz_memory_init(&c);
    const uint8_t form = next(r), flags = next(r), n_tokens = next(r), n_merges = next(r);
    lk_vocab_source source = LK_VOCAB_SOURCE_INIT;
    v.n = 0;
    if (form & 2) {
        add_byte_tokens(&v, form & 1);
    }
    for (size_t i = 0; i < n_tokens; i++) {
        const uint32_t type = next(r);
        const float score = -(float)next(r);
        size_t n = 0;
        const char *text = (const char *)next_bytes(r, next(r), &n);
        add_token(&v, text, n, type, score);
    }
    for (size_t i = 0; i < n_merges; i++) {
        const uint8_t left = next(r);
        add_merge(&v, i, left, next(r));
    }
    source.kind = form & 1 ? "llama" : "gpt2";
    source.pre = pres[form >> 5];
    source.n_tokens = v.n;
    source.token = token_at;
    source.token_ctx = &v;
    source.n_merges = n_merges;
    source.merge = merge_at;
    source.merge_ctx = &v;
    source.scores = v.scores;
    source.types = v.types;
    source.unknown = form & 4 ? 0 : -1;
    source.bos = form & 8 ? 1 : -1;
    source.eos = form & 16 ? 2 : -1;
    source.add_eos = flags & 64 ? 1 : -1;
    source.add_space_prefix = flags & 128 ? 0 : -1;
    lk_tokenizer *t = NULL;
    lk_error err = {0};
    const lk_status status = lk_tokenizer_create(&source, &c.base, &t, &err);
    fuzz_check((status == LK_OK) == (t != NULL));
    fuzz_check(status == LK_OK || err.message[0] != '\0');
    fuzz_check(c.peak <= (1u << 19)); /* of which the SPM bitmap is 2^17 */
    if (status == LK_OK && r->size <= MAX_TEXT) {
        try_text(t, r->data, r->size, flags & 15u);
        fuzz_check(c.peak <= (1u << 20) + 60 * r->size);
    }
    lk_tokenizer_close(t);
    fuzz_check(c.live == 0);
}

static void try_file(const uint8_t *data, size_t size) {
    static const uint8_t text[] =
        "Once  upon <s>a</s> time\n\n12 \xE2\x96\x81\xE4\xB8\xAD e\xCC\x81 \xFF!";
    fuzz_memory c;
    fuzz_memory_init(&c);
    const lk_gguf_buffer file = {data, size};
    lk_gguf *gguf = NULL;
    lk_tokenizer *t = NULL;
    lk_error err = {0};
    if (lk_gguf_open_memory(&file, 1, &c.base, &gguf, &err) == LK_OK) {
        const lk_status status = lk_tokenizer_create_from_gguf(gguf, &c.base, &t, &err);
        fuzz_check((status == LK_OK) == (t != NULL));
        fuzz_check(status == LK_OK || (err.status == status && err.message[0] != '\0'));
        fuzz_check(c.peak <= 40 * size + (1u << 18));
        if (status == LK_OK) {
            try_text(t, text, sizeof text, LK_TOKENIZE_ADD_SPECIAL);
            try_text(t, text, sizeof text, LK_TOKENIZE_PARSE_SPECIAL);
        }
    }
    lk_tokenizer_close(t);
    lk_gguf_close(gguf);
    fuzz_check(c.live == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        try_file(data, size);
        return 0;
    }
    reader r = {data, size};
    try_vocabulary(&r);
    return 0;
}
