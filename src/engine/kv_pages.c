/* kv_pages.c - see kv_pages.h. */
#include "engine/kv_pages.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/philox.h"

/* Both a binary32 and a binary16 of these bytes are NaN. */
static const uint8_t poison_byte = 0xff;

lk_status lk_kv_pages_init(lk_kv_pages *pages, const lk_allocator *allocator,
                           const lk_kv_pages_params *params, lk_error *err) {
    const uint32_t n_pages = params->n_pages;
    const size_t page_tokens = params->keeps_tokens ? LK_CHUNK : 0;
    memset(pages, 0, sizeof *pages);
    pages->allocator = allocator;
    pages->first = params->first;
    pages->n_pages = n_pages;
    pages->poison = params->poison;
    pages->seed = params->seed;
    pages->free_pages = lk_alloc_array(allocator, n_pages, sizeof pages->free_pages[0]);
    pages->refs = lk_alloc_array_zero(allocator, n_pages, sizeof pages->refs[0]);
    if (params->keeps_tokens) {
        pages->tokens = lk_alloc_array(allocator, n_pages, LK_CHUNK * sizeof pages->tokens[0]);
        pages->digests = lk_alloc_array(allocator, n_pages, LK_CHUNK * sizeof pages->digests[0]);
    }
    if (pages->free_pages == NULL || pages->refs == NULL ||
        (params->keeps_tokens && (pages->tokens == NULL || pages->digests == NULL))) {
        return lk_fail_nomem(err, "the KV page directory",
                             (size_t)n_pages * (page_tokens * 5 + 2) * sizeof pages->tokens[0]);
    }
    for (uint32_t i = 0; i < n_pages; i++) {
        pages->free_pages[i] = pages->first + n_pages - 1 - i;
    }
    pages->n_free = n_pages;
    return LK_OK;
}

void lk_kv_pages_deinit(lk_kv_pages *pages) {
    if (pages->allocator == NULL) {
        return;
    }
    lk_free_array(pages->allocator, pages->free_pages, pages->n_pages, sizeof pages->free_pages[0]);
    lk_free_array(pages->allocator, pages->refs, pages->n_pages, sizeof pages->refs[0]);
    lk_free_array(pages->allocator, pages->digests, pages->n_pages,
                  LK_CHUNK * sizeof pages->digests[0]);
    lk_free_array(pages->allocator, pages->tokens, pages->n_pages,
                  LK_CHUNK * sizeof pages->tokens[0]);
    memset(pages, 0, sizeof *pages);
}

void lk_kv_pages_attach(lk_kv_pages *pages, const lk_backend_ops *ops, lk_backend *backend) {
    pages->ops = ops;
    pages->backend = backend;
}

/* Puts a free page that the seed chooses where the next one is taken from. */
static void shuffle_next(lk_kv_pages *pages) {
    const uint32_t counter[4] = {(uint32_t)pages->n_taken, (uint32_t)(pages->n_taken >> 32), 0, 0};
    uint32_t words[4];
    lk_philox4x32(pages->seed, counter, words);
    const uint32_t i = words[0] % pages->n_free;
    const uint32_t last = pages->n_free - 1;
    const uint32_t page = pages->free_pages[i];
    pages->free_pages[i] = pages->free_pages[last];
    pages->free_pages[last] = page;
}

lk_status lk_kv_pages_take(lk_kv_pages *pages, uint32_t *page, lk_error *err) {
    *page = 0;
    if (pages->n_free == 0) {
        return LK_E_FULL;
    }
    if (pages->seed != 0) {
        shuffle_next(pages);
    }
    const uint32_t taken = pages->free_pages[pages->n_free - 1];
    assert(pages->refs[taken - pages->first] == 0);
    if (pages->poison) {
        const lk_status status = pages->ops->page_fill(pages->backend, taken, poison_byte, err);
        if (status != LK_OK) {
            return status;
        }
    }
    pages->n_free--;
    pages->n_taken++;
    pages->refs[taken - pages->first] = 1;
    *page = taken;
    return LK_OK;
}

lk_status lk_kv_pages_copy(lk_kv_pages *pages, uint32_t src, uint32_t *page, lk_error *err) {
    uint32_t copy = 0;
    lk_status status = lk_kv_pages_take(pages, &copy, err);
    if (status != LK_OK) {
        return status;
    }
    status = pages->ops->page_copy(pages->backend, copy, src, err);
    if (status != LK_OK) {
        lk_kv_pages_release(pages, copy);
        return status;
    }
    if (pages->tokens != NULL) {
        memcpy(pages->tokens + (size_t)copy * LK_CHUNK, pages->tokens + (size_t)src * LK_CHUNK,
               LK_CHUNK * sizeof pages->tokens[0]);
        memcpy(pages->digests + (size_t)copy * LK_CHUNK, pages->digests + (size_t)src * LK_CHUNK,
               LK_CHUNK * sizeof pages->digests[0]);
    }
    pages->n_copied++;
    *page = copy;
    return LK_OK;
}

/* The count of a page that is held. */
static uint32_t *refs_of(const lk_kv_pages *pages, uint32_t page) {
    assert(page >= pages->first && page - pages->first < pages->n_pages);
    assert(pages->refs[page - pages->first] > 0);
    return &pages->refs[page - pages->first];
}

uint32_t lk_kv_pages_refs(const lk_kv_pages *pages, uint32_t page) {
    return *refs_of(pages, page);
}

void lk_kv_pages_share(lk_kv_pages *pages, uint32_t page) {
    (*refs_of(pages, page))++;
}

void lk_kv_pages_release(lk_kv_pages *pages, uint32_t page) {
    uint32_t *refs = refs_of(pages, page);
    (*refs)--;
    if (*refs != 0) {
        return;
    }
    if (pages->poison) {
        /* A failure here leaves old contents in a page that take fills before it is used. */
        (void)pages->ops->page_fill(pages->backend, page, poison_byte, NULL);
    }
    pages->free_pages[pages->n_free++] = page;
}
