/* random_vocab.h - a byte-level vocabulary of any size, for models that were never trained. Its
 * merges join lower-case letters, alone or after a space, to tokens of two to four characters, so
 * that text is cut much as by a real one; any other byte stays a token of its own. */
#ifndef LK_MODEL_RANDOM_VOCAB_H
#define LK_MODEL_RANDOM_VOCAB_H

#include "gguf/gguf_writer.h"

/* 256 byte tokens, n_ordinary - 256 merged ones, three control tokens and three more for
 * recordings, and unused ones up to n_tokens. */
enum { LK_RANDOM_VOCAB_MIN = 256, LK_RANDOM_VOCAB_CONTROLS = 6, LK_RANDOM_VOCAB_MAX = 400000 };

/* Writes all keys of the tokenizer. pre: "qwen2" or "llama-bpe"; the latter adds a BOS token.
 * has_audio: with the tokens for recordings, and a chat template that writes them; without, the
 * tokens are unused ones. LK_RANDOM_VOCAB_MIN <= n_ordinary, n_ordinary + CONTROLS <= n_tokens <=
 * LK_RANDOM_VOCAB_MAX. */
lk_status lk_random_vocab_write(lk_gguf_writer *w, const char *pre, bool has_audio,
                                uint32_t n_ordinary, uint32_t n_tokens,
                                const lk_allocator *allocator, lk_error *err);

#endif
