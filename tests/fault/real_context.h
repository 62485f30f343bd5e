/* real_context.h - contexts over the small models of tests/data, for the fault tests. */
#ifndef LK_REAL_CONTEXT_H
#define LK_REAL_CONTEXT_H

#include <stdbool.h>

#include "lk/lk.h"

lk_model *open_model(const char *path);
/* n_sequences 4, 512 positions, 1 thread, poisoned pages; params may change that. */
lk_context_params real_params(void);
lk_context *make_real(lk_model *model, const lk_context_params *params);

/* n rows that continue `seq` with tokens of a fixed pattern (token_of); the last wants logits. */
int32_t token_of(int32_t salt, int64_t pos);
size_t add_pattern(lk_row *rows, size_t n_rows, int32_t seq, int32_t salt, int64_t pos, size_t n);
void extend_real(lk_context *context, int32_t seq, int32_t salt, size_t n);

/* Digest of row i_row of the last decode. */
void digest_of_row(lk_context *context, size_t i_row, int32_t n_vocab, uint8_t digest[16]);
/* Decodes one row more, takes its digest, and truncates again: what the sequence would give. */
void digest_of_next(lk_context *context, int32_t seq, int32_t n_vocab, uint8_t digest[16]);

/* A file beside the test program's working directory, with the process id in its name (static
 * buffers, 4 in turn). */
const char *scratch_path(const char *name);
/* Writes a copy of `from` in which n_bytes at the tensor's byte `at` are replaced. */
void copy_poked(const char *from, const char *to, const char *tensor, uint64_t at,
                const void *bytes, size_t n_bytes);

#endif
