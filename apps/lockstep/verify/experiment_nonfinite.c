/* experiment_nonfinite.c - what is not finite must be refused with a reason, and no token may come
 * of it: a NaN among the weights, a NaN or infinity in a vector that stands in the place of a
 * token. Of an input, only its own sequence may notice: the one beside it goes on as if alone, and
 * the slot then serves the same prompt without the vector. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify_poison.h"

/* Streams of an input's schedule. */
enum { BESIDE = 0, POISONED = 1, AFTERWARDS = 2, N_STREAMS = 3 };

typedef struct poison {
    const char *label;
    float value;
    bool is_last;  /* the prompt's last row, whose logits are asked for; else one in its middle */
    bool is_alone; /* in a call of its own; else in one with its prompt and another sequence */
    bool is_request;
} poison;

static const poison poisons[] = {
    {"a NaN in an input, its own call", (float)NAN, false, true, false},
    {"a NaN in an input, in company", (float)NAN, false, false, false},
    {"infinity in the last input", (float)INFINITY, true, false, false},
    {"a NaN in an input of a request", (float)NAN, false, false, true},
};

/* Whether a stream was refused or failed and gave nothing; `what` says how, or what came. */
static bool is_reported(const verify_result *result, int32_t i, char *what, size_t size) {
    const verify_output *o = &result->outputs[i];
    const bool reported = o->refused[0] != '\0' || o->failure[0] != '\0' ||
                          (result->failure[0] != '\0' && o->nonfinite < 0);
    if (!reported || o->n_tokens > 0) {
        (void)snprintf(what, size, "sequence %d: %d tokens came of it%s", i, o->n_tokens,
                       o->nonfinite >= 0 ? ", of logits with Inf or NaN" : "");
        return false;
    }
    if (o->refused[0] != '\0') {
        (void)snprintf(what, size, "refused: layer %d, operator %.60s", o->refused_layer,
                       o->refused);
    } else {
        (void)snprintf(what, size, "refused: %.200s",
                       o->failure[0] != '\0' ? o->failure : result->failure);
    }
    return true;
}

static verify_status run_poisoned(verify *v, verify_target *target, verify_line *line,
                                  char why[VERIFY_WHY]) {
    verify_schedule s;
    verify_result result;
    verify_status status = VERIFY_BROKEN;
    (void)snprintf(why, VERIFY_WHY, "out of memory");
    if (verify_shape(v, &line->point, &s) &&
        verify_result_init(&result, &s, (target->can & VERIFY_CAN_BITS) != 0)) {
        status = target->ops->run(target, &s, &line->point, &result, why);
        if (status == VERIFY_RAN) {
            bool all = true;
            for (int32_t i = 0; i < result.n_streams && all; i++) {
                all = is_reported(&result, i, line->detail, VERIFY_WHY - 140);
            }
            line->n_runs = 1;
            line->n_differ = !all;
            line->verdict = all ? VERDICT_EQUAL : VERDICT_DIFFERENT;
        }
        verify_result_deinit(&result);
    }
    verify_schedule_deinit(&s);
    return status;
}

static void finish(verify *v, verify_line *line) {
    verify_command_start(v, line->command, sizeof line->command);
    const size_t n = strlen(line->command);
    (void)snprintf(line->command + n, sizeof line->command - n, " --only nonfinite");
    verify_table_line(v, line);
}

static void try_weight(verify *v) {
    const uint64_t max_bytes = verify_is_full(v) ? UINT64_MAX : (uint64_t)1 << 30;
    char tensor[128] = "";
    char why[VERIFY_WHY] = "";
    verify_status status = VERIFY_NOT_POSSIBLE;
    verify_target *target = NULL;
    char *path = NULL;
    verify_line *line = verify_line_add(v, "a NaN among the weights is reported");
    if (line == NULL) {
        return;
    }
    verify_progress(v, line->label);
    line->point.value[VERIFY_NEIGHBOURS] = 1;
    if ((v->target->can & VERIFY_CAN_MODELS) != 0) {
        path = verify_poison(v, max_bytes, tensor, &status, why);
    } else {
        (void)snprintf(why, sizeof why, "%s", verify_capability_name(VERIFY_CAN_MODELS));
    }
    if (path != NULL) {
        const verify_source source = {.model = path, .base = &v->base};
        status = v->open(v->target->name, &source, &target, why);
        if (status == VERIFY_RAN) {
            status = run_poisoned(v, target, line, why);
            target->ops->close(target);
        } else if (status != VERIFY_NOT_POSSIBLE) { /* refused when it is opened: reported, too */
            line->n_runs = 1;
            (void)snprintf(line->detail, sizeof line->detail, "refused when opened: %.300s", why);
            status = VERIFY_RAN;
        }
        (void)unlink(path);
        free(path);
    }
    if (status != VERIFY_RAN) {
        verify_line_give_up(v, line, status, why);
    } else {
        const size_t n = strlen(line->detail);
        (void)snprintf(line->detail + n, sizeof line->detail - n, " (NaN in %s)", tensor);
    }
    finish(v, line);
}

/* The one beside has begun when the poisoned one joins; its slot serves another one afterwards. */
static bool make_schedule(verify *v, const poison *p, const verify_point *point,
                          const float *vector, size_t width, verify_schedule *s) {
    char text[256];
    char why[VERIFY_WHY];
    verify_stream streams[N_STREAMS];
    for (int32_t i = 0; i < N_STREAMS; i++) {
        verify_prompt(v, point->value[VERIFY_PROMPT] + (i != BESIDE), &streams[i]);
        streams[i].n = (int32_t)point->value[VERIFY_N];
    }
    verify_stream *poisoned = &streams[POISONED];
    const int beside = (int)streams[BESIDE].n_prompt;
    const int rows = (int)poisoned->n_prompt;
    const int n = poisoned->n;
    poisoned->vector = vector;
    poisoned->n_vector = width;
    poisoned->i_vector =
        poisoned->n_prompt > 0 && p->is_last ? poisoned->n_prompt - 1 : poisoned->n_prompt / 2;
    if (p->is_alone) {
        (void)snprintf(text, sizeof text,
                       "A0.0;S0.%d;S0.1*3;A1.1;S1.%d;S1.1;S1.%d;S1.1*2;A1.2;S1.%d;S0.1*%d;S1.1*%d",
                       beside, (int)poisoned->i_vector, rows, rows, n, n);
    } else {
        (void)snprintf(text, sizeof text,
                       "A0.0;S0.%d;S0.1*3;A1.1;S0.1,1.%d;S0.1,1.1*2;A1.2;S0.1,1.%d;S0.1,1.1*%d",
                       beside, rows, rows, n);
    }
    const bool ok = verify_schedule_parse(s, text, why, sizeof why);
    s->n_streams = N_STREAMS;
    memcpy(s->streams, streams, sizeof streams);
    return ok;
}

/* The sequences that held nothing wrong, against their solo runs. */
static verify_status compare_others(verify *v, verify_line *line, const verify_schedule *s,
                                    const verify_result *result, char why[VERIFY_WHY]) {
    for (int32_t i = 0; i < N_STREAMS; i++) {
        verify_status status = VERIFY_RAN;
        verify_trace *t = &line->traces[line->n_traces];
        if (i == POISONED) {
            continue;
        }
        const verify_output *solo =
            verify_solo(v, &s->streams[i], &line->point, false, &status, why);
        if (solo == NULL) {
            return status;
        }
        (void)snprintf(t->name, sizeof t->name, "%s",
                       i == BESIDE ? "sequence 0 (beside it)" : "sequence 1 (afterwards)");
        if (!verify_compare(v, &s->streams[i], solo, &result->outputs[i], t)) {
            (void)snprintf(why, VERIFY_WHY, "out of memory");
            return VERIFY_BROKEN;
        }
        line->n_traces++;
        if (t->verdict != VERDICT_EQUAL && line->verdict != VERDICT_DIFFERENT) {
            line->verdict = t->verdict;
        }
    }
    return VERIFY_RAN;
}

static verify_status run_input(verify *v, verify_line *line, const poison *p,
                               const verify_schedule *s, char why[VERIFY_WHY]) {
    verify_result result;
    char what[VERIFY_WHY - 140] = "";
    if (!verify_result_init(&result, s, (v->target->can & VERIFY_CAN_BITS) != 0)) {
        (void)snprintf(why, VERIFY_WHY, "out of memory");
        return VERIFY_BROKEN;
    }
    verify_status status = verify_run(v, s, &line->point, &result, why);
    if (status == VERIFY_RAN) {
        line->verdict =
            is_reported(&result, POISONED, what, sizeof what) ? VERDICT_EQUAL : VERDICT_DIFFERENT;
        line->n_runs = 1;
        line->seconds = result.seconds;
        (void)snprintf(line->detail, sizeof line->detail, "%s", what);
        /* A target that fails the whole call has reported it, but nothing could go on. */
        if (result.failure[0] == '\0' || !p->is_alone) {
            status = compare_others(v, line, s, &result, why);
        }
        line->n_differ = line->verdict != VERDICT_EQUAL;
    }
    verify_result_deinit(&result);
    return status;
}

static void try_input(verify *v, const poison *p) {
    char why[VERIFY_WHY] = "out of memory";
    verify_status status = VERIFY_BROKEN;
    lk_model_info info = LK_MODEL_INFO_INIT;
    verify_schedule s;
    verify_line *line = verify_line_add(v, p->label);
    if (line == NULL) {
        return;
    }
    verify_progress(v, line->label);
    (void)lk_model_get_info(v->model, &info, NULL);
    const size_t width = (size_t)info.n_embd;
    float *vector = calloc(width + 1, sizeof vector[0]);
    for (size_t i = 0; vector != NULL && i < width; i++) {
        vector[i] = i == width / 2 ? p->value : 0.01f * (float)(i % 7);
    }
    line->point.value[VERIFY_ENGINE] |= p->is_request;
    verify_schedule_init(&s);
    if (!p->is_alone && (v->target->can & VERIFY_CAN_MIX) == 0) {
        status = VERIFY_NOT_POSSIBLE;
        (void)snprintf(why, sizeof why, "%s", verify_capability_name(VERIFY_CAN_MIX));
    } else if (vector != NULL && make_schedule(v, p, &line->point, vector, width, &s)) {
        status = run_input(v, line, p, &s, why);
    }
    if (status != VERIFY_RAN) {
        verify_line_give_up(v, line, status, why);
    }
    verify_schedule_deinit(&s);
    free(vector);
    finish(v, line);
}

void verify_experiment_nonfinite(verify *v) {
    try_weight(v);
    if ((v->target->can & VERIFY_CAN_VECTORS) == 0 || v->model == NULL) {
        verify_line *line = verify_line_add(v, "a NaN in an input");
        if (line != NULL) {
            verify_line_give_up(v, line, VERIFY_NOT_POSSIBLE,
                                verify_capability_name(VERIFY_CAN_VECTORS));
            finish(v, line);
        }
        return;
    }
    for (size_t i = 0; i < sizeof poisons / sizeof poisons[0] && !v->is_broken; i++) {
        try_input(v, &poisons[i]);
    }
}
