/* verify_target.c - see verify_target.h: results, and finding a target by its name. */
#include "verify_target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool verify_result_init(verify_result *r, const verify_schedule *s, bool with_rows) {
    memset(r, 0, sizeof *r);
    r->n_streams = s->n_streams;
    r->n_cached = -1;
    for (int32_t i = 0; i < s->n_streams; i++) {
        verify_output *o = &r->outputs[i];
        const size_t n = (size_t)s->streams[i].n;
        o->conflict = -1;
        o->nonfinite = -1;
        o->ids = calloc(n + 1, sizeof o->ids[0]);
        o->logprobs = calloc(n + 1, sizeof o->logprobs[0]);
        o->n_rows = with_rows ? s->streams[i].n_prompt + n : 0;
        o->rows = with_rows ? calloc(o->n_rows + 1, sizeof o->rows[0]) : NULL;
        if (o->ids == NULL || o->logprobs == NULL || (with_rows && o->rows == NULL)) {
            verify_result_deinit(r);
            return false;
        }
        for (size_t k = 0; k < n; k++) {
            o->logprobs[k] = NAN;
        }
        for (size_t k = 0; k < o->n_rows; k++) {
            o->rows[k].i_step = -1;
            o->rows[k].i_row = -1;
        }
    }
    return true;
}

void verify_result_deinit(verify_result *r) {
    for (int32_t i = 0; i < r->n_streams; i++) {
        free(r->outputs[i].ids);
        free(r->outputs[i].logprobs);
        free(r->outputs[i].rows);
        free(r->outputs[i].stages);
        free(r->outputs[i].text);
    }
    memset(r, 0, sizeof *r);
}

typedef struct target_line {
    const char *prefix;
    verify_target_open *open;
} target_line;

static const target_line lines[] = {
#define VERIFY_TARGET_LINE(name, prefix, meaning) {prefix, verify_open_##name},
#include "targets.def"
#undef VERIFY_TARGET_LINE
};

verify_status verify_target_open_named(const char *name, const verify_source *source,
                                       verify_target **out, char why[VERIFY_WHY]) {
    *out = NULL;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const size_t n = strlen(lines[i].prefix);
        const bool is_prefix = lines[i].prefix[n - 1] == ':' || lines[i].prefix[n - 1] == '/';
        if (is_prefix ? strncmp(name, lines[i].prefix, n) != 0
                      : strcmp(name, lines[i].prefix) != 0) {
            continue;
        }
        verify_source named = *source;
        named.where = lines[i].prefix[n - 1] == '/' ? name : name + n;
        const verify_status status = lines[i].open(&named, out, why);
        if (status == VERIFY_RAN) {
            (void)snprintf((*out)->name, sizeof(*out)->name, "%s", name);
        }
        return status;
    }
    size_t at = (size_t)snprintf(why, VERIFY_WHY, "there is no target '%.100s'; there are:", name);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && at < VERIFY_WHY; i++) {
        at += (size_t)snprintf(why + at, VERIFY_WHY - at, " %s", lines[i].prefix);
    }
    return VERIFY_BROKEN;
}

/* What the target lacks, in words. */
const char *verify_capability_name(uint32_t capability) {
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        {VERIFY_CAN_STEPS, "it composes its own steps"},
        {VERIFY_CAN_FORK, "it has no forks"},
        {VERIFY_CAN_TRUNCATE, "it cannot go back"},
        {VERIFY_CAN_RESTART, "it saves no sequences"},
        {VERIFY_CAN_CANCEL, "its steps cannot be cancelled"},
        {VERIFY_CAN_REFUSE, "it does not check positions"},
        {VERIFY_CAN_SAMPLE, "it does not draw with a seed"},
        {VERIFY_CAN_PROMPTS, "it takes prompts as text only"},
        {VERIFY_CAN_BITS, "its logits cannot be seen"},
        {VERIFY_CAN_OVERLAP, "its contexts cannot be entered twice"},
        {VERIFY_CAN_MODELS, "it cannot open another model"},
        {VERIFY_CAN_HEAR, "it takes no recordings"},
        {VERIFY_CAN_VECTORS, "it takes no vectors in the place of tokens"},
        {VERIFY_CAN_MIX, "a call of it takes tokens or vectors, not both"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((capability & names[i].bit) != 0) {
            return names[i].name;
        }
    }
    return "it cannot do this";
}

bool verify_target_can(const verify_target *target, const verify_schedule *s, const verify_point *p,
                       char why[VERIFY_WHY]) {
    uint32_t needs = verify_schedule_needs(s);
    verify_point base;
    verify_point_init(&base);
    for (int32_t i = 0; i < s->n_streams; i++) {
        needs |= s->streams[i].clip != NULL ? (uint32_t)VERIFY_CAN_HEAR : 0u;
    }
    const uint32_t missing = needs & ~target->can;
    if (missing != 0) {
        (void)snprintf(why, VERIFY_WHY, "%s", verify_capability_name(missing));
        return false;
    }
    if (s->n_slots > target->max_slots) {
        (void)snprintf(why, VERIFY_WHY, "it has %d sequences, %d are needed", target->max_slots,
                       s->n_slots);
        return false;
    }
    for (size_t f = 0; f < VERIFY_N_FACTORS; f++) {
        if (verify_factor_kind_of((verify_factor)f) == VERIFY_TARGET &&
            p->value[f] != base.value[f] && (target->factors & VERIFY_BIT(f)) == 0) {
            (void)snprintf(why, VERIFY_WHY, "it has no setting '%s'",
                           verify_factor_name((verify_factor)f));
            return false;
        }
    }
    for (int32_t i = 0; i < s->n_streams && target->n_ctx > 0; i++) {
        const int64_t n = (int64_t)s->streams[i].n_prompt + s->streams[i].n;
        if (n > target->n_ctx) {
            (void)snprintf(why, VERIFY_WHY,
                           "a sequence has %lld positions at most, %lld are needed",
                           (long long)target->n_ctx, (long long)n);
            return false;
        }
    }
    return true;
}
