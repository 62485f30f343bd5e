/* fake_backend.c - see fake_backend.h. */
#include "fake_backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "engine/scheduler/scheduler.h"

fake_control fake;

struct lk_backend {
    const lk_allocator *allocator;
    lk_backend_params params;
    uint64_t *words; /* [n_pages, LK_CHUNK] */
};

static const uint64_t poison = UINT64_MAX;

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t word_of(int32_t token, int64_t pos) {
    return mix((uint64_t)token * 0x9E3779B97F4A7C15u + (uint64_t)pos + 1) >> 1; /* never poison */
}

/* The same of a row that is a vector. */
static uint64_t word_of_vector(const float *embedding, int64_t pos) {
    uint64_t hash = 0xE5;
    for (int i = 0; i < FAKE_EMBD; i++) {
        hash = mix(hash * 31 + lk_f32_bits(embedding[i]));
    }
    return mix(hash + (uint64_t)pos) >> 1;
}

static uint64_t fold(uint64_t hash, uint64_t word) {
    return mix(hash * 31 + word);
}

static void write_logits(uint64_t hash, float *logits) {
    for (uint64_t i = 0; i < FAKE_VOCAB; i++) {
        logits[i] = (float)((int64_t)(mix(hash + i) % 2001u) - 1000) * 0.01f;
    }
}

static void write_hidden(uint64_t hash, float *hidden) {
    for (uint64_t i = 0; i < FAKE_WIDTH; i++) {
        hidden[i] = (float)((int64_t)(mix(hash ^ (i + 77)) % 2001u) - 1000) * 0.001f;
    }
}

static uint64_t hash_of(const int32_t *tokens, const float *const *embeddings, size_t n) {
    uint64_t hash = 0;
    for (size_t i = 0; i < n; i++) {
        const float *embedding = embeddings != NULL ? embeddings[i] : NULL;
        hash = fold(hash, embedding != NULL ? word_of_vector(embedding, (int64_t)i)
                                            : word_of(tokens[i], (int64_t)i));
    }
    return hash;
}

void fake_logits(const int32_t *tokens, size_t n, float *logits) {
    fake_logits_of(tokens, NULL, n, logits);
}

void fake_logits_of(const int32_t *tokens, const float *const *embeddings, size_t n,
                    float *logits) {
    write_logits(hash_of(tokens, embeddings, n), logits);
}

void fake_hidden(const int32_t *tokens, size_t n, float *hidden) {
    write_hidden(hash_of(tokens, NULL, n), hidden);
}

static lk_status fake_create(const lk_graph *graph, const lk_backend_params *params,
                             lk_backend **out, lk_error *err) {
    (void)graph;
    *out = NULL;
    lk_backend *b = lk_alloc_zero(params->allocator, sizeof *b);
    if (b == NULL) {
        return lk_fail_nomem(err, "a fake backend", sizeof *b);
    }
    b->allocator = params->allocator;
    b->params = *params;
    b->words = lk_alloc_array(b->allocator, (size_t)params->n_pages * LK_CHUNK, sizeof b->words[0]);
    if (b->words == NULL) {
        lk_free(b->allocator, b, sizeof *b);
        return lk_fail_nomem(err, "fake pages", params->n_pages);
    }
    memset(b->words, 0x55, (size_t)params->n_pages * LK_CHUNK * sizeof b->words[0]);
    *out = b;
    return LK_OK;
}

static void fake_destroy(lk_backend *b) {
    lk_free_array(b->allocator, b->words, (size_t)b->params.n_pages * LK_CHUNK, sizeof b->words[0]);
    lk_free(b->allocator, b, sizeof *b);
}

static uint64_t *cell(lk_backend *b, const lk_step_run *run, int64_t pos) {
    const uint32_t page = run->pages[pos / LK_CHUNK];
    if (page >= b->params.n_pages) {
        fake.n_violations++;
        return &b->words[0];
    }
    return &b->words[(size_t)page * LK_CHUNK + (size_t)(pos % LK_CHUNK)];
}

/* What backend.h promises about a step. */
static void check_step(const lk_backend *b, const lk_step *step) {
    uint32_t n_covered = 0;
    uint32_t n_out = 0;
    uint32_t n_hidden = 0;
    for (uint32_t i = 0; i < step->n_runs; i++) {
        const lk_step_run *run = &step->runs[i];
        fake.n_violations += run->first != n_covered || run->n == 0;
        n_covered += run->n;
        for (uint32_t k = 0; k < i; k++) {
            fake.n_violations += step->runs[k].pages == run->pages;
        }
        for (uint32_t k = run->first; k < n_covered && k < step->n_rows; k++) {
            const lk_step_row *row = &step->rows[k];
            fake.n_violations += row->i_run != i;
            fake.n_violations += k > run->first && row->pos != step->rows[k - 1].pos + 1;
            fake.n_violations += row->i_out >= 0 && row->i_out != (int32_t)n_out;
            n_out += row->i_out >= 0;
            n_hidden += row->wants_hidden;
        }
    }
    fake.n_violations += n_hidden != step->n_hidden || n_covered != step->n_rows ||
                         n_out != step->n_out || step->n_rows == 0 ||
                         step->n_rows > b->params.max_rows || n_out > b->params.max_out;
}

static lk_status fake_step(lk_backend *b, lk_step *step, lk_error *err) {
    fake.n_steps++;
    fake.max_rows = step->n_rows > fake.max_rows ? step->n_rows : fake.max_rows;
    fake.n_mixed += step->n_runs > 1;
    check_step(b, step);
    if (fake.on_step != NULL) {
        fake.on_step(fake.ctx);
    }
    if (fake.fail_step_at != 0 && --fake.fail_step_at == 0) {
        return lk_fail(err, LK_E_DEVICE, LK_NOWHERE, "the fake device fails");
    }
    for (uint32_t i = 0; i < step->n_rows; i++) {
        lk_step_row *row = &step->rows[i];
        *cell(b, &step->runs[row->i_run], row->pos) = row->embedding != NULL
                                                          ? word_of_vector(row->embedding, row->pos)
                                                          : word_of(row->token, row->pos);
    }
    uint32_t i_hidden = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        lk_step_row *row = &step->rows[i];
        uint64_t hash = 0;
        bool is_finite = true;
        for (int64_t pos = 0; pos <= row->pos; pos++) {
            const uint64_t word = *cell(b, &step->runs[row->i_run], pos);
            is_finite = is_finite && word != poison;
            hash = fold(hash, word);
        }
        if (!is_finite) {
            row->bad_layer = 0;
            row->bad_op = LK_NODE_ATTENTION;
        } else if (row->token == FAKE_BAD_TOKEN) {
            row->bad_layer = FAKE_BAD_LAYER;
            row->bad_op = LK_NODE_MATMUL;
        }
        if (row->i_out >= 0) {
            write_logits(hash, step->logits + (size_t)row->i_out * FAKE_VOCAB);
        }
        if (row->wants_hidden) {
            write_hidden(hash, step->hidden + (size_t)i_hidden++ * FAKE_WIDTH);
        }
    }
    return LK_OK;
}

static size_t fake_page_bytes(const lk_backend *b) {
    return LK_CHUNK * sizeof b->words[0];
}

/* Its graph has no layers with windows. */
static size_t fake_window_page_bytes(const lk_backend *b) {
    (void)b;
    return 0;
}

static lk_status fake_page_copy(lk_backend *b, uint32_t dst, uint32_t src, lk_error *err) {
    if (fake.fail_copy_at != 0 && --fake.fail_copy_at == 0) {
        return lk_fail(err, LK_E_DEVICE, LK_NOWHERE, "the fake copy fails");
    }
    memcpy(b->words + (size_t)dst * LK_CHUNK, b->words + (size_t)src * LK_CHUNK,
           fake_page_bytes(b));
    return LK_OK;
}

static lk_status fake_page_fill(lk_backend *b, uint32_t page, uint8_t byte, lk_error *err) {
    (void)err;
    memset(b->words + (size_t)page * LK_CHUNK, byte, fake_page_bytes(b));
    return LK_OK;
}

static lk_status fake_page_read(lk_backend *b, uint32_t page, uint32_t n_positions, void *out,
                                lk_error *err) {
    (void)err;
    memset(out, 0, fake_page_bytes(b));
    memcpy(out, b->words + (size_t)page * LK_CHUNK, n_positions * sizeof b->words[0]);
    return LK_OK;
}

static lk_status fake_page_write(lk_backend *b, uint32_t page, const void *in, lk_error *err) {
    (void)err;
    memcpy(b->words + (size_t)page * LK_CHUNK, in, fake_page_bytes(b));
    return LK_OK;
}

static void fake_get_stats(const lk_backend *b, lk_backend_stats *stats) {
    *stats = (lk_backend_stats){.n_threads = b->params.n_threads};
}

/* The last one first: the order must not matter. */
static void fake_run_tasks(lk_backend *b, lk_pool_fn fn, void *arg, uint32_t n_tasks) {
    (void)b;
    while (n_tasks-- > 0) {
        fn(arg, n_tasks, 0);
    }
}

const lk_backend_ops fake_backend_ops = {
    .name = "fake",
    .create = fake_create,
    .destroy = fake_destroy,
    .step = fake_step,
    .page_bytes = fake_page_bytes,
    .window_page_bytes = fake_window_page_bytes,
    .page_copy = fake_page_copy,
    .page_fill = fake_page_fill,
    .page_read = fake_page_read,
    .page_write = fake_page_write,
    .get_stats = fake_get_stats,
    .run_tasks = fake_run_tasks,
};

static lk_value_info fake_values[] = {{.width = FAKE_WIDTH}};
static const lk_graph fake_graph = {
    .n_vocab = FAKE_VOCAB, .n_embd = FAKE_EMBD, .values = fake_values, .n_values = 1, .hidden = 0};
static const lk_context_source fake_source = {NULL, &fake_graph, &fake_backend_ops, 256, 0};

lk_status fake_context(const lk_context_params *params, lk_context **out, lk_error *err) {
    return lk_context_build(&fake_source, params, out, err);
}

lk_status fake_engine(const lk_engine_params *params, lk_engine **out, lk_error *err) {
    return lk_engine_build(&fake_source, params, out, err);
}

bool fake_is_consistent(const lk_context *c) {
    const lk_kv_pages *pages = &c->kv.pages;
    uint32_t *refs = calloc(pages->n_pages, sizeof refs[0]);
    if (refs == NULL) {
        return false;
    }
    bool ok = c->n_touched == 0;
    for (int32_t i = 0; i < c->params.n_sequences; i++) {
        const lk_seq *seq = &c->seqs[i];
        ok = ok && seq->n_pages == lk_seq_pages_for(seq->length) && !c->seq_steps[i].is_touched;
        for (uint32_t k = 0; k < seq->n_pages; k++) {
            ok = ok && seq->pages[k] < pages->n_pages;
            if (ok) {
                refs[seq->pages[k]]++;
            }
        }
    }
    uint32_t n_unused = 0;
    for (uint32_t i = 0; i < pages->n_pages; i++) {
        ok = ok && refs[i] == pages->refs[i];
        n_unused += refs[i] == 0;
    }
    ok = ok && n_unused == pages->n_free;
    for (uint32_t i = 0; i < pages->n_free; i++) {
        ok = ok && refs[pages->free_pages[i]]++ == 0; /* free, and listed once */
    }
    free(refs);
    return ok;
}
