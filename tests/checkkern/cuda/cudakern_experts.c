/* cudakern_experts.c - checks of the embedding, the router and what sorts and joins experts. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cudakern.h"
#include "lk_test.h"

/* ---- embedding ---- */

/* Every format: rows of random blocks, and rows that come in. */
static void check_embed(ck_run *run, const lk_format *format) {
    enum { N_TOKENS = 7, N_OWN = 2, N_ROWS = 11 };
    const uint32_t width = format->block_elems * (1 + (uint32_t)ck_below(run, 5));
    const size_t row_bytes = lk_format_bytes(format, width);
    uint8_t *const table = cu_host(row_bytes * N_TOKENS);
    float *const own = cu_host((size_t)N_OWN * width * sizeof *own);
    float *const want = cu_host((size_t)N_ROWS * width * sizeof *want);
    uint32_t flags[N_ROWS] = {0};
    int32_t from[N_ROWS];
    for (size_t i = 0; i < row_bytes * N_TOKENS; i++) {
        table[i] = (uint8_t)(ck_random(run) >> 32);
    }
    ck_fill(run, own, (size_t)N_OWN * width, CK_WIDE);
    own[0] = lk_f32_from_bits(0x7f800000u);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        from[r] = (int32_t)ck_below(run, N_TOKENS + N_OWN) - N_OWN;
        if (from[r] < 0) {
            memcpy(want + (size_t)r * width, own + (size_t)(-1 - from[r]) * width,
                   width * sizeof *own);
        } else {
            format->decode(table + (size_t)from[r] * row_bytes, want + (size_t)r * width, width);
        }
    }
    const lk_cuda_embed_args args = {.table = kd_put(table, row_bytes * N_TOKENS, LK_CUDA_PADDING),
                                     .row_bytes = row_bytes,
                                     .type = format->type,
                                     .from = kd_put(from, sizeof from, 0),
                                     .embeddings =
                                         kd_put(own, (size_t)N_OWN * width * sizeof *own, 0),
                                     .y = kd_new((size_t)N_ROWS * width * sizeof *want),
                                     .n_rows = N_ROWS,
                                     .width = width,
                                     .flags = cu_flags(N_ROWS)};
    KD_LAUNCH(embed, &args);
    cu_finish_flags(want, flags, N_ROWS, width);
    cu_compare(run, format->name, args.y, want, flags, &args.flags, N_ROWS, width);
    free(table);
    free(own);
    free(want);
}

/* ---- experts ---- */

/* Router, sorting and joining together: what each gives is what the next one gets. */
static void check_experts(ck_run *run, uint32_t n_experts, uint32_t n_used, uint32_t n_rows) {
    enum { WIDTH = 40 };
    const uint32_t n = n_rows * n_used;
    float *const logits = cu_host((size_t)n_rows * n_experts * sizeof *logits);
    float *const weights = cu_host(n * sizeof *weights);
    int32_t *const ids = cu_host(n * sizeof *ids);
    int32_t *const got_ids = cu_host(n * sizeof *got_ids);
    uint32_t *const got = cu_host((n + n_experts + 1) * sizeof *got);
    uint32_t *const slot = cu_host(n * sizeof *slot);
    float *const x = cu_host((size_t)n * WIDTH * sizeof *x);
    float *const want = cu_host((size_t)n_rows * WIDTH * sizeof *want);
    uint32_t *const flags = cu_host(n_rows * sizeof *flags);
    const int normalise = (int)ck_below(run, 2);
    for (uint32_t r = 0; r < n_rows; r++) {
        static const ck_kind kinds[] = {CK_NORMAL, CK_TIES, CK_ZERO, CK_BAD, CK_SUBNORMAL};
        float *const row = logits + (size_t)r * n_experts;
        ck_fill(run, row, n_experts, kinds[ck_below(run, 5)]);
        for (uint32_t e = 0; ck_below(run, 3) == 0 && e < n_experts; e++) { /* equal ones */
            row[e] = row[e / 3];
        }
        lk_route_ref(row, n_experts, n_used, normalise, ids + r * n_used, weights + r * n_used,
                     &flags[r]);
    }
    ck_fill(run, x, (size_t)n * WIDTH, CK_NORMAL);
    lk_cuda_route_args route = {.logits = kd_put(logits, (size_t)n_rows * n_experts * 4, 0),
                                .ids = kd_new(n * sizeof *ids),
                                .weights = kd_new(n * sizeof *weights),
                                .n_rows = n_rows,
                                .n_experts = n_experts,
                                .n_used = n_used,
                                .normalise = (uint32_t)normalise,
                                .flags = cu_flags(n_rows)};
    KD_LAUNCH(route, &route);
    kd_get(got_ids, route.ids, n * sizeof *ids);
    ck_same_bytes(run, "ids", got_ids, ids, n * sizeof *ids);
    const lk_cuda_group_args group = {.ids = route.ids,
                                      .step_row = route.flags.step_row,
                                      .first = kd_new((n_experts + 1) * sizeof(uint32_t)),
                                      .slot = kd_new(n * sizeof *slot),
                                      .row_of = kd_new(n * sizeof *slot),
                                      .step_row_of = kd_new(n * sizeof *slot),
                                      .expert_of = kd_new(n * sizeof *slot),
                                      .n_rows = n_rows,
                                      .n_used = n_used,
                                      .n_experts = n_experts};
    KD_LAUNCH(group_experts, &group);
    /* What the sorted order has to be: by expert, then by row. */
    uint32_t place = 0;
    uint32_t *const first = cu_host((n_experts + 1) * sizeof *first);
    uint32_t *const row_of = cu_host(n * sizeof *row_of);
    uint32_t *const step_row_of = cu_host(n * sizeof *step_row_of);
    uint32_t *const expert_of = cu_host(n * sizeof *expert_of);
    for (uint32_t e = 0; e < n_experts; e++) {
        for (uint32_t i = 0; i < n; i++) {
            if (ids[i] == (int32_t)e) {
                row_of[place] = i / n_used;
                step_row_of[place] = n_rows - 1 - i / n_used;
                expert_of[place] = e;
                slot[i] = place++;
            }
        }
        first[e + 1] = place;
    }
    kd_get(got, group.first, (n_experts + 1) * sizeof *got);
    ck_same_bytes(run, "first", got, first, (n_experts + 1) * sizeof *got);
    kd_get(got, group.slot, n * sizeof *got);
    ck_same_bytes(run, "slot", got, slot, n * sizeof *got);
    kd_get(got, group.row_of, n * sizeof *got);
    ck_same_bytes(run, "row_of", got, row_of, n * sizeof *got);
    kd_get(got, group.step_row_of, n * sizeof *got);
    ck_same_bytes(run, "step_row_of", got, step_row_of, n * sizeof *got);
    kd_get(got, group.expert_of, n * sizeof *got);
    ck_same_bytes(run, "expert_of", got, expert_of, n * sizeof *got);
    for (uint32_t i = 0; i < n; i++) {
        lk_scale_add_ref(x + (size_t)slot[i] * WIDTH, weights[i], WIDTH,
                         want + (size_t)(i / n_used) * WIDTH);
    }
    const lk_cuda_combine_args combine = {.x = kd_put(x, (size_t)n * WIDTH * sizeof *x, 0),
                                          .slot = group.slot,
                                          .weights = route.weights,
                                          .y = kd_new((size_t)n_rows * WIDTH * sizeof *x),
                                          .n_rows = n_rows,
                                          .n_used = n_used,
                                          .width = WIDTH,
                                          .flags = route.flags};
    KD_LAUNCH(combine_experts, &combine);
    cu_finish_flags(want, flags, n_rows, WIDTH);
    cu_compare(run, "combine_experts", combine.y, want, flags, &combine.flags, n_rows, WIDTH);
    free(logits);
    free(weights);
    free(ids);
    free(got_ids);
    free(got);
    free(slot);
    free(x);
    free(want);
    free(flags);
    free(first);
    free(row_of);
    free(step_row_of);
    free(expert_of);
}

void cu_check_experts(ck_run *run) {
    static const uint32_t shapes[][3] = {{1, 1, 3},   {4, 2, 9},    {8, 8, 5},
                                         {60, 4, 20}, {128, 8, 17}, {300, 21, 4}};
    for (size_t f = 0; f < lk_format_count(); f++) {
        ck_at(run, "embed %s", lk_format_at(f)->name);
        check_embed(run, lk_format_at(f));
    }
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        ck_at(run, "experts: %u of %u, %u rows", shapes[i][1], shapes[i][0], shapes[i][2]);
        check_experts(run, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
}
