/* encoder.c - features to vectors: windows are cut off the frames and computed a few at a time. A
 * window is a run of the step; nothing of it depends on the others. */
#include "engine/encoder.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/params.h"
#include "base/pool.h"
#include "base/sha256.h"
#include "lk/context.h"
#include "model/projector.h"

LK_NO_TAIL_PADDING(lk_encoder_params, reserved);
LK_NO_TAIL_PADDING(lk_encode_params, progress_ctx);

typedef struct lk_stage_hash {
    lk_sha256 sha;
} lk_stage_hash;

static lk_status check_params(const lk_encoder_params *p, lk_error *err) {
    const lk_range ranges[] = {
        {"n_threads", p->n_threads, 0, LK_POOL_MAX_THREADS},
        {"max_windows", p->max_windows, 1, LK_MAX_WINDOWS},
        {"flags", p->flags & ~(uint32_t)LK_CONTEXT_F32_ACTIVATIONS, 0, 0},
        {"reserved", p->reserved, 0, 0},
    };
    return lk_check_ranges(ranges, sizeof ranges / sizeof ranges[0], err);
}

static uint32_t max_rows_of(const lk_encoder *e) {
    return (uint32_t)e->params.max_windows * e->graph->max_run;
}

static lk_status allocate(lk_encoder *e, uint32_t i_device, lk_error *err) {
    const lk_allocator *a = e->allocator;
    e->rows = lk_alloc_array(a, max_rows_of(e), sizeof e->rows[0]);
    e->runs = lk_alloc_array(a, (size_t)e->params.max_windows, sizeof e->runs[0]);
    e->hashes = lk_alloc_array(a, (size_t)e->n_stages, sizeof e->hashes[0]);
    if (e->rows == NULL || e->runs == NULL || e->hashes == NULL) {
        return lk_fail_nomem(err, "an encoder's tables", max_rows_of(e) * sizeof e->rows[0]);
    }
    const lk_backend_params params = {
        .allocator = a,
        .n_threads = e->params.n_threads,
        .isa_mask = e->params.isa_mask,
        .max_rows = max_rows_of(e),
        .f32_activations = (e->params.flags & LK_CONTEXT_F32_ACTIVATIONS) != 0,
        .device = i_device,
    };
    return e->ops->create(e->graph, &params, &e->backend, err);
}

lk_status lk_encoder_build(lk_projector *projector, const lk_backend_ops *ops, uint32_t i_device,
                           const lk_encoder_params *params, lk_encoder **out, lk_error *err) {
    *out = NULL;
    lk_projector_info info = LK_PROJECTOR_INFO_INIT;
    lk_status status = check_params(params, err);
    if (status == LK_OK) {
        status = lk_projector_get_info(projector, &info, err);
    }
    if (status != LK_OK) {
        return status;
    }
    const lk_allocator *a = lk_allocator_or_default(params->allocator);
    lk_encoder *e = lk_alloc_zero(a, sizeof *e);
    if (e == NULL) {
        return lk_fail_nomem(err, "an encoder", sizeof *e);
    }
    e->allocator = a;
    e->projector = projector;
    e->graph = &projector->parts.graph;
    e->ops = ops;
    e->params = *params;
    e->n_out = lk_projector_width(projector);
    e->n_stages = info.n_stages;
    atomic_init(&e->is_busy, 0);
    status = allocate(e, i_device, err);
    if (status != LK_OK) {
        lk_encoder_free(e);
        return status;
    }
    *out = e;
    return LK_OK;
}

void lk_encoder_free(lk_encoder *e) {
    if (e == NULL) {
        return;
    }
    const lk_allocator *a = e->allocator;
    if (e->backend != NULL) {
        e->ops->destroy(e->backend);
    }
    lk_free_array(a, e->hashes, (size_t)e->n_stages, sizeof e->hashes[0]);
    lk_free_array(a, e->runs, (size_t)e->params.max_windows, sizeof e->runs[0]);
    lk_free_array(a, e->rows, max_rows_of(e), sizeof e->rows[0]);
    lk_free(a, e, sizeof *e);
}

/* ---- digests of the stages ---- */

static void hash_values(lk_stage_hash *hash, const float *values, size_t n) {
    uint8_t bytes[1024];
    for (size_t done = 0; done < n;) {
        const size_t left = n - done;
        const size_t here = left < sizeof bytes / 4 ? left : sizeof bytes / 4;
        for (size_t i = 0; i < here; i++) {
            lk_store_u32(bytes + 4 * i, lk_f32_bits(values[done + i]));
        }
        lk_sha256_update(&hash->sha, bytes, 4 * here);
        done += here;
    }
}

/* Who wants to see the stages of a run. */
typedef struct audience {
    lk_encoder *encoder;
    bool hashes;
    lk_show_fn *show;
    void *show_ctx;
} audience;

static void show(void *ctx, uint32_t stage, const float *values, uint32_t n_rows, uint32_t width) {
    const audience *to = ctx;
    if (to->hashes) { /* behind the features */
        hash_values(&to->encoder->hashes[stage + 1], values, (size_t)n_rows * width);
    }
    if (to->show != NULL) {
        to->show(to->show_ctx, stage, values, n_rows, width);
    }
}

/* ---- windows ---- */

/* Rows and runs for n frames; returns how many runs there are. */
static uint32_t cut_windows(lk_encoder *e, const float *features, uint32_t n) {
    const uint32_t window = e->graph->max_run;
    uint32_t n_runs = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (r % window == 0) {
            const uint32_t left = n - r;
            e->runs[n_runs++] = (lk_step_run){.first = r, .n = left < window ? left : window};
        }
        e->rows[r] = (lk_step_row){.token = -1,
                                   .embedding = features + (size_t)r * e->graph->n_embd,
                                   .i_run = n_runs - 1,
                                   .pos = r % window,
                                   .i_out = -1};
    }
    return n_runs;
}

/* The frame where it began: one that came in so, else the first. */
static lk_status check_rows(const lk_encoder *e, uint64_t first, uint32_t n, lk_error *err) {
    uint32_t bad = n;
    for (uint32_t r = 0; r < n; r++) {
        const lk_node_kind op = e->rows[r].bad_op;
        if (op == LK_NODE_EMBED || (op != LK_NODE_COUNT && bad == n)) {
            bad = r;
        }
        if (op == LK_NODE_EMBED) {
            break;
        }
    }
    if (bad == n) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_NONFINITE, LK_AT_ROW(-1, (int64_t)(first + bad)),
                   "frame %llu: a value is not finite (layer %d, operator %s)",
                   (unsigned long long)(first + bad), e->rows[bad].bad_layer,
                   lk_node_name(e->rows[bad].bad_op));
}

static lk_status run_windows(lk_encoder *e, const float *features, uint64_t first, uint32_t n,
                             float *embeddings, audience *to, lk_error *err) {
    lk_step step = {
        .rows = e->rows,
        .n_rows = n,
        .runs = e->runs,
        .n_runs = cut_windows(e, features + first * e->graph->n_embd, n),
        .logits = embeddings,
        .show = to->hashes || to->show != NULL ? show : NULL,
        .show_ctx = to,
    };
    const lk_status status = e->ops->step(e->backend, &step, err);
    return status == LK_OK ? check_rows(e, first, n, err) : status;
}

static void finish_digests(lk_encoder *e, const float *features, uint64_t n_frames,
                           const float *embeddings, uint64_t n_tokens, uint8_t (*digests)[16]) {
    hash_values(&e->hashes[0], features, (size_t)n_frames * e->graph->n_embd);
    hash_values(&e->hashes[e->n_stages - 1], embeddings, (size_t)n_tokens * e->n_out);
    for (int32_t i = 0; i < e->n_stages; i++) {
        uint8_t sha[32];
        lk_sha256_final(&e->hashes[i].sha, sha);
        memcpy(digests[i], sha, 16);
    }
}

lk_status lk_encoder_run(lk_encoder *e, const float *features, uint64_t n_frames, float *embeddings,
                         const lk_encode_params *params, lk_show_fn *show_fn, void *show_ctx,
                         lk_error *err) {
    const uint32_t window = e->graph->max_run;
    float none = 0.0f; /* where there are too few frames for a vector, and no memory for one */
    embeddings = embeddings != NULL ? embeddings : &none;
    const uint64_t n_windows = n_frames / window + (n_frames % window != 0);
    audience to = {e, params->digests != NULL, show_fn, show_ctx};
    for (int32_t i = 0; to.hashes && i < e->n_stages; i++) {
        lk_sha256_init(&e->hashes[i].sha);
    }
    uint64_t n_tokens = 0;
    for (uint64_t first = 0; first < n_frames; first += max_rows_of(e)) {
        const uint64_t left = n_frames - first;
        const uint32_t n = left < max_rows_of(e) ? (uint32_t)left : max_rows_of(e);
        if (params->progress != NULL &&
            params->progress(params->progress_ctx, "encode", first / window, n_windows) == 0) {
            return lk_fail(err, LK_E_CANCELLED, LK_NOWHERE, "encoding was cancelled");
        }
        const lk_status status =
            run_windows(e, features, first, n, embeddings + n_tokens * e->n_out, &to, err);
        if (status != LK_OK) {
            return status;
        }
        n_tokens += lk_projector_n_tokens(e->projector, n);
    }
    if (params->progress != NULL) {
        (void)params->progress(params->progress_ctx, "encode", n_windows, n_windows);
    }
    if (to.hashes) {
        finish_digests(e, features, n_frames, embeddings, n_tokens, params->digests);
    }
    return LK_OK;
}
