/* lk/gguf.h - a GGUF file as metadata and a directory of tensors, whatever model is in it.
 *
 * Versions 2 and 3, little endian, also split files (name-00001-of-0000N.gguf: open the first one,
 * the others are found beside it). Everything is validated before lk_gguf_open returns; an error
 * names the byte offset, the key or tensor, what was found and what was expected. Memory is bounded
 * by a small multiple of the directory (the part of the file before the tensor data), time is
 * O(n log n) in its size, for any input. The file is mapped, not copied: it must not be shortened
 * while it is open. An open lk_gguf is immutable: any number of threads may read it. Pointers
 * returned are borrowed and live until lk_gguf_close.
 *
 * Of a split model, the metadata is that of the first file, the tensors are those of all files.
 */
#ifndef LK_GGUF_H
#define LK_GGUF_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What lk_gguf_open accepts at most; more is LK_E_LIMIT. The directory limit is for all files of a
 * split model together, and so is the number of tensors. */
#define LK_GGUF_MAX_FILES 1024
#define LK_GGUF_MAX_META 65536
#define LK_GGUF_MAX_TENSORS 1048576
#define LK_GGUF_MAX_KEY_BYTES 65535
#define LK_GGUF_MAX_NAME_BYTES 1024
#define LK_GGUF_MAX_DIRECTORY_BYTES ((uint64_t)1 << 30)
#define LK_GGUF_MAX_ALIGNMENT 1048576

typedef struct lk_gguf lk_gguf;

/* On success *out is owned by the caller (lk_gguf_close). LK_E_IO, LK_E_FORMAT for a damaged file,
 * LK_E_UNSUPPORTED for another version or byte order, nested arrays or a tensor format whose size
 * is unknown, LK_E_LIMIT, LK_E_NOMEM; LK_E_ARG for a file of a split model that is not the first.
 */
LK_API lk_status lk_gguf_open(const char *path, const lk_allocator *allocator, lk_gguf **out,
                              lk_error *err);
LK_API void lk_gguf_close(lk_gguf *gguf); /* accepts NULL */

/* Value types, numbered as in the file format. */
typedef enum lk_gguf_type {
    LK_GGUF_U8 = 0,
    LK_GGUF_I8 = 1,
    LK_GGUF_U16 = 2,
    LK_GGUF_I16 = 3,
    LK_GGUF_U32 = 4,
    LK_GGUF_I32 = 5,
    LK_GGUF_F32 = 6,
    LK_GGUF_BOOL = 7,
    LK_GGUF_STRING = 8,
    LK_GGUF_ARRAY = 9,
    LK_GGUF_U64 = 10,
    LK_GGUF_I64 = 11,
    LK_GGUF_F64 = 12
} lk_gguf_type;
/* "u8", "string", ...; "?" for any other number. Static strings. */
LK_API const char *lk_gguf_type_name(lk_gguf_type type);

/* One metadata entry. Scalars are widened: `i` for integers and bool (u64 above INT64_MAX keeps its
 * bits), `f` for floats; strings and arrays are described by pointer and count. Fields that do not
 * apply are 0. */
typedef struct lk_gguf_value {
    lk_gguf_type type;
    lk_gguf_type elem_type; /* arrays: type of the elements (never ARRAY) */
    int64_t i;
    double f;
    const char *str; /* strings: bytes, not zero-terminated */
    uint64_t n;      /* strings: bytes; arrays: elements */
    const void *arr; /* arrays: raw little-endian elements, unaligned, in the mapped file */
    uint64_t offset; /* where the value starts in its file, after its type */
    uint64_t i_meta; /* number of the entry, as for lk_gguf_meta */
} lk_gguf_value;

LK_API uint32_t lk_gguf_version(const lk_gguf *gguf); /* of the first file */
LK_API uint32_t lk_gguf_n_files(const lk_gguf *gguf);
LK_API uint64_t lk_gguf_file_bytes(const lk_gguf *gguf); /* all files */
LK_API uint64_t lk_gguf_n_meta(const lk_gguf *gguf);
/* Entry i, in the order of the file; the key is zero-terminated printable ASCII. LK_E_ARG when i is
 * out of range. */
LK_API lk_status lk_gguf_meta(const lk_gguf *gguf, uint64_t i, const char **key,
                              lk_gguf_value *value, lk_error *err);
/* LK_E_NOT_FOUND when there is no such key. */
LK_API lk_status lk_gguf_find(const lk_gguf *gguf, const char *key, lk_gguf_value *value,
                              lk_error *err);
/* Element i of an array of strings that lk_gguf_meta or lk_gguf_find gave: bytes, not
 * zero-terminated. Constant time. LK_E_ARG for another kind of value or i out of range. */
LK_API lk_status lk_gguf_array_string(const lk_gguf *gguf, const lk_gguf_value *array, uint64_t i,
                                      const char **str, uint64_t *n_bytes, lk_error *err);

typedef struct lk_gguf_tensor {
    const char *name; /* zero-terminated UTF-8 without control characters */
    uint32_t type;    /* the format's number; lk_format_name gives its name */
    uint32_t n_dims;  /* 1 .. 4 */
    uint64_t ne[4];   /* elements per dimension, fastest first; 1 beyond n_dims, never 0 */
    uint64_t n_bytes;
    uint64_t offset; /* in its file */
    uint32_t i_file;
    const void *data; /* mapped, aligned as the file says (at least 8) */
} lk_gguf_tensor;

LK_API uint64_t lk_gguf_n_tensors(const lk_gguf *gguf);
/* Tensor i, in the order of the files. LK_E_ARG when i is out of range. */
LK_API lk_status lk_gguf_tensor_at(const lk_gguf *gguf, uint64_t i, lk_gguf_tensor *tensor,
                                   lk_error *err);
/* LK_E_NOT_FOUND when there is no such tensor. */
LK_API lk_status lk_gguf_find_tensor(const lk_gguf *gguf, const char *name, lk_gguf_tensor *tensor,
                                     lk_error *err);

/* Name of a tensor format by its GGUF number ("Q4_K"), NULL when unknown; and whether this build
 * can compute with it. */
LK_API const char *lk_format_name(uint32_t type);
LK_API int lk_format_is_supported(uint32_t type);

/* Model digest: SHA-256 over, for each file in order, the SHA-256 of the directory (all bytes
 * before the tensor data) followed by the SHA-256s of the rest of the file in chunks of 4 MiB (the
 * last one may be shorter). Computed with n_threads threads (0 = all) at the first call and kept.
 * The only function that may be called while others read the same lk_gguf although it is not const.
 * LK_E_CANCELLED when `progress` (may be NULL) returns 0, LK_E_NOMEM, LK_E_LIMIT for too many
 * threads. */
LK_API lk_status lk_gguf_digest(lk_gguf *gguf, uint32_t n_threads, lk_progress_fn progress,
                                void *progress_ctx, uint8_t digest[32], lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
