/* server_media.c - see server_media.h. */
#include "server_media.h"

#include <stdlib.h>
#include <string.h>

#include "shared/console.h"
#include "shared/listener.h"

enum { MAX_TASKS = 64 };

struct media_task {
    exchange *x;
    pthread_mutex_t lock;
    serve_clips clips;
    lk_audio_vectors vectors[SERVE_MAX_CLIPS];
    double seconds; /* of all clips */
    double start_s;
    uint32_t timeout_ms; /* 0: any */
    serve_problem problem;
    bool has_failed;
};

bool server_media_open(server *s) {
    if (s->options.mmproj == NULL) {
        return true;
    }
    s->has_audio =
        lk_listener_open(&s->audio, "serve", s->options.mmproj, s->model, s->options.n_threads,
                         !s->options.no_repack, s->options.projector_device) &&
        pthread_mutex_init(&s->audio_lock, NULL) == 0;
    return s->has_audio;
}

void server_media_close(server *s) {
    if (s->has_audio) {
        (void)pthread_mutex_destroy(&s->audio_lock);
    }
    lk_audio_input_close(&s->audio);
}

/* ---- the task ---- */

static bool is_late(const struct media_task *t) {
    return t->timeout_ms != 0 && 1000 * (lk_console_seconds() - t->start_s) > t->timeout_ms;
}

/* Before each window: the client is there, and there is time. */
static int goes_on(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    const struct media_task *t = ctx;
    serve_job *job = t->x->job;
    (void)phase;
    (void)done;
    (void)total;
    (void)pthread_mutex_lock(&job->lock);
    const bool is_cancelled = job->is_cancelled;
    (void)pthread_mutex_unlock(&job->lock);
    return !is_cancelled && !is_late(t);
}

static bool fail_clip(struct media_task *t, size_t i, const lk_error *err) {
    if (err->status == LK_E_CANCELLED) {
        (void)serve_fail(&t->problem, is_late(t) ? 504 : 503, is_late(t) ? "timeout" : "cancelled",
                         NULL,
                         is_late(t) ? "the time for this request is over (recording %zu)"
                                    : "the request was cancelled (recording %zu)",
                         i);
        return false;
    }
    const bool is_ours = err->status == LK_E_NOMEM || err->status == LK_E_INTERNAL;
    return serve_fail(&t->problem, is_ours ? 500 : 400,
                      is_ours                           ? "out_of_memory"
                      : err->status == LK_E_LIMIT       ? "out_of_range"
                      : err->status == LK_E_UNSUPPORTED ? "unsupported_value"
                                                        : "invalid_value",
                      t->x->transcript != NULL ? "file" : "messages", "recording %zu: %.400s", i,
                      err->message);
}

/* A clip to vectors; its bytes are not needed any more. */
static bool encode_clip(struct media_task *t, size_t i) {
    server *s = t->x->server;
    lk_audio_params params = LK_AUDIO_PARAMS_INIT;
    params.max_seconds = (uint32_t)s->options.max_audio_s;
    lk_audio *audio = NULL;
    lk_error err = {.status = LK_OK};
    lk_status status =
        lk_audio_from_bytes(t->clips.items[i].bytes, t->clips.items[i].n, &params, &audio, &err);
    if (status == LK_OK) {
        t->seconds += (double)lk_audio_n_samples(audio) / LK_AUDIO_RATE;
        (void)pthread_mutex_lock(&s->audio_lock);
        if (goes_on(t, "wait", 0, 1)) {
            status = lk_audio_input_encode(&s->audio, audio, goes_on, t, &t->vectors[i], &err);
        } else {
            status = err.status = LK_E_CANCELLED;
        }
        (void)pthread_mutex_unlock(&s->audio_lock);
    }
    lk_audio_destroy(audio);
    return status == LK_OK || fail_clip(t, i, &err);
}

static void *run_task(void *arg) {
    struct media_task *t = arg;
    server *s = t->x->server;
    bool ok = true;
    for (size_t i = 0; i < t->clips.n && ok; i++) {
        ok = encode_clip(t, i);
    }
    (void)pthread_mutex_lock(&t->lock);
    t->has_failed = !ok;
    if (t->x->is_suspended) {
        t->x->is_suspended = false;
        MHD_resume_connection(t->x->connection);
    }
    (void)pthread_mutex_unlock(&t->lock);
    (void)atomic_fetch_sub(&s->n_media, 1);
    return NULL;
}

static void task_free(struct media_task *t) {
    for (size_t i = 0; i < SERVE_MAX_CLIPS; i++) {
        free(t->vectors[i].values);
    }
    serve_clips_free(&t->clips);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

static bool start_thread(server *s, struct media_task *t, serve_problem *problem) {
    pthread_t thread;
    if (atomic_fetch_add(&s->n_media, 1) >= MAX_TASKS) {
        (void)atomic_fetch_sub(&s->n_media, 1);
        return serve_fail(problem, 503, "queue_full", NULL,
                          "%d requests with recordings wait already: try again later", MAX_TASKS);
    }
    if (pthread_create(&thread, NULL, run_task, t) != 0) {
        (void)atomic_fetch_sub(&s->n_media, 1);
        return serve_fail(problem, 500, "out_of_memory", NULL, "no thread for a recording");
    }
    (void)pthread_detach(thread);
    return true;
}

bool server_media_start(exchange *x, serve_clips *clips, uint32_t timeout_ms,
                        serve_problem *problem) {
    server *s = x->server;
    const char *param = x->transcript != NULL ? "file" : "messages";
    if (!s->has_audio) {
        serve_clips_free(clips);
        return serve_fail(problem, 400, "unsupported_value", param,
                          "this server takes no recordings: it was started without --mmproj");
    }
    struct media_task *t = calloc(1, sizeof *t);
    if (t == NULL || pthread_mutex_init(&t->lock, NULL) != 0) {
        free(t);
        serve_clips_free(clips);
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the recordings");
    }
    t->x = x;
    t->start_s = lk_console_seconds();
    t->timeout_ms = timeout_ms;
    t->clips = *clips;
    clips->n = 0;
    /* The task ends only with the lock free: the connection is suspended before. */
    (void)pthread_mutex_lock(&t->lock);
    if (!start_thread(s, t, problem)) {
        (void)pthread_mutex_unlock(&t->lock);
        task_free(t);
        return false;
    }
    x->media = t;
    x->is_suspended = true;
    MHD_suspend_connection(x->connection);
    (void)pthread_mutex_unlock(&t->lock);
    return true;
}

bool server_media_finish(exchange *x, serve_problem *problem) {
    struct media_task *t = x->media;
    x->media = NULL;
    /* The thread of the task has woken us with the lock, and is done when it has left it. */
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_mutex_unlock(&t->lock);
    const bool ok = !t->has_failed;
    if (ok) {
        memcpy(x->job->vectors, t->vectors, sizeof t->vectors);
        memset(t->vectors, 0, sizeof t->vectors);
        x->job->n_clips = t->clips.n;
        x->job->clip_seconds = t->seconds;
        x->job->clip_work_s = lk_console_seconds() - t->start_s;
    } else {
        *problem = t->problem;
    }
    task_free(t);
    return ok;
}

void server_media_drop(exchange *x) {
    struct media_task *t = x->media;
    if (t != NULL) {
        x->media = NULL;
        (void)pthread_mutex_lock(&t->lock); /* as in server_media_finish */
        (void)pthread_mutex_unlock(&t->lock);
        task_free(t);
    }
}

bool server_media_place(const server *s, serve_job *job, serve_problem *problem) {
    lk_error err;
    serve_prompt *prompt = &job->prompts[0];
    if (lk_audio_input_place(s->tokenizer, job->vectors, job->n_clips, &prompt->ids, &prompt->n_ids,
                             job->spans, &err) != LK_OK) {
        return serve_fail(problem, err.status == LK_E_NOMEM ? 500 : 400,
                          err.status == LK_E_NOMEM ? "out_of_memory" : "unsupported_value",
                          "messages", "%s: the chat template takes no audio", err.message);
    }
    return true;
}
