/* schedule.c - see schedule.h. */
#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lk/context.h"
#include "lk_test.h"

/* Shared prefixes inside the four families, on both sides of the chunk and page border. */
static const int32_t family_prefix[4] = {17, 40, 63, 64};

int32_t stream_rows(int32_t stream) {
    return stream < N_SHORT ? SHORT_ROWS : LONG_ROWS;
}

int32_t stream_shared(int32_t a, int32_t b) {
    if (a == b) {
        return stream_rows(a);
    }
    return a < N_SHORT && b < N_SHORT && a / 3 == b / 3 ? family_prefix[a / 3] : 0;
}

int32_t stream_token(int32_t stream, int32_t pos, int32_t n_vocab) {
    uint64_t state = 0x5eed0000u + (uint64_t)stream;
    if (stream < N_SHORT && pos < family_prefix[stream / 3]) {
        state = 0x5eed0000u + 100u + (uint64_t)(stream / 3);
    }
    state = state * 0x9E3779B97F4A7C15u + (uint64_t)pos * 0xD1B54A32D192ED03u;
    return (int32_t)(lk_test_random(&state) % (uint64_t)n_vocab);
}

static int32_t draw(uint64_t *state, int32_t from, int32_t to) {
    return from + (int32_t)(lk_test_random(state) % (uint64_t)(to - from + 1));
}

static void draw_feeds(op *o, uint64_t *state, int32_t n_slots, int32_t cut_max) {
    int32_t order[MAX_SLOTS];
    for (int32_t i = 0; i < n_slots; i++) {
        order[i] = i;
    }
    for (int32_t i = n_slots - 1; i > 0; i--) {
        const int32_t j = draw(state, 0, i);
        const int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    o->n_feeds = draw(state, 1, n_slots);
    for (int32_t i = 0; i < o->n_feeds; i++) {
        o->feeds[i].slot = order[i];
        /* mostly decode rows, else a prompt cut */
        o->feeds[i].n = draw(state, 0, 2) != 0 ? 1 : draw(state, 1, cut_max);
    }
}

static void draw_op(op *o, uint64_t *state, int32_t n_slots, int wide) {
    memset(o, 0, sizeof *o);
    const int32_t kind = draw(state, 0, 99);
    const int32_t slot = draw(state, 0, n_slots - 1);
    o->a = slot;
    if (kind < 62) {
        o->kind = kind < 40 ? OP_STEP : kind < 55 ? OP_MIX : kind < 59 ? OP_BAD : OP_CANCEL;
        draw_feeds(o, state, n_slots, wide ? 512 : 24);
    } else if (kind < 74) {
        o->kind = OP_ASSIGN;
        o->b = wide && draw(state, 0, 1) ? draw(state, N_SHORT, N_STREAMS - 1)
                                         : draw(state, 0, N_SHORT - 1);
    } else if (kind < 81) {
        o->kind = OP_FORK;
        o->b = (slot + draw(state, 1, n_slots - 1)) % n_slots;
        o->c = draw(state, 0, wide ? LONG_ROWS : SHORT_ROWS);
    } else if (kind < 87) {
        o->kind = OP_TRUNC;
        o->b = draw(state, 0, wide ? LONG_ROWS : SHORT_ROWS);
    } else if (kind < 94) {
        o->kind = OP_SWITCH;
        o->b = draw(state, 0, N_SHORT - 1);
    } else if (kind < 98) {
        o->kind = OP_CLEAR;
    } else {
        o->kind = OP_SAVE;
        o->b = (slot + draw(state, 1, n_slots - 1)) % n_slots;
    }
}

void schedule_draw(schedule *s, uint64_t seed, uint32_t i, int wide, int scalar) {
    static const int32_t row_limits[8] = {1, 2, 3, 7, 16, 32, 64, 512};
    uint64_t state = seed ^ ((uint64_t)i << 32) ^ (wide ? 0xabcdefu : 0u);
    memset(s, 0, sizeof *s);
    /* All nine KV pairs in turn; long cuts use three of them, since their references take long. */
    s->k_type = (int32_t)(i % 3);
    s->v_type = wide ? s->k_type : (int32_t)(i / 3 % 3);
    s->n_threads =
        draw(&state, 0, 7) == 0 ? (uint32_t)draw(&state, 4, 8) : (uint32_t)draw(&state, 1, 3);
    static const uint32_t masks[5] = {LK_CPU_AVX2 | LK_CPU_NEON, LK_CPU_AVX2 | LK_CPU_AVXVNNI,
                                      LK_CPU_AVX2 | LK_CPU_AVX512, LK_CPU_ALL, LK_CPU_ALL};
    s->isa_mask = scalar ? 0u : masks[draw(&state, 0, 4)];
    s->max_rows = wide ? row_limits[draw(&state, 4, 7)] : row_limits[draw(&state, 0, 7)];
    s->page_seed = draw(&state, 0, 3) != 0 ? (uint32_t)draw(&state, 1, 1000000) : 0u;
    s->logits_mask = (uint32_t)lk_test_random(&state) | (uint32_t)lk_test_random(&state);
    const int32_t n_slots = draw(&state, 2, MAX_SLOTS);
    for (int32_t k = 0; k < MAX_SLOTS; k++) {
        s->slot_to_seq[k] = k;
    }
    for (int32_t k = MAX_SLOTS - 1; k > 0; k--) {
        const int32_t j = draw(&state, 0, k);
        const int32_t t = s->slot_to_seq[k];
        s->slot_to_seq[k] = s->slot_to_seq[j];
        s->slot_to_seq[j] = t;
    }
    for (int32_t k = 0; k < n_slots; k++) {
        op *o = &s->ops[s->n_ops++];
        o->kind = OP_ASSIGN;
        o->a = k;
        o->b = wide && k == 0 ? draw(&state, N_SHORT, N_STREAMS - 1) : draw(&state, 0, N_SHORT - 1);
    }
    const int32_t n_more = wide ? draw(&state, 4, 10) : draw(&state, 6, 24);
    for (int32_t k = 0; k < n_more; k++) {
        draw_op(&s->ops[s->n_ops++], &state, n_slots, wide);
    }
}

static const char op_letters[] = "ASMBXFTWCV";

void schedule_print(const schedule *s, char *out, size_t capacity) {
    size_t n = 0;
#define PUT(...)                                                                                   \
    do {                                                                                           \
        const int put_ = snprintf(out + n, capacity - n, __VA_ARGS__);                             \
        n = put_ < 0 || (size_t)put_ >= capacity - n ? capacity - 1 : n + (size_t)put_;            \
    } while (0)
    PUT("kv=%d.%d,threads=%u,isa=%u,rows=%d,pages=%u,mask=%u,seq=%d.%d.%d.%d.%d.%d:", s->k_type,
        s->v_type, s->n_threads, s->isa_mask, s->max_rows, s->page_seed, s->logits_mask,
        s->slot_to_seq[0], s->slot_to_seq[1], s->slot_to_seq[2], s->slot_to_seq[3],
        s->slot_to_seq[4], s->slot_to_seq[5]);
    for (int32_t i = 0; i < s->n_ops; i++) {
        const op *o = &s->ops[i];
        PUT("%s%c", i != 0 ? ";" : "", op_letters[o->kind]);
        if (o->kind == OP_STEP || o->kind == OP_MIX || o->kind == OP_BAD || o->kind == OP_CANCEL) {
            for (int32_t k = 0; k < o->n_feeds; k++) {
                PUT("%s%d.%d", k != 0 ? "," : "", o->feeds[k].slot, o->feeds[k].n);
            }
        } else {
            PUT("%d.%d.%d", o->a, o->b, o->c);
        }
    }
#undef PUT
}

static int parse_op(op *o, const char **text) {
    const char *letter = **text != '\0' ? strchr(op_letters, **text) : NULL;
    if (letter == NULL) {
        return 0;
    }
    memset(o, 0, sizeof *o);
    o->kind = (op_kind)(letter - op_letters);
    (*text)++;
    int n_read = 0;
    if (o->kind == OP_STEP || o->kind == OP_MIX || o->kind == OP_BAD || o->kind == OP_CANCEL) {
        while (o->n_feeds < MAX_FEEDS && sscanf(*text, "%d.%d%n", &o->feeds[o->n_feeds].slot,
                                                &o->feeds[o->n_feeds].n, &n_read) == 2) {
            const int32_t slot = o->feeds[o->n_feeds].slot;
            if (slot < 0 || slot >= MAX_SLOTS || o->feeds[o->n_feeds].n < 1) {
                return 0;
            }
            o->n_feeds++;
            *text += n_read;
            if (**text != ',') {
                break;
            }
            (*text)++;
        }
        return o->n_feeds > 0;
    }
    if (sscanf(*text, "%d.%d.%d%n", &o->a, &o->b, &o->c, &n_read) != 3 || o->a < 0 ||
        o->a >= MAX_SLOTS || o->b < 0 || o->c < 0) {
        return 0;
    }
    *text += n_read;
    const int slots = o->kind == OP_FORK || o->kind == OP_SAVE;
    const int streams = o->kind == OP_ASSIGN || o->kind == OP_SWITCH;
    return (!slots || o->b < MAX_SLOTS) && (!streams || o->b < N_STREAMS);
}

int schedule_parse(schedule *s, const char *text) {
    memset(s, 0, sizeof *s);
    int n_read = 0;
    if (sscanf(text, "kv=%d.%d,threads=%u,isa=%u,rows=%d,pages=%u,mask=%u,seq=%d.%d.%d.%d.%d.%d:%n",
               &s->k_type, &s->v_type, &s->n_threads, &s->isa_mask, &s->max_rows, &s->page_seed,
               &s->logits_mask, &s->slot_to_seq[0], &s->slot_to_seq[1], &s->slot_to_seq[2],
               &s->slot_to_seq[3], &s->slot_to_seq[4], &s->slot_to_seq[5], &n_read) != 13) {
        return 0;
    }
    text += n_read;
    while (s->n_ops < MAX_OPS && parse_op(&s->ops[s->n_ops], &text)) {
        s->n_ops++;
        if (*text == '\0') {
            return 1;
        }
        if (*text++ != ';') {
            return 0;
        }
    }
    return 0;
}
