/* vocab.c - copies a vocabulary into its own memory and builds its tables, checking what it reads.
 */
#include "text/tokenizer/vocab.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/prefetch.h"
#include "text/tokenizer/byte_chars.h"

#define AT_TOKENS LK_AT_SUBJECT("tokenizer.ggml.tokens")
#define AT_MERGES LK_AT_SUBJECT("tokenizer.ggml.merges")

/* First pass: how many bytes all texts have. */
static lk_status measure_texts(const lk_vocab_source *source, size_t *n_bytes, lk_error *err) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < source->n_tokens; i++) {
        const char *text = NULL;
        uint64_t n = 0;
        const lk_status status = source->token(source->token_ctx, i, &text, &n, err);
        if (status != LK_OK) {
            return status;
        }
        if (n > LK_MAX_TOKEN_BYTES) {
            return lk_fail(err, LK_E_LIMIT, AT_TOKENS,
                           "token %llu has %llu bytes, at most %zu are supported",
                           (unsigned long long)i, (unsigned long long)n, LK_MAX_TOKEN_BYTES);
        }
        total += n;
    }
    if (total > UINT32_MAX) {
        return lk_fail(err, LK_E_LIMIT, AT_TOKENS,
                       "the texts of all tokens have %llu bytes, at most %lu are supported",
                       (unsigned long long)total, (unsigned long)UINT32_MAX);
    }
    *n_bytes = (size_t)total;
    return LK_OK;
}

static lk_status allocate(lk_vocab *v, const lk_vocab_source *source, bool index_pieces,
                          size_t texts_bytes, lk_error *err) {
    v->n_merge_slots = source->n_merges != 0 ? lk_table_size((size_t)source->n_merges) : 0;
    v->n_tokens = (uint32_t)source->n_tokens;
    const size_t n = v->n_tokens;
    v->types = lk_alloc(v->allocator, n);
    v->keys = v->kind == LK_VOCAB_SPM ? lk_alloc_array(v->allocator, n, sizeof *v->keys) : NULL;
    v->merges = lk_alloc_array(v->allocator, v->n_merge_slots, sizeof *v->merges);
    if (v->types == NULL || (v->keys == NULL && v->kind == LK_VOCAB_SPM) || v->merges == NULL ||
        !lk_strings_init(&v->texts, v->allocator, v->n_tokens, texts_bytes, true) ||
        !lk_strings_init(&v->pieces, v->allocator, v->n_tokens, texts_bytes, index_pieces)) {
        return lk_fail_nomem(err, "the vocabulary",
                             2 * texts_bytes + v->n_merge_slots * sizeof *v->merges);
    }
    memset(v->merges, 0xFF, v->n_merge_slots * sizeof *v->merges);
    return LK_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of a token of type BYTE, whose text is <0xHH>, or -1. */
static int byte_of_text(const char *text, size_t n) {
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') {
        return -1;
    }
    const int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Text in byte characters -> bytes; false when it holds anything else. `out` has room for n bytes.
 */
static bool decode_byte_chars(const uint8_t *text, size_t n, uint8_t *out, size_t *n_out) {
    *n_out = 0;
    for (size_t i = 0; i < n;) {
        size_t bad = 0;
        size_t length = lk_utf8_sequence(text + i, n - i, &bad);
        const int byte = length != 0 ? lk_byte_of_char(lk_utf8_get(text + i, &length)) : -1;
        if (byte < 0) {
            return false;
        }
        out[(*n_out)++] = (uint8_t)byte;
        i += length;
    }
    return true;
}

/* Text with U+2581 for spaces -> bytes. `out` has room for n bytes. */
static size_t decode_spaces(const uint8_t *text, size_t n, uint8_t *out) {
    size_t n_out = 0;
    for (size_t i = 0; i < n;) {
        if (n - i >= 3 && text[i] == 0xE2 && text[i + 1] == 0x96 && text[i + 2] == 0x81) {
            out[n_out++] = ' ';
            i += 3;
        } else {
            out[n_out++] = text[i++];
        }
    }
    return n_out;
}

/* Pushes the bytes that token `id` stands for. */
static bool push_piece(lk_vocab *v, uint32_t id, const char *text, size_t n) {
    uint8_t bytes[LK_MAX_TOKEN_BYTES];
    size_t n_bytes = 0;
    const lk_token_type type = (lk_token_type)v->types[id];
    const bool is_ordinary = type == LK_TOKEN_NORMAL || type == LK_TOKEN_UNUSED;
    const uint8_t *source = (const uint8_t *)text;
    const int byte = type == LK_TOKEN_BYTE ? byte_of_text(text, n) : -1;
    if (byte >= 0) {
        bytes[0] = (uint8_t)byte;
        return lk_strings_push(&v->pieces, bytes, 1, false);
    }
    if (v->kind == LK_VOCAB_BYTE_LEVEL) {
        if (is_ordinary && decode_byte_chars(source, n, bytes, &n_bytes)) {
            const bool indexed = v->pieces.n_slots != 0 && type == LK_TOKEN_NORMAL && n_bytes != 0;
            return lk_strings_push(&v->pieces, bytes, n_bytes, indexed);
        }
        return lk_strings_push(&v->pieces, source, n, false);
    }
    if (is_ordinary || type == LK_TOKEN_USER_DEFINED) {
        n_bytes = decode_spaces(source, n, bytes);
        const bool indexed = v->keys[id] != LK_NO_RANK && n_bytes != 0;
        return lk_strings_push(&v->pieces, bytes, n_bytes, indexed);
    }
    return lk_strings_push(&v->pieces, source, n, false);
}

/* The order of merging as a number, from the bits of a score (no arithmetic, so that the
 * floating-point mode does not matter): higher scores give smaller keys, equal scores equal ones.
 */
static uint32_t key_of_score(uint32_t bits) {
    bits = bits == 0x80000000u ? 0 : bits; /* -0 equals 0 */
    const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

/* Whether a token may come out of joining characters. A user-defined one has a score with a minus
 * sign (-0 included) only if merges lead to it as well; one character needs no merge. */
static bool may_be_joined(lk_token_type type, uint32_t score_bits, const char *text, size_t n) {
    if (type == LK_TOKEN_USER_DEFINED) {
        size_t bad = 0;
        return score_bits >> 31 != 0 ||
               (n != 0 && lk_utf8_sequence((const uint8_t *)text, n, &bad) == n);
    }
    return type == LK_TOKEN_NORMAL || type == LK_TOKEN_UNUSED;
}

static lk_status read_type_and_score(lk_vocab *v, const lk_vocab_source *source, uint32_t id,
                                     const char *text, size_t n, lk_error *err) {
    uint32_t type = LK_TOKEN_NORMAL;
    if (source->types != NULL) {
        type = lk_load_u32((const uint8_t *)source->types + (size_t)id * 4);
    }
    if (type < LK_TOKEN_NORMAL || type > LK_TOKEN_BYTE) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("tokenizer.ggml.token_type"),
                       "token %lu has type %lu, expected 1 to 6", (unsigned long)id,
                       (unsigned long)type);
    }
    v->types[id] = (uint8_t)type;
    if (v->kind != LK_VOCAB_SPM) {
        return LK_OK;
    }
    uint32_t score_bits = 0;
    if (source->scores != NULL) {
        score_bits = lk_load_u32((const uint8_t *)source->scores + (size_t)id * 4);
    }
    if ((score_bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT("tokenizer.ggml.scores"),
                       "the score of token %lu is not a number", (unsigned long)id);
    }
    v->keys[id] = may_be_joined((lk_token_type)type, score_bits, text, n) ? key_of_score(score_bits)
                                                                          : LK_NO_RANK;
    return LK_OK;
}

static lk_status copy_token(lk_vocab *v, const lk_vocab_source *source, uint32_t id,
                            lk_error *err) {
    const char *text = NULL;
    uint64_t n = 0;
    lk_status status = source->token(source->token_ctx, id, &text, &n, err);
    if (status != LK_OK) {
        return status;
    }
    if (n > LK_MAX_TOKEN_BYTES || n > v->texts.data_bytes - v->texts.offsets[id]) {
        return lk_fail(err, LK_E_INTERNAL, AT_TOKENS,
                       "token %lu changed its length while it was read", (unsigned long)id);
    }
    status = read_type_and_score(v, source, id, text, (size_t)n, err);
    if (status != LK_OK) {
        return status;
    }
    if (!lk_strings_push(&v->texts, text, (size_t)n, true) || !push_piece(v, id, text, (size_t)n)) {
        return lk_fail(err, LK_E_LIMIT, AT_TOKENS,
                       "the texts of too many tokens collide in the hash table (at token %lu)",
                       (unsigned long)id);
    }
    return LK_OK;
}

static lk_status add_merge(lk_vocab *v, const lk_merge_slot *merge, lk_error *err) {
    const size_t hash = lk_merge_hash(merge->left, merge->right);
    const size_t mask = v->n_merge_slots - 1;
    for (size_t probe = 0; probe < LK_MAX_PROBES; probe++) {
        lk_merge_slot *slot = &v->merges[(hash + probe) & mask];
        if (slot->rank == LK_NO_RANK ||
            (slot->left == merge->left && slot->right == merge->right)) {
            *slot = *merge; /* of equal pairs the last one counts */
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_LIMIT, AT_MERGES,
                   "too many merges collide in the hash table (at merge %lu)",
                   (unsigned long)merge->rank);
}

/* A merge is "left right": the texts of two tokens, neither of which holds a space. */
static lk_status read_merge(lk_vocab *v, const lk_vocab_source *source, uint32_t rank,
                            lk_merge_slot *out, lk_error *err) {
    const char *text = NULL;
    uint64_t n64 = 0;
    const lk_status status = source->merge(source->merge_ctx, rank, &text, &n64, err);
    if (status != LK_OK) {
        return status;
    }
    const size_t n = (size_t)n64;
    const char *space = n > 2 && n <= 2 * LK_MAX_TOKEN_BYTES ? memchr(text + 1, ' ', n - 1) : NULL;
    if (space == NULL || space + 1 == text + n) {
        return lk_fail(err, LK_E_FORMAT, AT_MERGES,
                       "merge %lu is not two texts with a space between them", (unsigned long)rank);
    }
    const size_t n_left = (size_t)(space - text);
    char joined[2 * LK_MAX_TOKEN_BYTES];
    memcpy(joined, text, n_left);
    memcpy(joined + n_left, space + 1, n - n_left - 1);
    const lk_merge_slot merge = {lk_strings_find(&v->texts, text, n_left),
                                 lk_strings_find(&v->texts, space + 1, n - n_left - 1), rank,
                                 lk_strings_find(&v->texts, joined, n - 1)};
    if (merge.left == LK_NO_STRING || merge.right == LK_NO_STRING || merge.result == LK_NO_STRING) {
        return lk_fail(err, LK_E_FORMAT, AT_MERGES,
                       "merge %lu (\"%.*s\") names a token that is not in the vocabulary",
                       (unsigned long)rank, (int)(n > 64 ? 64 : n), text);
    }
    *out = merge;
    return LK_OK;
}

/* How many entries ahead of the one in hand the tables are asked for. */
enum { HINT_AHEAD = 12 };

static void hint_token(const lk_vocab *v, const lk_vocab_source *source, uint64_t id) {
    const char *text = NULL;
    uint64_t n = 0;
    if (id < source->n_tokens && source->token(source->token_ctx, id, &text, &n, NULL) == LK_OK &&
        n <= LK_MAX_TOKEN_BYTES) {
        lk_strings_hint(&v->texts, text, (size_t)n);
    }
}

static void hint_merge(const lk_vocab *v, const lk_vocab_source *source, uint64_t rank) {
    const char *text = NULL;
    uint64_t n = 0;
    if (rank >= source->n_merges ||
        source->merge(source->merge_ctx, rank, &text, &n, NULL) != LK_OK || n < 3 ||
        n > 2 * LK_MAX_TOKEN_BYTES) {
        return;
    }
    const char *space = memchr(text + 1, ' ', (size_t)n - 1);
    if (space == NULL) {
        return;
    }
    char joined[2 * LK_MAX_TOKEN_BYTES];
    const size_t n_left = (size_t)(space - text);
    const size_t n_right = (size_t)n - n_left - 1;
    memcpy(joined, text, n_left);
    memcpy(joined + n_left, space + 1, n_right);
    lk_strings_hint(&v->texts, text, n_left);
    lk_strings_hint(&v->texts, space + 1, n_right);
    lk_strings_hint(&v->texts, joined, n_left + n_right);
}

/* Reads all merges and adds each HINT_AHEAD later, when its slot has been loaded. */
static lk_status copy_merges(lk_vocab *v, const lk_vocab_source *source, lk_error *err) {
    lk_merge_slot pending[HINT_AHEAD];
    const uint32_t n = (uint32_t)source->n_merges;
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < n + HINT_AHEAD && status == LK_OK; i++) {
        lk_merge_slot *merge = &pending[i % HINT_AHEAD];
        if (i >= HINT_AHEAD && i - HINT_AHEAD < n) {
            status = add_merge(v, merge, err);
        }
        if (i < n && status == LK_OK) {
            hint_merge(v, source, (uint64_t)i + HINT_AHEAD);
            status = read_merge(v, source, i, merge, err);
        }
        if (i < n && status == LK_OK) {
            const size_t hash = lk_merge_hash(merge->left, merge->right);
            lk_prefetch(&v->merges[hash & (v->n_merge_slots - 1)]);
        }
    }
    return status;
}

static lk_status build(lk_vocab *v, const lk_vocab_source *source, bool index_pieces,
                       lk_error *err) {
    size_t texts_bytes = 0;
    lk_status status = measure_texts(source, &texts_bytes, err);
    if (status == LK_OK) {
        status = allocate(v, source, index_pieces, texts_bytes, err);
    }
    for (uint32_t i = 0; i < v->n_tokens && status == LK_OK; i++) {
        hint_token(v, source, (uint64_t)i + HINT_AHEAD);
        status = copy_token(v, source, i, err);
    }
    return status == LK_OK ? copy_merges(v, source, err) : status;
}

lk_status lk_vocab_init(lk_vocab *v, lk_vocab_kind kind, bool index_pieces,
                        const lk_vocab_source *source, const lk_allocator *allocator,
                        lk_error *err) {
    *v = (lk_vocab){.allocator = allocator, .kind = kind};
    v->texts.allocator = allocator;
    v->pieces.allocator = allocator;
    if (source->n_tokens == 0 || source->n_tokens > LK_MAX_VOCAB) {
        return lk_fail(err, source->n_tokens == 0 ? LK_E_FORMAT : LK_E_LIMIT, AT_TOKENS,
                       "the vocabulary has %llu tokens, expected 1 to %llu",
                       (unsigned long long)source->n_tokens, (unsigned long long)LK_MAX_VOCAB);
    }
    if (source->n_merges > LK_MAX_MERGES) {
        return lk_fail(err, LK_E_LIMIT, AT_MERGES, "%llu merges, at most %llu are supported",
                       (unsigned long long)source->n_merges, (unsigned long long)LK_MAX_MERGES);
    }
    const lk_status status = build(v, source, index_pieces || kind == LK_VOCAB_SPM, err);
    if (status != LK_OK) {
        lk_vocab_deinit(v);
    }
    return status;
}

void lk_vocab_deinit(lk_vocab *v) {
    lk_free(v->allocator, v->types, v->n_tokens);
    lk_free_array(v->allocator, v->keys, v->n_tokens, sizeof *v->keys);
    lk_free_array(v->allocator, v->merges, v->n_merge_slots, sizeof *v->merges);
    lk_strings_deinit(&v->texts);
    lk_strings_deinit(&v->pieces);
    *v = (lk_vocab){.allocator = v->allocator};
}
