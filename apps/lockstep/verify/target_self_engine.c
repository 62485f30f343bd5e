/* target_self_engine.c - the streams of a schedule as requests to an lk_engine: it composes the
 * steps itself and may take prefixes from its cache. When a request is made follows from the
 * schedule (verify_schedule_arrivals). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/console.h"
#include "target_self.h"

typedef struct engine_run engine_run;

typedef struct engine_stream {
    engine_run *run;
    const verify_arrival *arrival;
    const verify_stream *stream;
    verify_output *output;
    lk_request *request;
    verify_heard heard;
    bool done;
} engine_stream;

struct engine_run {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    engine_stream streams[VERIFY_MAX_STREAMS]; /* by stream */
    verify_result *result;
};

static void take_token(engine_stream *s, const lk_event *event) {
    verify_output *o = s->output;
    const int32_t i = o->n_tokens;
    if (i >= s->stream->n) {
        return;
    }
    o->ids[i] = event->token;
    o->n_tokens = i + 1;
    if (o->rows != NULL && event->pos > 0) {
        verify_row *row = &o->rows[event->pos - 1];
        memcpy(row->digest, event->digest, sizeof row->digest);
        row->has_digest = true;
    }
}

static int on_event(void *ctx, const lk_event *event) {
    engine_stream *s = ctx;
    int go_on = 1;
    (void)pthread_mutex_lock(&s->run->lock);
    if (event->kind == LK_EVENT_TOKEN) {
        take_token(s, event);
        go_on = !(s->arrival->cut_off && s->output->n_tokens >= s->arrival->n_tokens);
        s->output->is_cut_off = s->output->is_cut_off || go_on == 0;
    } else if (event->kind == LK_EVENT_END) {
        if (event->finish == LK_FINISH_ERROR && event->error != NULL) {
            const bool is_nonfinite = event->error->status == LK_E_NONFINITE;
            (void)snprintf(is_nonfinite ? s->output->refused : s->output->failure,
                           is_nonfinite ? sizeof s->output->refused : sizeof s->output->failure,
                           "%s", event->error->message);
        }
        /* An end token ends a request; what came until then is compared. */
        s->output->is_cut_off = s->output->is_cut_off || event->finish == LK_FINISH_END;
        s->run->result->n_cached = s->run->result->n_cached < 0 ? 0 : s->run->result->n_cached;
        s->run->result->n_cached += event->n_cached;
    } else if (event->kind == LK_EVENT_DONE) {
        s->done = true;
    }
    (void)pthread_cond_broadcast(&s->run->changed);
    (void)pthread_mutex_unlock(&s->run->lock);
    return go_on;
}

/* Under the lock. */
static bool may_begin(const engine_run *r, const verify_arrival *arrival) {
    if (arrival->after < 0) {
        return true;
    }
    const engine_stream *other = &r->streams[arrival->after];
    return other->done || (arrival->after_tokens < other->stream->n &&
                           other->output->n_tokens >= arrival->after_tokens);
}

static lk_status submit(engine_stream *s, lk_engine *engine, lk_error *err) {
    const verify_clip *clip = s->stream->clip;
    lk_media_span span = {0, 0, NULL};
    lk_sampler_params sampler = LK_SAMPLER_PARAMS_INIT;
    lk_request_params params = LK_REQUEST_PARAMS_INIT;
    sampler.seed = s->stream->seed;
    sampler.temperature = s->stream->temperature;
    params.prompt = s->stream->prompt;
    params.n_prompt = s->stream->n_prompt;
    params.sampler = &sampler;
    params.max_tokens = s->stream->n;
    params.flags = LK_REQUEST_DIGESTS;
    if (clip != NULL) {
        span = (lk_media_span){clip->first, s->heard.n, s->heard.vectors};
    } else if (s->stream->vector != NULL) {
        span = (lk_media_span){s->stream->i_vector, 1, s->stream->vector};
    }
    params.media = &span;
    params.n_media = span.n > 0;
    params.on_event = on_event;
    params.ctx = s;
    return lk_engine_submit(engine, &params, &s->request, err);
}

/* The recordings, before anything runs: a stream that waited for its encoder might not meet the one
 * that it is to join. */
static verify_status hear_all(verify_self *self, engine_run *r, const verify_arrival *arrivals,
                              int32_t n, const verify_point *p, char why[VERIFY_WHY]) {
    verify_status status = VERIFY_RAN;
    for (int32_t i = 0; i < n && status == VERIFY_RAN; i++) {
        engine_stream *s = &r->streams[arrivals[i].stream];
        if (s->stream->clip != NULL) {
            status = verify_hear(self->engine, self, p, s->stream->clip, &s->heard, s->output, why);
        }
    }
    return status;
}

/* A request that the engine does not take is a stream that fails; others that wait for it begin. */
static void follow(engine_run *r, lk_engine *engine, const verify_arrival *arrivals, int32_t n) {
    lk_error err;
    for (int32_t i = 0; i < n; i++) {
        engine_stream *s = &r->streams[arrivals[i].stream];
        (void)pthread_mutex_lock(&r->lock);
        while (!may_begin(r, &arrivals[i])) {
            (void)pthread_cond_wait(&r->changed, &r->lock);
        }
        (void)pthread_mutex_unlock(&r->lock);
        if (submit(s, engine, &err) != LK_OK) {
            (void)snprintf(s->output->failure, sizeof s->output->failure,
                           "the engine took no request: %.300s", err.message);
            s->done = true;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        engine_stream *s = &r->streams[arrivals[i].stream];
        if (s->request != NULL) {
            (void)lk_request_wait(s->request, 0, NULL);
        }
    }
}

static lk_status create(verify_self *self, lk_model *model, const verify_schedule *s,
                        const verify_point *p, lk_engine **engine, lk_error *err) {
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    int64_t longest = 1;
    (void)self;
    for (int32_t i = 0; i < s->n_streams; i++) {
        const int64_t n = (int64_t)s->streams[i].n_prompt + s->streams[i].n;
        longest = n > longest ? n : longest;
    }
    params.n_threads = (uint32_t)p->value[VERIFY_THREADS];
    params.isa_mask = verify_self_isa(p);
    params.n_slots = s->n_slots;
    params.kv_positions = (longest + 64) * (s->n_slots + 1);
    params.max_rows =
        p->value[VERIFY_ROWS] > s->n_slots ? (int32_t)p->value[VERIFY_ROWS] : s->n_slots;
    params.k_type = (lk_kv_type)p->value[VERIFY_K_TYPE];
    params.v_type = (lk_kv_type)p->value[VERIFY_V_TYPE];
    params.page_seed = (uint32_t)p->value[VERIFY_PAGES];
    params.device = (uint32_t)p->value[VERIFY_DEVICE];
    params.flags = LK_ENGINE_POISON | (p->value[VERIFY_CACHE] != 0 ? 0 : LK_ENGINE_NO_CACHE);
    return lk_engine_create(model, &params, engine, err);
}

verify_status verify_self_run_engine(verify_self *self, const verify_schedule *s,
                                     const verify_point *p, verify_result *result,
                                     char why[VERIFY_WHY]) {
    verify_arrival arrivals[VERIFY_MAX_STREAMS];
    engine_run r = {.result = result};
    lk_engine *engine = NULL;
    lk_model *model = NULL;
    lk_error err;
    if ((verify_schedule_needs(s) & (VERIFY_CAN_FORK | VERIFY_CAN_TRUNCATE | VERIFY_CAN_RESTART |
                                     VERIFY_CAN_CANCEL | VERIFY_CAN_REFUSE)) != 0) {
        (void)snprintf(why, VERIFY_WHY, "requests are not forked, cut back or restarted");
        return VERIFY_NOT_POSSIBLE;
    }
    verify_status status = verify_self_model(self, p, &model, why);
    if (status != VERIFY_RAN) {
        return status;
    }
    if (create(self, model, s, p, &engine, &err) != LK_OK) {
        (void)snprintf(why, VERIFY_WHY, "no engine: %s", err.message);
        return err.status == LK_E_ARG ? VERIFY_NOT_POSSIBLE : VERIFY_BROKEN;
    }
    (void)pthread_mutex_init(&r.lock, NULL);
    (void)pthread_cond_init(&r.changed, NULL);
    const int32_t n = verify_schedule_arrivals(s, arrivals);
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = arrivals[i].stream;
        r.streams[k] = (engine_stream){.run = &r,
                                       .arrival = &arrivals[i],
                                       .stream = &s->streams[k],
                                       .output = &result->outputs[k]};
    }
    for (int32_t i = 0; i < s->n_streams; i++) {
        result->outputs[i].is_cut_off = r.streams[i].run == NULL; /* it never begins */
    }
    const double start = lk_console_seconds();
    status = hear_all(self, &r, arrivals, n, p, why);
    if (status == VERIFY_RAN) {
        follow(&r, engine, arrivals, n);
    }
    result->seconds = lk_console_seconds() - start;
    lk_engine_destroy(engine);
    for (int32_t i = 0; i < n; i++) {
        lk_request_release(r.streams[arrivals[i].stream].request);
        verify_heard_deinit(&r.streams[arrivals[i].stream].heard);
    }
    (void)pthread_cond_destroy(&r.changed);
    (void)pthread_mutex_destroy(&r.lock);
    return status;
}
