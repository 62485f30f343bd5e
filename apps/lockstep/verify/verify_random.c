/* verify_random.c - random schedules (verify_shrink.h). Everything follows from a seed and a
 * number, so that a failing one can be made again. */
#include <stdlib.h>
#include <string.h>

#include "verify_shrink.h"

enum {
    N_STREAMS = 8, /* in pairs that share a prefix */
    SHORT_PROMPT = 24,
    LONG_PROMPT = 150,
    N_TOKENS = 24,
    MAX_SLOTS_DRAWN = 5,
    MIN_OPS = 20,
    MAX_OPS_DRAWN = 60
};

/* splitmix64 */
static uint64_t next(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int32_t draw(uint64_t *state, int32_t from, int32_t to) {
    return from + (int32_t)(next(state) % (uint64_t)(to - from + 1));
}

static int32_t prompt_length(const verify *v, int32_t stream) {
    const int32_t n = stream % 4 == 3 ? LONG_PROMPT : SHORT_PROMPT + 7 * stream;
    const int64_t most = v->target->n_ctx > 1 ? v->target->n_ctx / 2 : INT64_MAX;
    return n < most ? n : (int32_t)most;
}

/* Streams 2k and 2k+1 share the first half of the shorter one. */
static void fill_ids(const verify *v, uint64_t seed, int32_t stream, int32_t *ids) {
    const int32_t n = prompt_length(v, stream);
    const int32_t shared = prompt_length(v, stream / 2 * 2) / 2;
    for (int32_t i = 0; i < n; i++) {
        const uint64_t who = i < shared ? 1000 + (uint64_t)(stream / 2) : (uint64_t)stream;
        uint64_t state = seed * 31 + who * 1000003 + (uint64_t)i;
        ids[i] = (int32_t)(next(&state) % (uint64_t)v->target->n_vocab);
    }
}

bool verify_random_streams(const verify *v, uint64_t seed, uint64_t i, verify_random *r) {
    size_t at = 0;
    memset(r, 0, sizeof *r);
    verify_schedule_init(&r->schedule);
    r->ids = malloc((size_t)N_STREAMS * LONG_PROMPT * sizeof r->ids[0]);
    if (r->ids == NULL) {
        return false;
    }
    for (int32_t k = 0; k < N_STREAMS; k++) {
        verify_stream *stream = &r->schedule.streams[k];
        fill_ids(v, seed, k, r->ids + at);
        stream->prompt = r->ids + at;
        stream->n_prompt = (size_t)prompt_length(v, k);
        stream->n = N_TOKENS;
        stream->key = (seed << 8 | (uint64_t)k) + ((uint64_t)1 << 40);
        at += stream->n_prompt;
    }
    r->schedule.n_streams = N_STREAMS;
    r->schedule.wants_all = i % 4 == 0;
    return true;
}

static void draw_feeds(verify_op *op, uint64_t *state, int32_t n_slots) {
    int32_t order[MAX_SLOTS_DRAWN];
    for (int32_t i = 0; i < n_slots; i++) {
        order[i] = i;
    }
    for (int32_t i = n_slots - 1; i > 0; i--) {
        const int32_t j = draw(state, 0, i);
        const int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    op->n_feeds = draw(state, 1, n_slots);
    for (int32_t i = 0; i < op->n_feeds; i++) {
        const int32_t n = draw(state, 0, 2) != 0 ? 1 : draw(state, 1, 80);
        op->feeds[i] = (verify_feed){order[i], n};
    }
}

/* An operation that the target cannot do becomes a step. */
static verify_op_kind kind_of(const verify *v, int32_t percent) {
    static const struct {
        int32_t below;
        verify_op_kind kind;
        uint32_t needs;
    } kinds[] = {{40, VERIFY_OP_STEP, 0},
                 {55, VERIFY_OP_MIX, 0},
                 {59, VERIFY_OP_BAD, VERIFY_CAN_REFUSE},
                 {63, VERIFY_OP_CANCEL, VERIFY_CAN_CANCEL},
                 {78, VERIFY_OP_ASSIGN, 0},
                 {86, VERIFY_OP_FORK, VERIFY_CAN_FORK},
                 {93, VERIFY_OP_TRUNCATE, VERIFY_CAN_TRUNCATE},
                 {98, VERIFY_OP_CLEAR, 0},
                 {100, VERIFY_OP_RESTART, VERIFY_CAN_RESTART}};
    size_t i = 0;
    while (percent >= kinds[i].below) {
        i++;
    }
    return (kinds[i].needs & ~v->target->can) == 0 ? kinds[i].kind : VERIFY_OP_STEP;
}

static bool draw_op(const verify *v, verify_schedule *s, uint64_t *state) {
    verify_op *op = verify_schedule_add(s, kind_of(v, draw(state, 0, 99)));
    if (op == NULL) {
        return false;
    }
    const int32_t slot = draw(state, 0, s->n_slots - 1);
    const int32_t other = (slot + draw(state, 1, s->n_slots - 1)) % s->n_slots;
    switch (op->kind) {
    case VERIFY_OP_STEP:
    case VERIFY_OP_MIX:
    case VERIFY_OP_BAD:
    case VERIFY_OP_CANCEL:
        draw_feeds(op, state, s->n_slots);
        op->times = op->kind == VERIFY_OP_STEP ? draw(state, 1, 3) : 1;
        break;
    case VERIFY_OP_ASSIGN:
        op->a = slot;
        op->b = draw(state, 0, N_STREAMS - 1);
        break;
    case VERIFY_OP_FORK:
        op->a = slot;
        op->b = other;
        op->c = draw(state, 1, LONG_PROMPT);
        op->d = draw(state, 0, N_STREAMS - 1);
        break;
    case VERIFY_OP_TRUNCATE:
        op->a = slot;
        op->b = draw(state, 0, LONG_PROMPT);
        break;
    case VERIFY_OP_CLEAR:
        op->a = slot;
        break;
    case VERIFY_OP_RESTART:
        break;
    }
    return true;
}

static void draw_point(const verify *v, uint64_t *state, verify_point *p) {
    static const int64_t rows[] = {1, 3, 16, 32, 64, 512};
    static const int64_t isas[] = {-1, -1, LK_CPU_AVX2 | LK_CPU_AVX512, LK_CPU_AVX2};
    int64_t values[VERIFY_N_FACTORS] = {0};
    *p = v->base;
    values[VERIFY_THREADS] = draw(state, 0, 5) == 0 ? 4 : draw(state, 1, 2);
    values[VERIFY_ROWS] = rows[draw(state, 0, 5)];
    values[VERIFY_PAGES] = draw(state, 0, 3) != 0 ? draw(state, 1, 1000000) : 0;
    values[VERIFY_ISA] = isas[draw(state, 0, 3)];
    static const verify_factor drawn[] = {VERIFY_THREADS, VERIFY_ROWS, VERIFY_PAGES, VERIFY_ISA};
    for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; i++) {
        /* What defines the results of a target would make every difference its own. */
        if ((v->target->factors & ~v->target->defining & VERIFY_BIT(drawn[i])) != 0 &&
            v->target->is_exact) {
            p->value[drawn[i]] = values[drawn[i]];
        }
    }
}

bool verify_random_draw(const verify *v, uint64_t seed, uint64_t i, verify_random *r) {
    uint64_t state = seed ^ i << 32;
    if (!verify_random_streams(v, seed, i, r)) {
        return false;
    }
    verify_schedule *s = &r->schedule;
    const int32_t most =
        v->target->max_slots < MAX_SLOTS_DRAWN ? v->target->max_slots : MAX_SLOTS_DRAWN;
    s->n_slots = most > 2 ? draw(&state, 2, most) : 2;
    draw_point(v, &state, &r->point);
    bool ok = true;
    for (int32_t slot = 0; slot < s->n_slots && ok; slot++) {
        verify_op *op = verify_schedule_add(s, VERIFY_OP_ASSIGN);
        ok = op != NULL;
        if (ok) {
            op->a = slot;
            op->b = draw(&state, 0, N_STREAMS - 1);
        }
    }
    const int32_t n = draw(&state, MIN_OPS, MAX_OPS_DRAWN);
    for (int32_t k = 0; k < n && ok; k++) {
        ok = draw_op(v, s, &state);
    }
    return ok;
}

void verify_random_free(verify_random *r) {
    verify_schedule_deinit(&r->schedule);
    free(r->ids);
    r->ids = NULL;
}
