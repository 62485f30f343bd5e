/* open_model.h - what commands that compute share: opening a model with a progress bar, and the
 * options of a context. */
#ifndef LK_OPEN_MODEL_H
#define LK_OPEN_MODEL_H

#include <stdbool.h>

#include "console.h"
#include "lk/lk.h"

/* Opens a model that has a tokenizer; prints the reason and returns NULL on failure. n_threads load
 * (0: one per processor); repack: false computes from the mapped file. */
lk_model *lk_open_model(const char *command, const char *path, int64_t n_threads, bool repack);

/* Whether there is a device of this number (0: the processor); prints the reason where there is
 * not. For --device, before a model is opened. */
bool lk_check_device(const char *command, int64_t device);

/* "f16", or "q8_0,f16" for keys and values apart. Prints the reason and returns false for others.
 */
bool lk_parse_kv_type(const char *command, const char *text, lk_kv_type *k, lk_kv_type *v);
const char *lk_kv_type_name(lk_kv_type type);

/* The ids of a text, in memory that the caller frees with free(). Prints the reason and returns
 * NULL on failure. */
int32_t *lk_encode(const char *command, const lk_tokenizer *tokenizer, const char *text,
                   size_t n_bytes, uint32_t flags, size_t *n_ids);

/* n bytes as 2 n hexadecimal digits and a zero. */
void lk_hex(const uint8_t *bytes, size_t n, char *text);

#endif
