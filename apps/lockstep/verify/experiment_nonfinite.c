/* experiment_nonfinite.c - a model with a NaN among its weights: every sequence must be refused
 * with a reason, and no token may come of it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify_poison.h"

/* Whether every stream was refused or failed and gave nothing. */
static bool is_reported(const verify_result *result, char *what, size_t size) {
    bool all = true;
    for (int32_t i = 0; i < result->n_streams; i++) {
        const verify_output *o = &result->outputs[i];
        const bool reported = o->refused[0] != '\0' || o->failure[0] != '\0' ||
                              (result->failure[0] != '\0' && o->nonfinite < 0);
        all = all && reported && o->n_tokens == 0;
        if (!reported || o->n_tokens > 0) {
            (void)snprintf(what, size, "sequence %d: %d tokens came of it%s", i, o->n_tokens,
                           o->nonfinite >= 0 ? ", of logits with Inf or NaN" : "");
        } else if (all && o->refused[0] != '\0') {
            (void)snprintf(what, size, "refused: layer %d, operator %.60s", o->refused_layer,
                           o->refused);
        } else if (all) {
            (void)snprintf(what, size, "refused: %.200s",
                           o->failure[0] != '\0' ? o->failure : result->failure);
        }
    }
    return all;
}

static verify_status run_poisoned(verify *v, verify_target *target, verify_line *line,
                                  char why[VERIFY_WHY]) {
    verify_schedule s;
    verify_result result;
    char what[VERIFY_WHY - 140] = "";
    verify_status status = VERIFY_BROKEN;
    (void)snprintf(why, VERIFY_WHY, "out of memory");
    if (verify_shape(v, &line->point, &s) &&
        verify_result_init(&result, &s, (target->can & VERIFY_CAN_BITS) != 0)) {
        status = target->ops->run(target, &s, &line->point, &result, why);
        if (status == VERIFY_RAN) {
            line->n_runs = 1;
            line->n_differ = !is_reported(&result, what, sizeof what);
            line->verdict = line->n_differ > 0 ? VERDICT_DIFFERENT : VERDICT_EQUAL;
            (void)snprintf(line->detail, sizeof line->detail, "%s", what);
        }
        verify_result_deinit(&result);
    }
    verify_schedule_deinit(&s);
    return status;
}

void verify_experiment_nonfinite(verify *v) {
    const uint64_t max_bytes = verify_is_full(v) ? UINT64_MAX : (uint64_t)1 << 30;
    char tensor[128] = "";
    char why[VERIFY_WHY] = "";
    verify_status status = VERIFY_RAN;
    verify_target *target = NULL;
    verify_line *line = verify_line_add(v, "a NaN among the weights is reported");
    if (line == NULL) {
        return;
    }
    verify_progress(v, line->label);
    line->point = v->base;
    line->point.value[VERIFY_NEIGHBOURS] = 1;
    char *path = verify_poison(v, max_bytes, tensor, &status, why);
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
    verify_command_start(v, line->command, sizeof line->command);
    const size_t n = strlen(line->command);
    (void)snprintf(line->command + n, sizeof line->command - n, " --only nonfinite");
    verify_table_line(v, line);
}
