/* lk/tokenizer.h - text to token ids and back.
 *
 * A tokenizer is read from the metadata of a GGUF file, with or without tensors. It is immutable
 * after opening: any number of threads may use one at the same time.
 * Kinds: byte-level BPE ("gpt2") with the pre-splitters gpt-2, llama-bpe, qwen2, deepseek-v3,
 * gpt-4o and smollm; SentencePiece BPE ("llama"). Unknown ones are LK_E_UNSUPPORTED and named.
 *
 * Input need not be valid UTF-8: each maximal ill-formed subpart is read as U+FFFD (Unicode
 * standard, section 3.9, "U+FFFD substitution of maximal subparts"). NFC is applied where the
 * model's own tokenizer does (qwen2). Character properties are those of Unicode 16.0.
 */
#ifndef LK_TOKENIZER_H
#define LK_TOKENIZER_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_tokenizer lk_tokenizer;

/* Opens the tokenizer of a GGUF file. On success *out is owned by the caller (lk_tokenizer_close).
 * LK_E_NOT_FOUND when the file has no tokenizer, LK_E_UNSUPPORTED for an unknown kind or
 * pre-splitter, LK_E_FORMAT for damaged metadata, LK_E_IO, LK_E_NOMEM. */
LK_API lk_status lk_tokenizer_open(const char *path, const lk_allocator *allocator,
                                   lk_tokenizer **out, lk_error *err);
LK_API void lk_tokenizer_close(lk_tokenizer *tokenizer); /* accepts NULL */

/* How text is read. 0: user-defined tokens are recognised, control tokens are not, nothing is
 * added. PARSE_SPECIAL and PLAIN exclude each other (LK_E_ARG). */
enum {
    LK_TOKENIZE_ADD_SPECIAL = 1,   /* add BOS / EOS as the model's metadata says */
    LK_TOKENIZE_PARSE_SPECIAL = 2, /* recognise control tokens such as <|im_start|> in the text */
    LK_TOKENIZE_PLAIN = 4          /* recognise no added token at all */
};

/* Encodes n_bytes of text. Writes at most `capacity` ids to `ids` and the full count to *n_ids; a
 * count above the capacity is LK_E_LIMIT (call again with room). ids may be NULL when capacity is
 * 0. Text is at most LK_MAX_TEXT_BYTES and gives at most LK_IDS_BOUND(n_bytes) ids. A character for
 * which the vocabulary has neither a token nor an unknown token is LK_E_UNSUPPORTED. Time is
 * O(n log n) for any input; memory beyond a few copies of the text is at most 40 bytes for each
 * byte of its longest word. */
#define LK_IDS_BOUND(n_bytes) (4 * (size_t)(n_bytes) + 8)
#define LK_MAX_TEXT_BYTES ((size_t)64 << 20)
LK_API lk_status lk_tokenizer_encode(const lk_tokenizer *tokenizer, const char *text,
                                     size_t n_bytes, uint32_t flags, int32_t *ids, size_t capacity,
                                     size_t *n_ids, lk_error *err);

/* How tokens are written. 0: control tokens and the unknown token give nothing. */
enum {
    LK_DETOKENIZE_SPECIAL = 1, /* control tokens are written as their text */
    LK_DETOKENIZE_KEEP_SPACE =
        2 /* SentencePiece: do not drop the space that the model puts first */
};

/* The bytes of one token. They need not be whole characters. Writes at most `capacity` bytes and
 * the full count to *n_bytes (LK_E_LIMIT when it does not fit). An id outside the vocabulary is
 * LK_E_ARG. */
LK_API lk_status lk_tokenizer_token_bytes(const lk_tokenizer *tokenizer, int32_t id, uint32_t flags,
                                          char *bytes, size_t capacity, size_t *n_bytes,
                                          lk_error *err);

/* The bytes of a list of tokens, joined; for SentencePiece the first space is dropped where the
 * model's decoder does, unless KEEP_SPACE. Raw bytes: ill-formed UTF-8 stays as it is. */
LK_API lk_status lk_tokenizer_decode(const lk_tokenizer *tokenizer, const int32_t *ids,
                                     size_t n_ids, uint32_t flags, char *bytes, size_t capacity,
                                     size_t *n_bytes, lk_error *err);

/* Streaming text: takes the bytes of tokens as they come and gives out whole characters only. An
 * incomplete character is held back; bytes that can never become a character come out as U+FFFD.
 * The caller owns the struct; start with all zero. */
typedef struct lk_utf8_stream {
    uint8_t pending[4];
    uint32_t n_pending;
} lk_utf8_stream;
/* Appends the output for n_bytes of input. `capacity` must be at least 3 * (n_bytes + 3), else
 * LK_E_LIMIT and nothing changes. */
LK_API lk_status lk_utf8_stream_push(lk_utf8_stream *stream, const char *bytes, size_t n_bytes,
                                     char *out, size_t capacity, size_t *n_out, lk_error *err);
/* The end: what is still held back comes out as U+FFFD. capacity >= 12. */
LK_API lk_status lk_utf8_stream_finish(lk_utf8_stream *stream, char *out, size_t capacity,
                                       size_t *n_out, lk_error *err);

typedef enum lk_token_type {
    LK_TOKEN_NORMAL = 1,
    LK_TOKEN_UNKNOWN = 2,
    LK_TOKEN_CONTROL = 3,
    LK_TOKEN_USER_DEFINED = 4,
    LK_TOKEN_UNUSED = 5,
    LK_TOKEN_BYTE = 6
} lk_token_type;

/* The functions below need a tokenizer (not NULL). An id outside the vocabulary is no error: its
 * type is LK_TOKEN_UNUSED, its text NULL, and it is no end. */
LK_API int32_t lk_tokenizer_n_vocab(const lk_tokenizer *tokenizer);
LK_API int32_t lk_tokenizer_bos(const lk_tokenizer *tokenizer); /* -1: none; likewise below */
LK_API int32_t lk_tokenizer_eos(const lk_tokenizer *tokenizer);
LK_API int lk_tokenizer_adds_bos(const lk_tokenizer *tokenizer);
LK_API int lk_tokenizer_adds_eos(const lk_tokenizer *tokenizer);
/* Whether generation ends at this token: EOS, EOT and the end-of-turn tokens of the known chat
 * formats. */
LK_API int lk_tokenizer_is_end(const lk_tokenizer *tokenizer, int32_t id);
LK_API lk_token_type lk_tokenizer_token_type(const lk_tokenizer *tokenizer, int32_t id);
/* The vocabulary's own text of a token (borrowed, lives as long as the tokenizer), *n_bytes its
 * length. NULL for an id outside the vocabulary. */
LK_API const char *lk_tokenizer_token_text(const lk_tokenizer *tokenizer, int32_t id,
                                           size_t *n_bytes);
/* The id whose vocabulary text is exactly this, or -1. */
LK_API int32_t lk_tokenizer_find(const lk_tokenizer *tokenizer, const char *text, size_t n_bytes);
/* "gpt2" or "llama", and the pre-splitter's name ("" for SentencePiece). Static strings. */
LK_API const char *lk_tokenizer_kind(const lk_tokenizer *tokenizer);
LK_API const char *lk_tokenizer_pre(const lk_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif
#endif
