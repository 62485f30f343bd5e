/* cuda_attention.c - attention over the KV pages: the keys and values of all rows of the step are
 * stored, then every row attends. Few rows with long contexts go in parts, chunk by chunk, so that
 * the device has enough to do; the bits are the same. */
#include "backend/cuda/cuda.h"

/* Blocks that keep a large device busy, and chunks below which parts are not worth it. */
enum { ENOUGH_BLOCKS = 1024, MIN_CHUNKS = 3 };

static lk_cuda_kv kv_of(const lk_backend *b, const lk_attention *attn) {
    const bool in_window = attn->window != 0;
    return (lk_cuda_kv){.pages = lk_cuda_at(in_window ? b->window_pages : b->pages),
                        .page_bytes = in_window ? b->window_page_bytes : b->page_bytes,
                        .offset = b->kv_offset[attn->i_kv],
                        .table = lk_cuda_at(in_window ? b->rows.window_pages.at : b->rows.pages.at),
                        .first = lk_cuda_at(b->rows.first_page.at),
                        .pos = lk_cuda_at(b->rows.pos.at),
                        .k_format = (uint32_t)b->params.k_format,
                        .v_format = (uint32_t)b->params.v_format,
                        .n_kv_heads = attn->n_kv_heads,
                        .head_dim = attn->head_dim};
}

/* Chunks that a row sees at most. */
static uint32_t max_chunks(const lk_backend *b, const lk_attention *attn) {
    const uint32_t reach = attn->window / LK_CHUNK + 2;
    return attn->window != 0 && reach < b->rows.max_chunks ? reach : b->rows.max_chunks;
}

static bool goes_in_parts(const lk_backend *b, const lk_cuda_attention_args *args) {
    const size_t n_queries = (size_t)args->n_rows * args->n_heads;
    const size_t floats =
        n_queries * args->max_chunks * lk_attn_part_floats(args->kv.head_dim); /* of 2^28 chunks */
    return args->max_chunks >= MIN_CHUNKS && n_queries < ENOUGH_BLOCKS && floats <= b->parts_floats;
}

lk_status lk_cuda_run_attention(lk_backend *b, const lk_node *node, lk_error *err) {
    const lk_attention *attn = &node->p.attn;
    const lk_cuda_kv kv = kv_of(b, attn);
    const lk_cuda_flags flags = lk_cuda_flags_of(b, node, node->out);
    const lk_cuda_kv_store_args store = {.kv = kv,
                                         .k = lk_cuda_at(lk_cuda_value(b, node->in[1])),
                                         .v = lk_cuda_at(lk_cuda_value(b, node->in[2])),
                                         .n_rows = b->step->n_rows,
                                         .flags = flags};
    lk_status status =
        lk_cuda_launch(b, LK_CUDA_kv_store, lk_cuda_shape_kv_store(&store), &store, err);
    const lk_cuda_attention_args args = {
        .kv = kv,
        .q = lk_cuda_at(lk_cuda_value(b, node->in[0])),
        .y = lk_cuda_at(lk_cuda_value(b, node->out)),
        .sinks = lk_cuda_weight(b, node, LK_CUDA_W_SINKS),
        .n_rows = b->step->n_rows,
        .n_heads = attn->n_heads,
        .window = attn->window,
        .scale = attn->scale,
        .soft_cap = attn->soft_cap,
        .parts = lk_cuda_at(b->parts),
        .max_chunks = max_chunks(b, attn),
        .flags = flags,
    };
    if (status == LK_OK && !goes_in_parts(b, &args)) {
        return lk_cuda_launch(b, LK_CUDA_attention, lk_cuda_shape_attention(&args), &args, err);
    }
    if (status == LK_OK) {
        status = lk_cuda_launch(b, LK_CUDA_attention_parts, lk_cuda_shape_attention_parts(&args),
                                &args, err);
    }
    if (status == LK_OK) {
        status = lk_cuda_launch(b, LK_CUDA_attention_join, lk_cuda_shape_attention_join(&args),
                                &args, err);
    }
    return status;
}
