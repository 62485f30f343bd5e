/* target_self.c - this program as a target: contexts of include/lk in the process, bits compared.
 * Schedules that are to go through the engine (factor `engine`) are in target_self_engine.c. */
#include "target_self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static verify_status begin(void *engine, const verify_point *p, int32_t n_slots,
                           int64_t n_positions, int32_t max_rows, void **context,
                           char why[VERIFY_WHY]) {
    verify_self *self = engine;
    lk_error err;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    lk_model *model = NULL;
    verify_status status = verify_self_model(self, p, &model, why);
    *context = NULL;
    if (status != VERIFY_RAN) {
        return status;
    }
    params.n_threads = (uint32_t)p->value[VERIFY_THREADS];
    params.isa_mask = verify_self_isa(p);
    params.kv_positions = n_positions;
    params.n_sequences = n_slots;
    params.max_rows = (int32_t)p->value[VERIFY_ROWS];
    params.max_logits = max_rows;
    params.k_type = (lk_kv_type)p->value[VERIFY_K_TYPE];
    params.v_type = (lk_kv_type)p->value[VERIFY_V_TYPE];
    params.page_seed = (uint32_t)p->value[VERIFY_PAGES];
    params.device = (uint32_t)p->value[VERIFY_DEVICE];
    params.flags = LK_CONTEXT_POISON;
    lk_context *made = NULL;
    if (lk_context_create(model, &params, &made, &err) != LK_OK) {
        (void)snprintf(why, VERIFY_WHY, "no context: %s", err.message);
        return verify_self_cannot(p, &err) ? VERIFY_NOT_POSSIBLE : VERIFY_BROKEN;
    }
    *context = made;
    return VERIFY_RAN;
}

static void end(void *engine, void *context) {
    (void)engine;
    lk_context_destroy(context);
}

static verify_step_status status_of(lk_status status) {
    switch (status) {
    case LK_OK:
        return VERIFY_STEP_DONE;
    case LK_E_CANCELLED:
        return VERIFY_STEP_CANCELLED;
    case LK_E_ARG:
        return VERIFY_STEP_REFUSED;
    case LK_E_FULL:
        return VERIFY_STEP_FULL;
    case LK_E_BUSY:
        return VERIFY_STEP_BUSY;
    case LK_E_ROWS:
        return VERIFY_STEP_NONFINITE;
    default:
        return VERIFY_STEP_FAILED;
    }
}

static verify_step_status decode(void *engine, void *context, const verify_step_row *rows,
                                 size_t n_rows, verify_step_report *report) {
    (void)engine;
    lk_error err;
    err.message[0] = '\0';
    lk_row *own = calloc(n_rows, sizeof own[0]);
    const float **vectors = calloc(n_rows, sizeof(const float *));
    lk_row_status *states = calloc(n_rows, sizeof states[0]);
    verify_step_status status = VERIFY_STEP_FAILED;
    if (own != NULL && states != NULL && vectors != NULL) {
        for (size_t i = 0; i < n_rows; i++) {
            own[i] = (lk_row){rows[i].token, rows[i].slot, rows[i].pos,
                              rows[i].wants_logits ? LK_ROW_LOGITS : 0, 0};
            vectors[i] = rows[i].vector;
        }
        status =
            status_of(lk_context_decode_embeddings(context, own, vectors, n_rows, states, &err));
        (void)snprintf(report->why, sizeof report->why, "%s", err.message);
    } else {
        (void)snprintf(report->why, sizeof report->why, "out of memory for %zu rows", n_rows);
    }
    for (size_t i = 0; status == VERIFY_STEP_NONFINITE && i < n_rows; i++) {
        if (states[i].status != LK_OK) {
            report->bad_slots |= 1u << rows[i].slot;
            if (states[i].op[0] != '\0' && report->op[0] == '\0') {
                report->layer = states[i].layer;
                (void)snprintf(report->op, sizeof report->op, "%s", states[i].op);
            }
        }
    }
    free(own);
    free(states);
    free(vectors);
    return status;
}

static bool done(lk_status status, const lk_error *err, char why[VERIFY_WHY]) {
    if (status != LK_OK) {
        (void)snprintf(why, VERIFY_WHY, "%s", err->message);
    }
    return status == LK_OK;
}

static const float *get_logits(void *engine, void *context, size_t i_row, char why[VERIFY_WHY]) {
    (void)engine;
    lk_error err;
    const float *logits = NULL;
    return done(lk_context_logits(context, i_row, &logits, &err), &err, why) ? logits : NULL;
}

static bool clear(void *engine, void *context, int32_t slot, char why[VERIFY_WHY]) {
    (void)engine;
    lk_error err;
    return done(lk_sequence_clear(context, slot, &err), &err, why);
}

static bool go_back(void *engine, void *context, int32_t slot, int64_t length,
                    char why[VERIFY_WHY]) {
    (void)engine;
    lk_error err;
    return done(lk_sequence_truncate(context, slot, length, &err), &err, why);
}

static bool fork_slot(void *engine, void *context, int32_t src, int32_t dst, int64_t length,
                      char why[VERIFY_WHY]) {
    (void)engine;
    lk_error err;
    return done(lk_sequence_fork(context, src, dst, length, &err), &err, why);
}

static int64_t shortest(void *engine, void *context, int32_t slot) {
    (void)engine;
    int64_t length = 0;
    return lk_sequence_shortest(context, slot, &length, NULL) == LK_OK ? length : 0;
}

static bool save(void *engine, void *context, int32_t slot, const char *path,
                 char why[VERIFY_WHY]) {
    (void)engine;
    lk_error err;
    return done(lk_sequence_save(context, slot, path, &err), &err, why);
}

static bool load(void *engine, void *context, int32_t slot, const char *path,
                 char why[VERIFY_WHY]) {
    (void)engine;
    lk_error err;
    return done(lk_sequence_load(context, slot, path, &err), &err, why);
}

static void cancel(void *engine, void *context) {
    (void)engine;
    lk_context_cancel(context);
}

static bool draw(void *engine, void *context, const verify_stream *stream, const float *logits,
                 int64_t pos, int32_t *token, char why[VERIFY_WHY]) {
    (void)context;
    const verify_self *self = engine;
    lk_error err;
    lk_sampler *sampler = NULL;
    lk_sample sample = {0};
    lk_sampler_params params = LK_SAMPLER_PARAMS_INIT;
    params.seed = stream->seed;
    params.temperature = stream->temperature;
    lk_status status = lk_sampler_create(&params, self->target.n_vocab, &sampler, &err);
    if (status == LK_OK) {
        status = lk_sampler_sample(sampler, logits, pos, &sample, &err);
    }
    lk_sampler_destroy(sampler);
    *token = sample.token;
    return done(status, &err, why);
}

const verify_engine_ops verify_self_engine = {
    .begin = begin,
    .end = end,
    .decode = decode,
    .logits = get_logits,
    .clear = clear,
    .truncate = go_back,
    .fork = fork_slot,
    .shortest = shortest,
    .save = save,
    .load = load,
    .cancel = cancel,
    .sample = draw,
    .hear = verify_self_hear,
};

uint32_t verify_self_isa(const verify_point *p) {
    return p->value[VERIFY_ISA] < 0 ? (uint32_t)LK_CPU_ALL : (uint32_t)p->value[VERIFY_ISA];
}

verify_status verify_self_model(verify_self *self, const verify_point *p, lk_model **model,
                                char why[VERIFY_WHY]) {
    const size_t i = p->value[VERIFY_REPACK] != 0;
    lk_error err;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = i != 0 ? 0 : LK_MODEL_NO_REPACK;
    if (self->models[i] == NULL &&
        lk_model_open(self->path, &params, &self->models[i], &err) != LK_OK) {
        (void)snprintf(why, VERIFY_WHY, "%s", err.message);
        return VERIFY_BROKEN;
    }
    *model = self->models[i];
    return VERIFY_RAN;
}

static verify_status run(verify_target *target, const verify_schedule *s, const verify_point *p,
                         verify_result *result, char why[VERIFY_WHY]) {
    verify_self *self = (verify_self *)target;
    if (p->value[VERIFY_ISA] > 0 &&
        (self->isa & (uint32_t)p->value[VERIFY_ISA]) != (uint32_t)p->value[VERIFY_ISA]) {
        (void)snprintf(why, VERIFY_WHY, "this processor lacks instruction sets of %lld",
                       (long long)p->value[VERIFY_ISA]);
        return VERIFY_NOT_POSSIBLE;
    }
    return p->value[VERIFY_ENGINE] != 0
               ? verify_self_run_engine(self, s, p, result, why)
               : verify_steps_run(self->engine, self, target, s, p, result, why);
}

static void close_self(verify_target *target) {
    verify_self *self = (verify_self *)target;
    verify_self_deafen(self);
    lk_model_close(self->models[0]);
    lk_model_close(self->models[1]);
    free(self);
}

static const verify_target_ops ops = {run, verify_self_overlap, close_self};

bool verify_self_cannot(const verify_point *p, const lk_error *err) {
    const bool on_device = p->value[VERIFY_DEVICE] != 0 || p->value[VERIFY_PROJECTOR] != 0;
    return err->status == LK_E_ARG ||
           (on_device && (err->status == LK_E_NOT_FOUND || err->status == LK_E_UNSUPPORTED));
}

/* The instruction sets that a context uses here. */
static uint32_t find_isa(lk_model *model) {
    lk_context *context = NULL;
    lk_context_stats stats = LK_CONTEXT_STATS_INIT;
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.kv_positions = 64;
    params.max_rows = params.max_logits = 1;
    if (lk_context_create(model, &params, &context, NULL) == LK_OK) {
        (void)lk_context_get_stats(context, &stats, NULL);
    }
    lk_context_destroy(context);
    return stats.isa;
}

verify_status verify_open_self(const verify_source *source, verify_target **out,
                               char why[VERIFY_WHY]) {
    *out = NULL;
    verify_self *self = calloc(1, sizeof *self);
    lk_model *model = NULL;
    lk_model_info info = LK_MODEL_INFO_INIT;
    if (self == NULL) {
        (void)snprintf(why, VERIFY_WHY, "out of memory");
        return VERIFY_BROKEN;
    }
    self->path = source->model;
    self->mmproj = source->mmproj;
    verify_status status = verify_self_model(self, source->base, &model, why);
    if (status == VERIFY_RAN && self->mmproj != NULL && !verify_self_can_hear(self, model, why)) {
        lk_model_close(model);
        status = VERIFY_BROKEN;
    }
    if (status != VERIFY_RAN) {
        free(self);
        return status;
    }
    (void)lk_model_get_info(model, &info, NULL);
    self->engine = &verify_self_engine;
    self->isa = find_isa(model);
    self->target = (verify_target){
        .ops = &ops,
        .can = VERIFY_CAN_STEPS | VERIFY_CAN_BITS | VERIFY_CAN_IDS | VERIFY_CAN_FORK |
               VERIFY_CAN_TRUNCATE | VERIFY_CAN_RESTART | VERIFY_CAN_CANCEL | VERIFY_CAN_REFUSE |
               VERIFY_CAN_SAMPLE | VERIFY_CAN_OVERLAP | VERIFY_CAN_MODELS | VERIFY_CAN_PROMPTS |
               VERIFY_CAN_VECTORS | VERIFY_CAN_MIX |
               (self->mmproj != NULL ? (uint32_t)VERIFY_CAN_HEAR : 0u),
        .factors =
            VERIFY_BIT(VERIFY_THREADS) | VERIFY_BIT(VERIFY_ROWS) | VERIFY_BIT(VERIFY_K_TYPE) |
            VERIFY_BIT(VERIFY_V_TYPE) | VERIFY_BIT(VERIFY_ISA) | VERIFY_BIT(VERIFY_PAGES) |
            VERIFY_BIT(VERIFY_REPACK) | VERIFY_BIT(VERIFY_DEVICE) | VERIFY_BIT(VERIFY_ENGINE) |
            VERIFY_BIT(VERIFY_CACHE) |
            (self->mmproj != NULL ? VERIFY_BIT(VERIFY_WINDOWS) | VERIFY_BIT(VERIFY_PROJECTOR) : 0),
        .defining = VERIFY_BIT(VERIFY_K_TYPE) | VERIFY_BIT(VERIFY_V_TYPE),
        .is_exact = true,
        .n_vocab = info.n_vocab,
        .n_ctx = info.n_ctx_train,
        .max_slots = VERIFY_MAX_SLOTS,
    };
    (void)snprintf(self->target.description, sizeof self->target.description,
                   "lockstep %s, commit %s, numerics %s, CPU%s%s%s%s%s", lk_version(),
                   lk_version_commit(), lk_numerics_version(), self->isa == 0 ? " scalar" : "",
                   (self->isa & LK_CPU_AVX2) != 0 ? " AVX2" : "",
                   (self->isa & LK_CPU_AVX512) != 0 ? " AVX-512" : "",
                   (self->isa & LK_CPU_AMX) != 0 ? " AMX" : "",
                   (self->isa & LK_CPU_NEON) != 0 ? " NEON" : "");
    *out = &self->target;
    return VERIFY_RAN;
}
