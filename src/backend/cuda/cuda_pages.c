/* cuda_pages.c - the KV pages on the device. They have the form that state files exchange: of each
 * layer the key blocks of its heads, then the value blocks. */
#include "backend/cuda/cuda.h"

#include <string.h>

#include "base/error.h"

size_t lk_cuda_page_bytes(const lk_backend *b) {
    return b->page_bytes;
}

size_t lk_cuda_window_page_bytes(const lk_backend *b) {
    return b->window_page_bytes;
}

static bool is_window_page(const lk_backend *b, uint32_t page) {
    return page >= b->params.n_pages;
}

static size_t bytes_of(const lk_backend *b, uint32_t page) {
    return is_window_page(b, page) ? b->window_page_bytes : b->page_bytes;
}

static lk_status find_page(const lk_backend *b, uint32_t page, lk_cuda_ptr *at, lk_error *err) {
    if (page >= b->params.n_pages && page - b->params.n_pages >= b->params.n_window_pages) {
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "KV page %u of %u and %u", page,
                       b->params.n_pages, b->params.n_window_pages);
    }
    *at = is_window_page(b, page)
              ? b->window_pages + (uint64_t)(page - b->params.n_pages) * b->window_page_bytes
              : b->pages + (uint64_t)page * b->page_bytes;
    return LK_OK;
}

/* Ends what was begun between lk_cuda_enter and here: waits for it, and leaves. */
static lk_status end(lk_backend *b, lk_status status, lk_error *err) {
    if (status == LK_OK) {
        status = lk_cuda_wait(b, err);
    } else {
        (void)lk_cuda_wait(b, NULL);
    }
    lk_cuda_leave(b);
    return status;
}

lk_status lk_cuda_page_copy(lk_backend *b, uint32_t dst, uint32_t src, lk_error *err) {
    lk_cuda_ptr to = 0;
    lk_cuda_ptr from = 0;
    lk_status status = find_page(b, dst, &to, err);
    if (status == LK_OK) {
        status = find_page(b, src, &from, err);
    }
    if (status == LK_OK && is_window_page(b, dst) != is_window_page(b, src)) {
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "KV pages %u and %u are of two kinds", dst,
                       src);
    }
    if (status == LK_OK && dst != src && bytes_of(b, dst) != 0) {
        status = lk_cuda_enter(b, err);
        if (status == LK_OK) {
            status = end(b,
                         lk_cuda_check(&b->driver,
                                       b->driver.copy_within(to, from, bytes_of(b, dst), b->stream),
                                       "copying a page", err),
                         err);
        }
    }
    return status;
}

lk_status lk_cuda_page_fill(lk_backend *b, uint32_t page, uint8_t byte, lk_error *err) {
    lk_cuda_ptr to = 0;
    lk_status status = find_page(b, page, &to, err);
    if (status == LK_OK && bytes_of(b, page) != 0) {
        status = lk_cuda_enter(b, err);
        if (status == LK_OK) {
            status =
                end(b,
                    lk_cuda_check(&b->driver,
                                  b->driver.memory_fill(to, byte, bytes_of(b, page), b->stream),
                                  "filling a page", err),
                    err);
        }
    }
    return status;
}

/* Zeros behind positions 0 .. n-1 of one head's block; returns its bytes. */
static size_t cut_block(lk_kv_format format, size_t head_dim, size_t n, uint8_t *block) {
    const size_t size = lk_kv_block_bytes(format, head_dim);
    if (format == LK_KV_FORMAT_Q8_0) {
        const size_t scales = LK_CHUNK * head_dim;
        const size_t scale_bytes = (head_dim + LK_KV_GROUP - 1) / LK_KV_GROUP * sizeof(float);
        const size_t end = n * scale_bytes;
        memset(block + n * head_dim, 0, scales - n * head_dim);
        memset(block + scales + end, 0, size - scales - end);
    } else {
        const size_t end = n * (size / LK_CHUNK);
        memset(block + end, 0, size - end);
    }
    return size;
}

lk_status lk_cuda_page_read(lk_backend *b, uint32_t page, uint32_t n_positions, void *out,
                            lk_error *err) {
    lk_cuda_ptr from = 0;
    lk_status status = find_page(b, page, &from, err);
    if (status == LK_OK && n_positions > LK_CHUNK) {
        return lk_fail(err, LK_E_INTERNAL, LK_NOWHERE, "%u positions of a page", n_positions);
    }
    if (status != LK_OK || bytes_of(b, page) == 0) {
        return status;
    }
    status = lk_cuda_enter(b, err);
    if (status == LK_OK) {
        status = end(b, lk_cuda_copy_out(b, out, from, bytes_of(b, page), err), err);
    }
    uint8_t *block = out;
    for (uint32_t i = 0; i < b->graph->n_kv_layers && status == LK_OK; i++) {
        const lk_kv_layer *layer = &b->graph->kv_layers[i];
        if ((layer->window != 0) != is_window_page(b, page)) {
            continue;
        }
        for (uint32_t h = 0; h < 2 * layer->n_kv_heads; h++) {
            const lk_kv_format format =
                h < layer->n_kv_heads ? b->params.k_format : b->params.v_format;
            block += cut_block(format, layer->head_dim, n_positions, block);
        }
    }
    return status;
}

lk_status lk_cuda_page_write(lk_backend *b, uint32_t page, const void *in, lk_error *err) {
    lk_cuda_ptr to = 0;
    lk_status status = find_page(b, page, &to, err);
    if (status == LK_OK && bytes_of(b, page) != 0) {
        status = lk_cuda_enter(b, err);
        if (status == LK_OK) {
            status = end(b, lk_cuda_copy_in(b, to, in, bytes_of(b, page), err), err);
        }
    }
    return status;
}
