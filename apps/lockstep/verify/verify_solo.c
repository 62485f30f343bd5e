/* verify_solo.c - solo runs: a stream alone in a fresh context, kept, so that each is computed once
 * for all cases that need it. */
#include <stdlib.h>
#include <string.h>

#include "verify.h"

struct verify_reference {
    verify_reference *next;
    uint64_t key;
    uint64_t seed;
    float temperature;
    bool wants_all;
    verify_point point; /* SHAPE factors at their base */
    verify_status status;
    char why[VERIFY_WHY];
    int32_t n;
    verify_result result;
};

static bool is_of(const verify_reference *r, const verify_stream *stream, const verify_point *p,
                  bool wants_all) {
    return r->key == stream->key && r->n >= stream->n &&
           (stream->temperature > 0) == (r->temperature > 0) &&
           (stream->temperature <= 0 || r->seed == stream->seed) && (r->wants_all || !wants_all) &&
           verify_point_differs(p, &r->point) == 0;
}

static void compute(verify *v, verify_reference *r, const verify_stream *stream) {
    verify_schedule s;
    verify_schedule_init(&s);
    s.n_streams = 1;
    s.n_slots = 1;
    s.streams[0] = *stream;
    s.wants_all = r->wants_all;
    const size_t rows = stream->n_prompt > 0 ? stream->n_prompt : 1;
    verify_op *ops[3];
    for (size_t i = 0; i < 3; i++) {
        ops[i] = verify_schedule_add(&s, i == 0 ? VERIFY_OP_ASSIGN : VERIFY_OP_STEP);
    }
    r->status = VERIFY_BROKEN;
    if (ops[2] != NULL && verify_result_init(&r->result, &s, (v->target->can & VERIFY_CAN_BITS))) {
        s.ops[1].feeds[s.ops[1].n_feeds++] = (verify_feed){0, (int32_t)rows};
        s.ops[2].feeds[s.ops[2].n_feeds++] = (verify_feed){0, 1};
        s.ops[2].times = stream->n > 1 ? stream->n - 1 : 1;
        r->status = verify_run(v, &s, &r->point, &r->result, r->why);
    } else {
        (void)snprintf(r->why, sizeof r->why, "out of memory");
    }
    const verify_output *o = &r->result.outputs[0];
    if (r->status == VERIFY_RAN && (r->result.failure[0] != '\0' || o->failure[0] != '\0')) {
        r->status = VERIFY_FAILED;
        (void)snprintf(r->why, sizeof r->why, "alone: %.380s",
                       o->failure[0] != '\0' ? o->failure : r->result.failure);
    }
    verify_schedule_deinit(&s);
}

const verify_output *verify_solo(verify *v, const verify_stream *stream, const verify_point *p,
                                 bool wants_all, verify_status *status, char why[VERIFY_WHY]) {
    verify_point point;
    verify_point_init(&point);
    for (size_t f = 0; f < VERIFY_N_FACTORS; f++) {
        if (verify_factor_kind_of((verify_factor)f) != VERIFY_SHAPE) {
            point.value[f] = p->value[f];
        }
    }
    verify_reference *r = v->references;
    while (r != NULL && !is_of(r, stream, &point, wants_all)) {
        r = r->next;
    }
    if (r == NULL) {
        r = calloc(1, sizeof *r);
        if (r == NULL) {
            *status = VERIFY_BROKEN;
            (void)snprintf(why, VERIFY_WHY, "out of memory");
            return NULL;
        }
        r->key = stream->key;
        r->seed = stream->seed;
        r->temperature = stream->temperature;
        r->wants_all = wants_all;
        r->point = point;
        r->n = stream->n;
        compute(v, r, stream);
        r->next = v->references;
        v->references = r;
    }
    *status = r->status;
    if (r->status != VERIFY_RAN) {
        (void)snprintf(why, VERIFY_WHY, "%s", r->why);
        return NULL;
    }
    return &r->result.outputs[0];
}

void verify_references_free(verify *v) {
    for (verify_reference *r = v->references; r != NULL;) {
        verify_reference *next = r->next;
        verify_result_deinit(&r->result);
        free(r);
        r = next;
    }
    v->references = NULL;
}
