/* arch.h - what an architecture is, and the loader that its code reads a file with.
 *
 * An architecture is a function that reads hyperparameters, asks for tensors by name and builds the
 * graph. It reads without checks: the first error (a key or tensor that is missing or not as
 * expected) is kept in the graph's status, everything after it does nothing, and the caller looks
 * once. What the function did not ask for is not ignored: a key of the architecture or a tensor
 * that nobody read is an error that names it, because it would change the result. */
#ifndef LK_MODEL_ARCH_H
#define LK_MODEL_ARCH_H

#include "base/error.h"
#include "model/model.h"

typedef struct lk_loader lk_loader;

typedef struct lk_arch {
    const char *name;
    void (*build)(lk_loader *loader, lk_graph *graph, lk_hparams *hparams);
} lk_arch;

#define LK_ARCH(name) extern const lk_arch lk_arch_##name;
#include "model/archs.def"
#undef LK_ARCH

/* Keys are given without the architecture's prefix: "block_count" reads "llama.block_count". The
 * functions without `_or` need the key, the others take `fallback` where it is absent. A wrong type
 * or a value out of range is an error. Integers are 0 .. INT32_MAX, sizes 1 .. `high`; an array
 * whose elements are all equal counts as one number, any other array is refused (it differs from
 * layer to layer). A size is 0 after an error only: nothing is looped over or divided by then. */
uint32_t lk_loader_size(lk_loader *loader, const char *key, uint32_t high);
uint32_t lk_loader_size_or(lk_loader *loader, const char *key, uint32_t high, uint32_t fallback);
uint32_t lk_loader_u32_or(lk_loader *loader, const char *key, uint32_t fallback);
double lk_loader_float(lk_loader *loader, const char *key);
double lk_loader_float_or(lk_loader *loader, const char *key, double fallback);
/* The n integers of an array. The key is needed; all 0 after an error. */
void lk_loader_u32s(lk_loader *loader, const char *key, uint32_t *out, uint32_t n);
/* Text of fewer than `size` bytes; "" where the key is absent. */
void lk_loader_text(lk_loader *loader, const char *key, char *text, size_t size);
/* The key describes and changes nothing: may be there with any value. */
void lk_loader_ignore(lk_loader *loader, const char *key);
/* The key may be there, but only with this value (0 and 1 also for bool): anything else is
 * LK_E_UNSUPPORTED. A key that was read before is not looked at. */
void lk_loader_expect(lk_loader *loader, const char *key, uint32_t expected);

/* Tensors: `name` alone, or "blk.<layer>.<name>" where layer >= 0. The shape is checked. */
typedef struct lk_tensor_shape {
    uint32_t n_dims;
    uint64_t ne[3]; /* fastest first; 0: any */
} lk_tensor_shape;
#define LK_VECTOR(n) ((lk_tensor_shape){1, {(n), 1, 1}})
#define LK_MATRIX(n_in, n_out) ((lk_tensor_shape){2, {(n_in), (n_out), 1}})
#define LK_EXPERTS(n_in, n_out, n) ((lk_tensor_shape){3, {(n_in), (n_out), (n)}})
/* NULL after an error; the graph's builder takes NULL then. */
const lk_weight *lk_loader_weight(lk_loader *loader, const char *name, int32_t layer,
                                  lk_tensor_shape shape);
/* NULL also where the file has no such tensor. */
const lk_weight *lk_loader_weight_or_null(lk_loader *loader, const char *name, int32_t layer,
                                          lk_tensor_shape shape);
/* Every key, or tensor, whose name begins so may be there and changes nothing; NULL: none. For the
 * parts of another model in the same file. */
void lk_loader_ignore_all(lk_loader *loader, const char *key_prefix, const char *tensor_prefix);
/* The tensor may be there and changes nothing. */
void lk_loader_ignore_tensor(lk_loader *loader, const char *name, int32_t layer);

/* Keeps the first error of the load. */
void lk_loader_fail(lk_loader *loader, lk_status status, const char *subject, const char *format,
                    ...) LK_PRINTF(4, 5);

#endif
