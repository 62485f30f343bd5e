/* gguf_writer.h - writes a GGUF file (version 3, alignment 32): metadata, then the directory of all
 * tensors, then their data in the order of the directory, streamed in pieces of any size.
 *
 *     lk_gguf_writer_create(path, allocator, &w, err);
 *     lk_gguf_writer_string(w, "general.name", "x", 1, err);            any number, any order
 *     lk_gguf_writer_tensor(w, "a", LK_FORMAT_F32, 2, ne, err);         in the order of the data
 *     lk_gguf_writer_begin(w, err);                                     the directory is written
 *     lk_gguf_writer_data(w, piece, n_bytes, err);                      until all data is there
 *     lk_gguf_writer_finish(w, err);                                    checked, synced, renamed
 *     lk_gguf_writer_destroy(w);                                        always
 *
 * The target appears only when finish succeeds; until then a temporary file beside it is written,
 * which destroy removes. finish reads the file's directory back with the reader before it renames.
 * One thread at a time. A call in the wrong phase is LK_E_ARG and changes nothing. */
#ifndef LK_GGUF_WRITER_H
#define LK_GGUF_WRITER_H

#include <stdbool.h>

#include "lk/gguf.h"

#define LK_GGUF_WRITER_ALIGNMENT 32

typedef struct lk_gguf_writer lk_gguf_writer;

lk_status lk_gguf_writer_create(const char *path, const lk_allocator *allocator,
                                lk_gguf_writer **out, lk_error *err);
void lk_gguf_writer_destroy(lk_gguf_writer *w); /* accepts NULL */

/* Keys are 1 to LK_GGUF_MAX_KEY_BYTES printable ASCII characters. "general.alignment" and keys that
 * begin with "split." describe a file and not the model: the writer refuses them, and
 * lk_gguf_writer_skips says so, for loops that copy. */
bool lk_gguf_writer_skips(const char *key);
/* Any integer type, or BOOL (0 or 1). A value outside the type's range is LK_E_ARG; u64 above
 * INT64_MAX is given by its bits. */
lk_status lk_gguf_writer_int(lk_gguf_writer *w, const char *key, lk_gguf_type type, int64_t value,
                             lk_error *err);
/* F32 (rounded to nearest) or F64. */
lk_status lk_gguf_writer_float(lk_gguf_writer *w, const char *key, lk_gguf_type type, double value,
                               lk_error *err);
lk_status lk_gguf_writer_string(lk_gguf_writer *w, const char *key, const char *bytes,
                                size_t n_bytes, lk_error *err);
/* Numbers or bools as little-endian elements, one after the other. */
lk_status lk_gguf_writer_array(lk_gguf_writer *w, const char *key, lk_gguf_type elem_type,
                               const void *elements, uint64_t n, lk_error *err);
/* n strings; lengths NULL means zero-terminated. */
lk_status lk_gguf_writer_strings(lk_gguf_writer *w, const char *key, const char *const *strings,
                                 const size_t *lengths, uint64_t n, lk_error *err);
/* Entry i of an open file, byte for byte. */
lk_status lk_gguf_writer_copy(lk_gguf_writer *w, const lk_gguf *from, uint64_t i, lk_error *err);

/* Declares the next tensor. ne as in lk_gguf_tensor: fastest first. Rows that are no multiple of
 * the format's block, an unknown format or a name that the reader would refuse are LK_E_ARG. */
lk_status lk_gguf_writer_tensor(lk_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                                const uint64_t *ne, lk_error *err);

/* Creates the temporary file and writes the directory. A key or name given twice is LK_E_ARG. */
lk_status lk_gguf_writer_begin(lk_gguf_writer *w, lk_error *err);
/* The next bytes of the tensor that is not yet complete; a piece ends at the latest where its
 * tensor ends, more is LK_E_ARG. Padding is written by itself. */
lk_status lk_gguf_writer_data(lk_gguf_writer *w, const void *data, size_t n_bytes, lk_error *err);
/* LK_E_ARG while data is missing. */
lk_status lk_gguf_writer_finish(lk_gguf_writer *w, lk_error *err);

#endif
