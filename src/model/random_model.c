/* random_model.c - lk_random_model_write: the tensors that an architecture asks for when it is
 * given the keys of a shape (random_tensors.h), filled with random blocks (quant/random_blocks.h)
 * on the pool and streamed to the writer. Invariant: a tensor's bytes depend on its number, its
 * format and the seed, never on threads. */
#include "lk/random_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "base/params.h"
#include "base/pool.h"
#include "gguf/gguf_writer.h"
#include "lk/quantize.h"
#include "model/projector.h"
#include "model/quantize_mix.h"
#include "model/random_tensors.h"
#include "model/random_vocab.h"
#include "ops/math.h"
#include "quant/random_blocks.h"

LK_NO_TAIL_PADDING(lk_random_model_params, progress_ctx);

typedef struct shape {
    const char *name;
    const char *arch;
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim;
    bool is_tied;
    uint32_t n_ctx;
    double rope_base;
    double rope_factor;
    double norm_eps;
    uint32_t n_vocab, n_ordinary;
    const char *pre;
    const char *more; /* keys that only this architecture has: "name=value ..." */
} shape;

static const shape shapes[] = {
#define LK_SHAPE(...) {__VA_ARGS__},
#include "model/shapes.def"
#undef LK_SHAPE
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* A piece is what one task fills, a batch what is written at once. */
enum { PIECE_ELEMS = 32768, BATCH_PIECES = 128, BATCH_ELEMS = PIECE_ELEMS * BATCH_PIECES };

typedef struct work {
    const lk_random_model_params *params;
    const lk_allocator *allocator;
    const shape *shape;
    uint32_t n_layers;
    lk_quantize_mix mix;
    const lk_format *format; /* of all matrices; NULL: by the mix */
    lk_gguf_writer *writer;
    lk_pool *pool;
    lk_random_keys keys;
    lk_random_tensors list;
    uint8_t *out; /* BATCH_ELEMS in the widest format, F32 */
    uint64_t n_bytes_all;
    uint64_t n_bytes_done;
    /* the batch in hand */
    lk_random_blocks blocks;
    uint64_t first_block;
    uint64_t n_blocks;
} work;

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_same_name(const char *a, const char *b) {
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

const char *lk_random_model_shape_at(uint32_t i) {
    return i < N_SHAPES ? shapes[i].name : NULL;
}

static bool contains(const char *text, const char *part) {
    return strstr(text, part) != NULL;
}

/* The encoder of a shape that is a projector's, else NULL. */
static const lk_arch *encoder_of(const shape *s) {
#define LK_PROJECTOR(name, type)                                                                   \
    if (strcmp(s->arch, "clip") == 0 && contains(s->more, "projector_type=" type " ")) {           \
        return &lk_projector_##name;                                                               \
    }
#include "model/projectors.def"
#undef LK_PROJECTOR
    return NULL;
}

typedef enum content { CONTENT_MATRIX, CONTENT_NORM, CONTENT_BIAS, CONTENT_ROPE_FACTORS } content;

static content content_of(const lk_random_tensor *t) {
    const size_t n = strlen(t->name);
    if (strncmp(t->name, "rope_f", 6) == 0) {
        return CONTENT_ROPE_FACTORS;
    }
    if (contains(t->name, "norm.weight") || contains(t->name, "ln1.weight") ||
        contains(t->name, "ln2.weight") || contains(t->name, "post_ln.weight")) {
        return CONTENT_NORM;
    }
    const bool is_bias = n > 5 && strcmp(t->name + n - 5, ".bias") == 0;
    return is_bias || contains(t->name, "attn_sinks") ? CONTENT_BIAS : CONTENT_MATRIX;
}

/* By 1/sqrt(n_in), inputs of mean square 1 give outputs of mean square 1; the embedding and the
 * output have logits that spread like those of a model that knows something. */
static float deviation_of(const lk_random_tensor *t) {
    if (content_of(t) != CONTENT_MATRIX) {
        return 0.125f;
    }
    const bool is_outside =
        strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0;
    return (float)((is_outside ? 3.0 : 1.0) / sqrt((double)t->ne[0]));
}

/* Optional tensors: an output matrix of its own, frequency factors. */
static bool wants(void *ctx, const char *name) {
    const shape *s = ctx;
    return (strcmp(name, "output.weight") == 0 && !s->is_tied) ||
           (strcmp(name, "rope_freqs.weight") == 0 && s->rope_factor != 0.0);
}

static uint64_t elems_of(const lk_random_tensor *t) {
    return t->ne[0] * t->ne[1] * t->ne[2];
}

/* Kernels of convolutions have rows of three, positions are added as they are. */
static bool has_own_format(const lk_random_tensor *t, uint32_t *format) {
    *format = contains(t->name, "conv1d") ? LK_FORMAT_F16 : LK_FORMAT_F32;
    return (contains(t->name, "conv1d") && content_of(t) == CONTENT_MATRIX) ||
           contains(t->name, "position_embd");
}

static lk_status declare_tensors(work *w, lk_error *err) {
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < w->list.n_tensors && status == LK_OK; i++) {
        lk_random_tensor *t = &w->list.tensors[i];
        const lk_gguf_tensor described = {
            .name = t->name, .n_dims = t->n_dims, .ne = {t->ne[0], t->ne[1], t->ne[2], 1}};
        uint32_t wanted = LK_FORMAT_F32;
        const bool is_matrix = content_of(t) == CONTENT_MATRIX && !contains(t->name, "_gate_inp");
        uint32_t format = is_matrix && w->format != NULL
                              ? w->format->type
                              : lk_quantize_mix_format(&w->mix, &described, &wanted);
        format = is_matrix ? format : LK_FORMAT_F32;
        uint32_t own = format;
        t->format = lk_format_find(has_own_format(t, &own) ? own : format);
        if (t->ne[0] % t->format->block_elems != 0) {
            return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("format"),
                           "rows of %llu elements do not divide into blocks of %s",
                           (unsigned long long)t->ne[0], t->format->name);
        }
        w->n_bytes_all += lk_format_bytes(t->format, elems_of(t));
        status = lk_gguf_writer_tensor(w->writer, t->name, t->format->type, t->n_dims, t->ne, err);
    }
    return status;
}

static void list_encoder_keys(work *w) {
    const shape *s = w->shape;
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {
        {"audio.embedding_length", s->n_embd},
        {"audio.block_count", w->n_layers},
        {"audio.feed_forward_length", s->n_ff},
        {"audio.attention.head_count", s->n_heads},
    };
    lk_random_keys_add_bool(&w->keys, "has_audio_encoder", true);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        lk_random_keys_add_int(&w->keys, sizes[i].name, sizes[i].value);
    }
    lk_random_keys_add_float(&w->keys, "audio.attention.layer_norm_epsilon", s->norm_eps);
    lk_random_keys_add_text(&w->keys, s->more);
}

static void list_keys(work *w) {
    const shape *s = w->shape;
    if (encoder_of(s) != NULL) {
        list_encoder_keys(w);
        return;
    }
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {
        {"context_length", s->n_ctx},          {"embedding_length", s->n_embd},
        {"block_count", w->n_layers},          {"feed_forward_length", s->n_ff},
        {"attention.head_count", s->n_heads},  {"attention.head_count_kv", s->n_kv_heads},
        {"attention.key_length", s->head_dim}, {"attention.value_length", s->head_dim},
        {"rope.dimension_count", s->head_dim}, {"vocab_size", s->n_vocab},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        lk_random_keys_add_int(&w->keys, sizes[i].name, sizes[i].value);
    }
    lk_random_keys_add_float(&w->keys, "attention.layer_norm_rms_epsilon", s->norm_eps);
    lk_random_keys_add_float(&w->keys, "rope.freq_base", s->rope_base);
    lk_random_keys_add_text(&w->keys, s->more);
}

static lk_status write_metadata(work *w, lk_error *err) {
    const shape *s = w->shape;
    char name[96];
    (void)snprintf(name, sizeof name, "%s %s random weights", s->name,
                   w->format != NULL ? w->format->name : lk_quantize_type_name(w->mix.type));
    lk_status status =
        lk_gguf_writer_string(w->writer, "general.architecture", s->arch, strlen(s->arch), err);
    if (status == LK_OK) {
        status = lk_gguf_writer_string(w->writer, "general.name", name, strlen(name), err);
    }
    if (status == LK_OK) {
        status = lk_gguf_writer_int(w->writer, "general.quantization_version", LK_GGUF_U32, 2, err);
    }
    if (status == LK_OK && w->format == NULL) {
        status = lk_gguf_writer_int(w->writer, "general.file_type", LK_GGUF_U32, w->mix.type, err);
    }
    if (status == LK_OK) {
        status = lk_random_keys_write(&w->keys, s->arch, w->writer, err);
    }
    if (status != LK_OK || encoder_of(s) != NULL) {
        return status;
    }
    const bool has_audio = strcmp(s->arch, "qwen2vl") == 0;
    return lk_random_vocab_write(w->writer, s->pre, has_audio, s->n_ordinary, s->n_vocab,
                                 w->allocator, err);
}

static void fill_piece(void *arg, uint32_t i_task, uint32_t i_thread) {
    (void)i_thread;
    const work *w = (const work *)arg;
    const lk_format *format = w->blocks.format;
    const uint64_t piece = PIECE_ELEMS / format->block_elems;
    const uint64_t first = piece * i_task;
    const uint64_t left = w->n_blocks - first;
    lk_random_blocks_fill(&w->blocks, w->first_block + first, (size_t)(left < piece ? left : piece),
                          w->out + (size_t)first * format->block_bytes);
}

/* Llama 3's factors of the rotary frequencies: long waves are stretched by the factor, short ones
 * stay, those between are interpolated. */
static void fill_rope_factors(const shape *s, uint32_t n, uint8_t *out) {
    const double original = 8192.0;
    const double low = 1.0;
    const double high = 4.0;
    for (uint32_t i = 0; i < n; i++) {
        const double wave = 6.283185307179586 * lk_pow(s->rope_base, 2.0 * i / (double)s->head_dim);
        double factor = 1.0;
        if (wave > original / low) {
            factor = s->rope_factor;
        } else if (wave > original / high) {
            const double smooth = (original / wave - low) / (high - low);
            factor = 1.0 / ((1.0 - smooth) / s->rope_factor + smooth);
        }
        lk_store_u32(out + (size_t)i * 4, lk_f32_bits((float)factor));
    }
}

static lk_status write_bytes(work *w, uint64_t n_bytes, lk_error *err) {
    const lk_status status = lk_gguf_writer_data(w->writer, w->out, (size_t)n_bytes, err);
    w->n_bytes_done += n_bytes;
    if (status == LK_OK && w->params->progress != NULL &&
        w->params->progress(w->params->progress_ctx, "random weights", w->n_bytes_done,
                            w->n_bytes_all) == 0) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "writing random weights was cancelled");
    }
    return status;
}

static lk_status write_matrix(work *w, const lk_random_tensor *t, lk_error *err) {
    const uint64_t n_all = elems_of(t) / t->format->block_elems;
    const uint64_t n_batch = BATCH_ELEMS / t->format->block_elems;
    for (uint64_t first = 0; first < n_all; first += n_batch) {
        w->first_block = first;
        w->n_blocks = n_all - first < n_batch ? n_all - first : n_batch;
        const uint64_t piece = PIECE_ELEMS / t->format->block_elems;
        lk_pool_run(w->pool, fill_piece, w, (uint32_t)((w->n_blocks + piece - 1) / piece));
        const lk_status status = write_bytes(w, w->n_blocks * t->format->block_bytes, err);
        if (status != LK_OK) {
            return status;
        }
    }
    return LK_OK;
}

static lk_status write_tensor(work *w, uint32_t i, lk_error *err) {
    const lk_random_tensor *t = &w->list.tensors[i];
    const content what = content_of(t);
    if (!lk_random_blocks_init(&w->blocks, t->format, w->params->seed, i, deviation_of(t))) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT("format"),
                       "random blocks of %s cannot be made", t->format->name);
    }
    if (what == CONTENT_MATRIX || what == CONTENT_BIAS) {
        return write_matrix(w, t, err);
    }
    const uint32_t n = (uint32_t)t->ne[0];
    if (what == CONTENT_ROPE_FACTORS) {
        fill_rope_factors(w->shape, n, w->out);
    } else {
        lk_random_blocks_fill(&w->blocks, 0, n, w->out);
        for (uint32_t k = 0; k < n; k++) {
            uint8_t *at = w->out + (size_t)k * 4;
            lk_store_u32(at, lk_f32_bits(1.0f + lk_f32_from_bits(lk_load_u32(at))));
        }
    }
    return write_bytes(w, (uint64_t)n * 4, err);
}

static lk_status write_file(work *w, lk_error *err) {
    lk_status status = write_metadata(w, err);
    if (status == LK_OK) {
        status = declare_tensors(w, err);
    }
    if (status == LK_OK) {
        status = lk_gguf_writer_begin(w->writer, err);
    }
    for (uint32_t i = 0; status == LK_OK && i < w->list.n_tensors; i++) {
        status = write_tensor(w, i, err);
    }
    return status == LK_OK ? lk_gguf_writer_finish(w->writer, err) : status;
}

/* A quantiser's type, else a tensor format. */
static lk_status find_format(work *w, lk_error *err) {
    const char *name = w->params->format;
    if (lk_quantize_find_type(name, &w->mix.type)) {
        return LK_OK;
    }
    w->mix.type = LK_QUANTIZE_F16; /* says which tensors are matrices */
    for (size_t i = 0; i < lk_format_count(); i++) {
        if (is_same_name(name, lk_format_at(i)->name)) {
            w->format = lk_format_at(i);
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT("format"),
                   "\"%.64s\" is no tensor format and no type to quantise to", name);
}

static lk_status choose(work *w, lk_error *err) {
    for (size_t i = 0; i < N_SHAPES; i++) {
        w->shape = is_same_name(w->params->shape, shapes[i].name) ? &shapes[i] : w->shape;
    }
    if (w->shape == NULL) {
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT("shape"),
                       "\"%.64s\" is no known model shape", w->params->shape);
    }
    if (w->params->n_layers > w->shape->n_layers) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("n_layers"), "n_layers is %u, %s has %u",
                       w->params->n_layers, w->shape->name, w->shape->n_layers);
    }
    w->n_layers = w->params->n_layers != 0 ? w->params->n_layers : w->shape->n_layers;
    w->mix.n_layers = (int32_t)w->n_layers;
    w->mix.is_tied = w->shape->is_tied;
    return find_format(w, err);
}

static lk_status acquire(work *w, const char *path, lk_error *err) {
    const size_t out_bytes = (size_t)BATCH_ELEMS * sizeof(float);
    lk_status status = lk_pool_create(w->allocator, w->params->n_threads, &w->pool, err);
    if (status != LK_OK) {
        return status;
    }
    w->out = (uint8_t *)lk_alloc(w->allocator, out_bytes);
    if (w->out == NULL) {
        return lk_fail_nomem(err, "buffers for random weights", out_bytes);
    }
    list_keys(w);
    const lk_random_tensors_params params = {.arch = w->shape->arch,
                                             .encoder = encoder_of(w->shape),
                                             .keys = &w->keys,
                                             .n_layers = w->n_layers,
                                             .n_vocab = w->shape->n_vocab,
                                             .wants = wants,
                                             .ctx = (void *)(uintptr_t)w->shape};
    status = lk_random_tensors_list(&w->list, &params, w->allocator, err);
    w->mix.n_experts = w->list.n_experts;
    return status != LK_OK ? status : lk_gguf_writer_create(path, w->allocator, &w->writer, err);
}

static void release(work *w) {
    lk_gguf_writer_destroy(w->writer);
    lk_free(w->allocator, w->out, (size_t)BATCH_ELEMS * sizeof(float));
    lk_random_tensors_free(&w->list, w->allocator);
    lk_pool_destroy(w->pool);
}

lk_status lk_random_model_write(const char *path, const lk_random_model_params *params,
                                lk_error *err) {
    if (path == NULL || params == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "path and params must not be NULL");
    }
    lk_status status =
        lk_check_struct_size("lk_random_model_params", params->struct_size, sizeof *params, err);
    if (status != LK_OK) {
        return status;
    }
    if (params->shape == NULL || params->format == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "shape and format must not be NULL");
    }
    work w = {.params = params, .allocator = lk_allocator_or_default(params->allocator)};
    status = choose(&w, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_fpenv env = lk_fpenv_enter();
    status = acquire(&w, path, err);
    if (status == LK_OK) {
        status = write_file(&w, err);
    }
    release(&w);
    lk_fpenv_leave(env);
    return status;
}
