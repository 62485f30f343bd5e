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

enum { WIDTH = 40 };

/* Router, sorting and joining together: what each gives is what the next one gets. */
typedef struct routing {
    uint32_t n_rows;
    uint32_t n_experts;
    uint32_t n_used;
    uint32_t n; /* assignments */
    float *logits;
    int32_t *ids;
    float *weights;
    uint32_t *flags;
    uint32_t *first; /* the sorted order that is wanted, as in lk_cuda_group_args */
    uint32_t *slot;
    uint32_t *row_of;
    uint32_t *step_row_of;
    uint32_t *expert_of;
} routing;

static routing make_routing(ck_run *run, uint32_t n_experts, uint32_t n_used, uint32_t n_rows,
                            int normalise) {
    routing s = {.n_rows = n_rows, .n_experts = n_experts, .n_used = n_used, .n = n_rows * n_used};
    s.logits = cu_host((size_t)n_rows * n_experts * sizeof *s.logits);
    s.ids = cu_host(s.n * sizeof *s.ids);
    s.weights = cu_host(s.n * sizeof *s.weights);
    s.flags = cu_host(n_rows * sizeof *s.flags);
    s.first = cu_host((n_experts + 1) * sizeof *s.first);
    s.slot = cu_host(s.n * sizeof *s.slot);
    s.row_of = cu_host(s.n * sizeof *s.row_of);
    s.step_row_of = cu_host(s.n * sizeof *s.step_row_of);
    s.expert_of = cu_host(s.n * sizeof *s.expert_of);
    for (uint32_t r = 0; r < n_rows; r++) {
        static const ck_kind kinds[] = {CK_NORMAL, CK_TIES, CK_ZERO, CK_BAD, CK_SUBNORMAL};
        float *const row = s.logits + (size_t)r * n_experts;
        const bool has_ties = ck_below(run, 3) == 0;
        ck_fill(run, row, n_experts, kinds[ck_below(run, 5)]);
        for (uint32_t e = 0; has_ties && e < n_experts; e++) {
            row[e] = row[e / 3];
        }
        lk_route_ref(row, n_experts, n_used, normalise, s.ids + r * n_used, s.weights + r * n_used,
                     &s.flags[r]);
    }
    uint32_t place = 0;
    for (uint32_t e = 0; e < n_experts; e++) { /* by expert, then by row */
        for (uint32_t i = 0; i < s.n; i++) {
            if (s.ids[i] == (int32_t)e) {
                s.row_of[place] = i / n_used;
                s.step_row_of[place] = n_rows - 1 - i / n_used;
                s.expert_of[place] = e;
                s.slot[i] = place++;
            }
        }
        s.first[e + 1] = place;
    }
    return s;
}

static void same_words(ck_run *run, const char *what, const void *got, const void *want, size_t n) {
    uint32_t *const copy = cu_host(n * sizeof *copy);
    kd_get(copy, got, n * sizeof *copy);
    ck_same_bytes(run, what, copy, want, n * sizeof *copy);
    free(copy);
}

static void check_groups(ck_run *run, const routing *s, const lk_cuda_group_args *group) {
    same_words(run, "first", group->first, s->first, s->n_experts + 1);
    same_words(run, "slot", group->slot, s->slot, s->n);
    same_words(run, "row_of", group->row_of, s->row_of, s->n);
    same_words(run, "step_row_of", group->step_row_of, s->step_row_of, s->n);
    same_words(run, "expert_of", group->expert_of, s->expert_of, s->n);
}

static void check_combine(ck_run *run, routing *s, const lk_cuda_group_args *group,
                          const lk_cuda_route_args *route) {
    float *const x = cu_host((size_t)s->n * WIDTH * sizeof *x);
    float *const want = cu_host((size_t)s->n_rows * WIDTH * sizeof *want);
    ck_fill(run, x, (size_t)s->n * WIDTH, CK_NORMAL);
    for (uint32_t i = 0; i < s->n; i++) {
        lk_scale_add_ref(x + (size_t)s->slot[i] * WIDTH, s->weights[i], WIDTH,
                         want + (size_t)(i / s->n_used) * WIDTH);
    }
    const lk_cuda_combine_args args = {.x = kd_put(x, (size_t)s->n * WIDTH * sizeof *x, 0),
                                       .slot = group->slot,
                                       .weights = route->weights,
                                       .y = kd_new((size_t)s->n_rows * WIDTH * sizeof *x),
                                       .n_rows = s->n_rows,
                                       .n_used = s->n_used,
                                       .width = WIDTH,
                                       .flags = route->flags};
    KD_LAUNCH(combine_experts, &args);
    cu_finish_flags(want, s->flags, s->n_rows, WIDTH);
    cu_compare(run, "combine_experts", args.y, want, s->flags, &args.flags, s->n_rows, WIDTH);
    free(x);
    free(want);
}

static void check_experts(ck_run *run, uint32_t n_experts, uint32_t n_used, uint32_t n_rows) {
    const int normalise = (int)ck_below(run, 2);
    routing s = make_routing(run, n_experts, n_used, n_rows, normalise);
    const size_t bytes = s.n * sizeof(uint32_t);
    const lk_cuda_route_args route = {
        .logits = kd_put(s.logits, (size_t)n_rows * n_experts * sizeof *s.logits, 0),
        .ids = kd_new(bytes),
        .weights = kd_new(bytes),
        .n_rows = n_rows,
        .n_experts = n_experts,
        .n_used = n_used,
        .normalise = (uint32_t)normalise,
        .flags = cu_flags(n_rows)};
    const lk_cuda_group_args group = {.ids = route.ids,
                                      .step_row = route.flags.step_row,
                                      .first = kd_new((n_experts + 1) * sizeof(uint32_t)),
                                      .slot = kd_new(bytes),
                                      .row_of = kd_new(bytes),
                                      .step_row_of = kd_new(bytes),
                                      .expert_of = kd_new(bytes),
                                      .n_rows = n_rows,
                                      .n_used = n_used,
                                      .n_experts = n_experts};
    KD_LAUNCH(route, &route);
    same_words(run, "ids", route.ids, s.ids, s.n);
    KD_LAUNCH(group_experts, &group);
    check_groups(run, &s, &group);
    check_combine(run, &s, &group, &route);
    free(s.logits);
    free(s.ids);
    free(s.weights);
    free(s.flags);
    free(s.first);
    free(s.slot);
    free(s.row_of);
    free(s.step_row_of);
    free(s.expert_of);
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
