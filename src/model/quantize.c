/* quantize.c - lk_quantize: reads tensors piece by piece from the mapped input, rounds the pieces
 * on the pool and streams them to the writer. What a format rounds to is the format's business
 * (src/quant); which tensor gets which format is quantize_mix.c's.
 * Invariant: pieces are cut by index, whatever the number of threads, so the output's bytes and the
 * reported errors do not depend on it. Every rounded block is decoded again: what is not finite is
 * never written. */
#include "lk/quantize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/filemap.h"
#include "base/fpenv.h"
#include "base/params.h"
#include "base/pool.h"
#include "gguf/gguf_writer.h"
#include "model/quantize_mix.h"
#include "quant/format.h"

LK_NO_TAIL_PADDING(lk_quantize_params, on_tensor_ctx);
LK_NO_TAIL_PADDING(lk_quantize_tensor, square_sum);

/* A piece is what one task rounds, a batch what is written at once. */
enum { PIECE_ELEMS = 16384, BATCH_PIECES = 128, BATCH_ELEMS = PIECE_ELEMS * BATCH_PIECES };
static_assert(PIECE_ELEMS % LK_FORMAT_MAX_BLOCK_ELEMS == 0, "pieces are whole blocks");

typedef struct piece_result {
    double square_error;
    double square_sum;
    uint32_t bad; /* first element that is not finite after rounding, PIECE_ELEMS when none */
} piece_result;

typedef struct thread_scratch {
    float in[PIECE_ELEMS];
    float back[PIECE_ELEMS];
} thread_scratch;

typedef struct work {
    const lk_quantize_params *params;
    const lk_allocator *allocator;
    lk_gguf *gguf;
    lk_gguf_writer *writer;
    lk_pool *pool;
    lk_quantize_mix mix;
    thread_scratch *scratch; /* [n_threads] */
    uint8_t *out;            /* BATCH_ELEMS in the widest format, F32 */
    uint64_t n_elems_all;
    uint64_t n_elems_done;
    piece_result results[BATCH_PIECES];
    /* the batch in hand */
    const lk_format *from;
    const lk_format *to;
    const uint8_t *in;
    uint32_t n_batch;
} work;

static void round_piece(void *arg, uint32_t i_task, uint32_t i_thread) {
    work *w = (work *)arg;
    thread_scratch *scratch = &w->scratch[i_thread];
    const size_t first = (size_t)i_task * PIECE_ELEMS;
    const size_t left = w->n_batch - first;
    const uint32_t n = left < PIECE_ELEMS ? (uint32_t)left : PIECE_ELEMS;
    uint8_t *out = w->out + lk_format_bytes(w->to, first);
    w->from->decode(w->in + lk_format_bytes(w->from, first), scratch->in, n);
    w->to->encode(scratch->in, out, n);
    w->to->decode(out, scratch->back, n);
    piece_result result = {0.0, 0.0, PIECE_ELEMS};
    for (uint32_t k = 0; k < n; k++) {
        const double x = (double)scratch->in[k];
        const double e = (double)scratch->back[k] - x;
        if (!isfinite(e)) {
            result.bad = result.bad == PIECE_ELEMS ? k : result.bad;
            continue;
        }
        result.square_error += e * e;
        result.square_sum += x * x;
    }
    w->results[i_task] = result;
}

static lk_status report_progress(work *w, lk_error *err) {
    if (w->params->progress != NULL && w->params->progress(w->params->progress_ctx, "quantize",
                                                           w->n_elems_done, w->n_elems_all) == 0) {
        return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "quantising was cancelled");
    }
    return LK_OK;
}

static lk_status fail_not_finite(const lk_gguf_tensor *tensor, const lk_format *from,
                                 const lk_format *to, uint64_t i_elem, lk_error *err) {
    /* The block that holds it was rounded as one: look for the value that is to blame. */
    const uint64_t first = i_elem / to->block_elems * to->block_elems;
    float block[LK_FORMAT_MAX_BLOCK_ELEMS];
    const uint8_t *data = (const uint8_t *)tensor->data;
    from->decode(data + lk_format_bytes(from, (size_t)first), block, to->block_elems);
    uint32_t worst = 0;
    for (uint32_t k = 0; k < to->block_elems; k++) {
        if (!isfinite(block[k])) {
            return lk_fail(err, LK_E_NONFINITE, LK_AT_SUBJECT(tensor->name),
                           "tensor '%s': element %llu is %f", tensor->name,
                           (unsigned long long)(first + k), (double)block[k]);
        }
        worst = fabsf(block[k]) > fabsf(block[worst]) ? k : worst;
    }
    return lk_fail(err, LK_E_NONFINITE, LK_AT_SUBJECT(tensor->name),
                   "tensor '%s': element %llu, %g, is too large for %s", tensor->name,
                   (unsigned long long)(first + worst), (double)block[worst], to->name);
}

/* Rounds and writes elements [first, first + n) of a tensor. */
static lk_status write_batch(work *w, const lk_gguf_tensor *tensor, uint64_t first, uint32_t n,
                             lk_quantize_tensor *done, lk_error *err) {
    w->in = (const uint8_t *)tensor->data + lk_format_bytes(w->from, (size_t)first);
    w->n_batch = n;
    const uint32_t n_pieces = (n + PIECE_ELEMS - 1) / PIECE_ELEMS;
    lk_pool_run(w->pool, round_piece, w, n_pieces);
    for (uint32_t i = 0; i < n_pieces; i++) {
        const piece_result *result = &w->results[i];
        if (result->bad < PIECE_ELEMS) {
            const uint64_t i_elem = first + (uint64_t)i * PIECE_ELEMS + result->bad;
            return fail_not_finite(tensor, w->from, w->to, i_elem, err);
        }
        done->square_error += result->square_error;
        done->square_sum += result->square_sum;
    }
    const lk_status status = lk_gguf_writer_data(w->writer, w->out, lk_format_bytes(w->to, n), err);
    if (status != LK_OK) {
        return status;
    }
    w->n_elems_done += n;
    return report_progress(w, err);
}

static uint64_t count_elems(const lk_gguf_tensor *tensor) {
    return tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

static lk_status write_tensor(work *w, uint64_t i, lk_error *err) {
    lk_gguf_tensor tensor;
    lk_status status = lk_gguf_tensor_at(w->gguf, i, &tensor, err);
    if (status != LK_OK) {
        return status;
    }
    lk_quantize_tensor done = {.name = tensor.name, .from = tensor.type, .i_tensor = (uint32_t)i};
    done.to = lk_quantize_mix_format(&w->mix, &tensor, &done.wanted);
    done.n_elems = count_elems(&tensor);
    done.bytes_before = tensor.n_bytes;
    w->from = lk_format_find(tensor.type);
    w->to = lk_format_find(done.to);
    done.bytes_after = done.n_elems / w->to->block_elems * w->to->block_bytes;
    for (uint64_t first = 0; first < done.n_elems; first += BATCH_ELEMS) {
        const uint64_t left = done.n_elems - first;
        const uint32_t n = left < BATCH_ELEMS ? (uint32_t)left : BATCH_ELEMS;
        status = write_batch(w, &tensor, first, n, &done, err);
        if (status != LK_OK) {
            return status;
        }
    }
    if (w->params->on_tensor != NULL) {
        w->params->on_tensor(w->params->on_tensor_ctx, &done);
    }
    return LK_OK;
}

static lk_status write_metadata(work *w, lk_error *err) {
    static const char type_key[] = "general.file_type";
    static const char version_key[] = "general.quantization_version";
    lk_status status = LK_OK;
    for (uint64_t i = 0; status == LK_OK && i < lk_gguf_n_meta(w->gguf); i++) {
        const char *key = NULL;
        lk_gguf_value value;
        status = lk_gguf_meta(w->gguf, i, &key, &value, err);
        if (status == LK_OK && !lk_gguf_writer_skips(key) && strcmp(key, type_key) != 0 &&
            strcmp(key, version_key) != 0) {
            status = lk_gguf_writer_copy(w->writer, w->gguf, i, err);
        }
    }
    if (status == LK_OK) {
        status = lk_gguf_writer_int(w->writer, version_key, LK_GGUF_U32, 2, err);
    }
    if (status == LK_OK) {
        status = lk_gguf_writer_int(w->writer, type_key, LK_GGUF_U32, w->params->type, err);
    }
    return status;
}

/* Checks the types of all tensors and declares the outputs. */
static lk_status declare_tensors(work *w, lk_error *err) {
    for (uint64_t i = 0; i < lk_gguf_n_tensors(w->gguf); i++) {
        lk_gguf_tensor tensor;
        lk_status status = lk_gguf_tensor_at(w->gguf, i, &tensor, err);
        if (status != LK_OK) {
            return status;
        }
        if (tensor.type != LK_FORMAT_F32 && tensor.type != LK_FORMAT_F16 &&
            tensor.type != LK_FORMAT_BF16) {
            const char *name = lk_format_name(tensor.type);
            return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(tensor.name),
                           "tensor '%s' is %s already; a model is quantised from F32, F16 or BF16 "
                           "tensors only",
                           tensor.name, name != NULL ? name : "of an unknown type");
        }
        uint32_t wanted;
        status = lk_gguf_writer_tensor(w->writer, tensor.name,
                                       lk_quantize_mix_format(&w->mix, &tensor, &wanted),
                                       tensor.n_dims, tensor.ne, err);
        if (status != LK_OK) {
            return status;
        }
        w->n_elems_all += count_elems(&tensor);
    }
    return LK_OK;
}

static lk_status write_file(work *w, lk_error *err) {
    lk_status status = write_metadata(w, err);
    if (status == LK_OK) {
        status = declare_tensors(w, err);
    }
    if (status == LK_OK) {
        status = lk_gguf_writer_begin(w->writer, err);
    }
    for (uint64_t i = 0; status == LK_OK && i < lk_gguf_n_tensors(w->gguf); i++) {
        status = write_tensor(w, i, err);
    }
    return status == LK_OK ? lk_gguf_writer_finish(w->writer, err) : status;
}

static lk_status acquire(work *w, const char *in_path, const char *out_path, lk_error *err) {
    lk_status status = lk_gguf_open(in_path, w->allocator, &w->gguf, err);
    if (status != LK_OK) {
        return status;
    }
    if (lk_filemap_is_same(in_path, out_path)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(out_path),
                       "%.128s is the input: it would be lost, and what it holds cannot be made "
                       "from the output again",
                       out_path);
    }
    if (!lk_quantize_mix_init(&w->mix, w->gguf, w->params->type)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("type"), "%u is no type to quantise to",
                       w->params->type);
    }
    status = lk_pool_create(w->allocator, w->params->n_threads, &w->pool, err);
    if (status != LK_OK) {
        return status;
    }
    const size_t out_bytes = (size_t)BATCH_ELEMS * sizeof(float);
    w->scratch = (thread_scratch *)lk_alloc_array(w->allocator, lk_pool_n_threads(w->pool),
                                                  sizeof(thread_scratch));
    w->out = (uint8_t *)lk_alloc(w->allocator, out_bytes);
    if (w->scratch == NULL || w->out == NULL) {
        return lk_fail_nomem(err, "buffers to quantise in", out_bytes);
    }
    return lk_gguf_writer_create(out_path, w->allocator, &w->writer, err);
}

static void release(work *w) {
    lk_gguf_writer_destroy(w->writer);
    lk_free(w->allocator, w->out, (size_t)BATCH_ELEMS * sizeof(float));
    if (w->pool != NULL) {
        lk_free_array(w->allocator, w->scratch, lk_pool_n_threads(w->pool), sizeof(thread_scratch));
    }
    lk_pool_destroy(w->pool);
    lk_gguf_close(w->gguf);
}

lk_status lk_quantize(const char *in_path, const char *out_path, const lk_quantize_params *params,
                      lk_error *err) {
    if (in_path == NULL || out_path == NULL || params == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "in_path, out_path and params must not be NULL");
    }
    lk_status status =
        lk_check_struct_size("lk_quantize_params", params->struct_size, sizeof *params, err);
    if (status != LK_OK) {
        return status;
    }
    if (lk_quantize_type_name(params->type) == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("type"), "%u is no type to quantise to",
                       params->type);
    }
    const lk_fpenv env = lk_fpenv_enter();
    work w = {.params = params, .allocator = lk_allocator_or_default(params->allocator)};
    status = acquire(&w, in_path, out_path, err);
    if (status == LK_OK) {
        status = write_file(&w, err);
    }
    release(&w);
    lk_fpenv_leave(env);
    return status;
}
