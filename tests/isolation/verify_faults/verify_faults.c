/* verify_faults.c - see verify_faults.h. A fault sees the rows of a call before it is made and the
 * logits of each row afterwards, and makes of them what an engine with that fault would. */
#include "verify_faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "target_self.h"

enum { MAX_POSITIONS = 512 };

/* What a faulty context remembers of a slot. */
typedef struct memory {
    int32_t tokens[MAX_POSITIONS]; /* that it held last */
    int64_t length;
    int64_t stale; /* positions of an earlier sequence */
    bool was_forked;
    bool was_loaded;
} memory;

static verify_fault planted;
static const verify_engine_ops *real;
static verify_point point; /* of the context under way: there is one at a time */
static memory slots[VERIFY_MAX_SLOTS + 1];
static verify_step_row *rows; /* of the last call */
static size_t n_rows;
static float *changed; /* a row of logits */
static uint64_t first_seed;
static bool has_refused; /* this context, a row that is not finite */
static uint32_t n_calls_ever;
static verify_heard last_heard; /* of the context under way */

static const char *const names[N_FAULTS] = {
    "none",
#define VERIFY_FAULT(id, name, experiment, factor, meaning) name,
#include "verify_faults.def"
#undef VERIFY_FAULT
};

const char *verify_fault_name(verify_fault fault) {
    return names[fault];
}

void verify_fault_plant(verify_fault fault) {
    planted = fault;
    n_calls_ever = 0;
}

/* Rows of other slots than row i's in the last call. */
static size_t rows_beside(size_t i) {
    size_t n = 0;
    for (size_t k = 0; k < n_rows; k++) {
        n += rows[k].slot != rows[i].slot;
    }
    return n;
}

static size_t rows_of(int32_t slot) {
    size_t n = 0;
    for (size_t k = 0; k < n_rows; k++) {
        n += rows[k].slot == slot;
    }
    return n;
}

static verify_status begin(void *engine, const verify_point *p, int32_t n_slots,
                           int64_t n_positions, int32_t max_rows, void **context,
                           char why[VERIFY_WHY]) {
    point = *p;
    memset(slots, 0, sizeof slots);
    verify_heard_deinit(&last_heard);
    first_seed = 0;
    has_refused = false;
    return real->begin(engine, p, n_slots, n_positions, max_rows, context, why);
}

/* What the call really gets: other tokens stand for other content of the cache. */
static void spoil_row(verify_step_row *row, size_t i_of_slot) {
    memory *m = &slots[row->slot];
    row->vector = planted == FAULT_INPUT ? NULL : row->vector;
    const bool is_late = planted == FAULT_LOAD && point.value[VERIFY_LOAD] != 0 &&
                         n_calls_ever % 17 == 5 && row->pos > 4;
    if (planted == FAULT_STALE && row->pos >= 4 && row->pos < 12 && row->pos < m->stale) {
        row->token = m->tokens[row->pos];
    } else if (is_late || (planted == FAULT_FORK && m->was_forked) ||
               (planted == FAULT_RESTART && m->was_loaded)) {
        row->token = 1;
        m->was_forked = false;
        m->was_loaded = false;
    } else if (planted == FAULT_CUT && i_of_slot == 1 && row->pos > 1 &&
               rows_of(row->slot) < (size_t)row->pos) {
        row->token = row[-1].token; /* what the row before it had */
    } else if (planted == FAULT_HEAR_CUT && i_of_slot == 1 && row->vector != NULL &&
               row[-1].vector != NULL && rows_of(row->slot) < (size_t)row->pos) {
        row->vector = row[-1].vector;
    }
}

static void remember(const verify_step_row *row) {
    memory *m = &slots[row->slot];
    if (row->pos < MAX_POSITIONS && planted != FAULT_STALE) {
        m->tokens[row->pos] = row->token;
    }
    if (row->pos < MAX_POSITIONS && row->pos >= m->stale) {
        m->tokens[row->pos] = row->token;
    }
    m->length = row->pos + 1;
}

static verify_step_status decode(void *engine, void *context, const verify_step_row *given,
                                 size_t n, verify_step_report *report) {
    if (planted == FAULT_ENTER && n == 1 && given[0].pos == 3 && !given[0].wants_logits) {
        return VERIFY_STEP_DONE; /* the second thread */
    }
    free(rows);
    rows = malloc((n + 1) * sizeof rows[0]);
    if (rows == NULL) {
        return VERIFY_STEP_FAILED;
    }
    memcpy(rows, given, n * sizeof rows[0]);
    n_rows = n;
    n_calls_ever++;
    size_t i_of_slot[VERIFY_MAX_SLOTS + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        spoil_row(&rows[i], i_of_slot[rows[i].slot]++);
    }
    const verify_step_status status = real->decode(engine, context, rows, n, report);
    has_refused = has_refused || status == VERIFY_STEP_NONFINITE;
    for (size_t i = 0; i < n; i++) {
        remember(&given[i]);
    }
    return planted == FAULT_LAUNDERED && status == VERIFY_STEP_NONFINITE ? VERIFY_STEP_DONE
                                                                         : status;
}

/* A last place that another order of the sums would change. */
static void nudge(float *x, size_t n, size_t by) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < by; k++) {
            x[i] = nextafterf(x[i], 1e30f);
        }
    }
}

static size_t nudge_of(size_t i) {
    const size_t at_once = (size_t)point.value[VERIFY_ROWS];
    const size_t n = n_rows < at_once ? n_rows : at_once;
    switch (planted) {
    case FAULT_ORDER:
        return n < 4 ? n - 1 : 3;
    case FAULT_ORDER_AGAIN:
        return n == 3;
    case FAULT_THREADS:
        return point.value[VERIFY_THREADS] == 3;
    case FAULT_ISA:
        return point.value[VERIFY_ISA] == LK_CPU_AVX2;
    case FAULT_SLOT:
        return (size_t)rows[i].slot / 7;
    case FAULT_PAGES:
        return point.value[VERIFY_PAGES] != 0 && rows[i].pos >= 64;
    case FAULT_REFUSAL:
        return has_refused && n_rows == 1;
    case FAULT_KV:
        return point.value[VERIFY_K_TYPE] == LK_KV_Q8_0 && rows_beside(i) > 0;
    default:
        return 0;
    }
}

static const float *get_logits(void *engine, void *context, size_t i, char why[VERIFY_WHY]) {
    const verify_self *self = engine;
    const size_t n = (size_t)self->target.n_vocab;
    size_t from = i;
    for (size_t k = 0; planted == FAULT_CROSS && k < n_rows && rows_of(rows[i].slot) > 1; k++) {
        from = rows[k].slot != rows[i].slot && rows_of(rows[k].slot) == 1 ? k : from;
    }
    const float *logits = real->logits(engine, context, from, why);
    if (logits == NULL && planted != FAULT_LAUNDERED) {
        return NULL;
    }
    float *copy = realloc(changed, n * sizeof copy[0]);
    if (copy == NULL) {
        return NULL;
    }
    changed = copy;
    if (logits != NULL) {
        memcpy(copy, logits, n * sizeof copy[0]);
    } else {
        memset(copy, 0, n * sizeof copy[0]);
    }
    nudge(copy, n, nudge_of(i));
    if (planted == FAULT_NONFINITE && rows_beside(i) > 0) {
        copy[n / 2] = NAN;
    }
    return copy;
}

static bool clear(void *engine, void *context, int32_t slot, char why[VERIFY_WHY]) {
    memory *m = &slots[slot];
    m->stale = m->length < MAX_POSITIONS ? m->length : MAX_POSITIONS;
    m->length = 0;
    return real->clear(engine, context, slot, why);
}

static bool fork_slot(void *engine, void *context, int32_t src, int32_t dst, int64_t length,
                      char why[VERIFY_WHY]) {
    slots[dst].was_forked = true;
    return real->fork(engine, context, src, dst, length, why);
}

static bool load(void *engine, void *context, int32_t slot, const char *path,
                 char why[VERIFY_WHY]) {
    slots[slot].was_loaded = true;
    return real->load(engine, context, slot, path, why);
}

static bool sample(void *engine, void *context, const verify_stream *stream, const float *logits,
                   int64_t pos, int32_t *token, char why[VERIFY_WHY]) {
    verify_stream other = *stream;
    first_seed = first_seed == 0 ? stream->seed : first_seed;
    other.seed = planted == FAULT_SEEDS ? first_seed : stream->seed;
    return real->sample(engine, context, &other, logits, pos, token, why);
}

/* A stage from which on the recording is another one. */
static void spoil_heard(verify_heard *heard, const char *stage) {
    bool is_behind = false;
    for (int32_t i = 0; i < heard->n_stages; i++) {
        is_behind = is_behind || strcmp(heard->stages[i].name, stage) == 0;
        heard->stages[i].digest[0] ^= is_behind;
    }
    nudge(heard->vectors, heard->n * heard->width, 1);
}

static bool copy_heard(verify_heard *to, const verify_heard *from) {
    const size_t n = from->n * from->width * sizeof from->vectors[0];
    verify_heard_deinit(to);
    *to = (verify_heard){.n = from->n, .width = from->width, .vectors = malloc(n + 1)};
    if (to->vectors != NULL) {
        memcpy(to->vectors, from->vectors, n);
    }
    return to->vectors != NULL;
}

static verify_status hear(void *engine, const verify_point *p, const verify_clip *clip,
                          verify_heard *heard, char why[VERIFY_WHY]) {
    const verify_status status = real->hear(engine, p, clip, heard, why);
    if (status != VERIFY_RAN) {
        return status;
    }
    if (planted == FAULT_HEAR_LOAD && p->value[VERIFY_LOAD] != 0) {
        spoil_heard(heard, "layer 2");
    } else if (planted == FAULT_HEAR_WINDOWS && p->value[VERIFY_WINDOWS] > 4) {
        spoil_heard(heard, "layer 0");
    } else if (planted == FAULT_HEAR_BEFORE && last_heard.n == heard->n) {
        memcpy(heard->vectors, last_heard.vectors,
               heard->n * heard->width * sizeof heard->vectors[0]);
    }
    return planted != FAULT_HEAR_BEFORE || copy_heard(&last_heard, heard) ? VERIFY_RAN
                                                                          : VERIFY_BROKEN;
}

verify_status verify_fault_open(const char *name, const verify_source *source, verify_target **out,
                                char why[VERIFY_WHY]) {
    static verify_engine_ops faulty;
    const verify_status status = verify_target_open_named(name, source, out, why);
    if (status == VERIFY_RAN && planted != FAULT_NONE) {
        verify_self *self = (verify_self *)*out;
        real = self->engine;
        faulty = *real;
        faulty.begin = begin;
        faulty.decode = decode;
        faulty.logits = get_logits;
        faulty.clear = clear;
        faulty.fork = fork_slot;
        faulty.load = load;
        faulty.sample = sample;
        faulty.hear = hear;
        self->engine = &faulty;
        /* Requests to the engine do not come by here. */
        self->target.factors &= ~(VERIFY_BIT(VERIFY_ENGINE) | VERIFY_BIT(VERIFY_CACHE));
    }
    return status;
}
