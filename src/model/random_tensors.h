/* random_tensors.h - the keys of a model that does not exist yet, and the tensors that its
 * architecture asks for when it is given them. The architecture's own code says so: it is run over
 * keys in memory with weights that are invented as it asks. */
#ifndef LK_MODEL_RANDOM_TENSORS_H
#define LK_MODEL_RANDOM_TENSORS_H

#include "gguf/gguf_writer.h"
#include "model/arch.h"

/* A key without the architecture's prefix. Text where `text` is not NULL, else a number. */
typedef struct lk_random_key {
    char name[48];
    char text[16]; /* "": a number; with a comma in it: an array of whole numbers */
    bool is_float;
    bool is_bool;
    double number;
} lk_random_key;

enum { LK_RANDOM_MAX_KEYS = 40 };

typedef struct lk_random_keys {
    lk_random_key keys[LK_RANDOM_MAX_KEYS];
    uint32_t n;
} lk_random_keys;

/* A key that is there already gets the new value. */
void lk_random_keys_add_int(lk_random_keys *keys, const char *name, uint32_t value);
void lk_random_keys_add_bool(lk_random_keys *keys, const char *name, bool value);
void lk_random_keys_add_float(lk_random_keys *keys, const char *name, double value);
/* "name=value name=value": whole numbers, numbers with a point, whole numbers with commas between
 * them, words. */
void lk_random_keys_add_text(lk_random_keys *keys, const char *list);
lk_status lk_random_keys_write(const lk_random_keys *keys, const char *arch, lk_gguf_writer *w,
                               lk_error *err);

typedef struct lk_random_tensor {
    char name[64];
    uint32_t n_dims;
    uint64_t ne[4];
    const lk_format *format; /* for the caller; NULL at first */
    lk_weight w;             /* what the architecture was given */
} lk_random_tensor;

typedef struct lk_random_tensors {
    lk_random_tensor *tensors; /* [n_tensors], in the order in which files have them */
    uint32_t n_tensors;
    uint32_t capacity;
    int64_t n_experts; /* 0: dense */
} lk_random_tensors;

typedef struct lk_random_tensors_params {
    const char *arch;       /* the prefix of the keys */
    const lk_arch *encoder; /* of a projector; NULL: the model architecture of that name */
    const lk_random_keys *keys;
    uint32_t n_layers;
    uint32_t n_vocab;
    bool (*wants)(void *ctx, const char *name); /* an optional tensor */
    void *ctx;
} lk_random_tensors_params;

/* *list is owned by the caller, also after a failure (lk_random_tensors_free). */
lk_status lk_random_tensors_list(lk_random_tensors *list, const lk_random_tensors_params *params,
                                 const lk_allocator *allocator, lk_error *err);
void lk_random_tensors_free(lk_random_tensors *list, const lk_allocator *allocator);

#endif
