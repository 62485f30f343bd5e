/* cmd_serve.c - `lockstep serve`: opens the model, starts the engine and the server, and waits for
 * a signal. The first SIGINT or SIGTERM lets running requests finish and refuses new ones; the
 * second one ends them too. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "serve/server_media.h"
#include "shared/open_model.h"

/* The file's name without folder and ending, unless another one is given. */
static void choose_id(server *s) {
    const char *name = strrchr(s->options.model_path, '/');
    name = name != NULL ? name + 1 : s->options.model_path;
    (void)snprintf(s->model_id, sizeof s->model_id, "%s",
                   s->options.alias != NULL ? s->options.alias : name);
    const size_t n = strlen(s->model_id);
    if (s->options.alias == NULL && n > 5 && strcmp(s->model_id + n - 5, ".gguf") == 0) {
        s->model_id[n - 5] = '\0';
    }
}

/* The command line's, else the file's, else the mean. */
static lk_pooling choose_pooling(const server *s) {
    const lk_pooling given =
        s->options.pooling != LK_POOLING_NONE ? s->options.pooling : s->info.pooling;
    return given != LK_POOLING_NONE ? given : LK_POOLING_MEAN;
}

static bool compute_digest(server *s, lk_error *err) {
    uint8_t digest[32];
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    const lk_status status = lk_model_digest(s->model, (uint32_t)s->options.n_threads,
                                             lk_progress_bar_draw, &bar, digest, err);
    lk_progress_bar_clear(&bar);
    if (status != LK_OK) {
        return false;
    }
    lk_hex(digest, 32, s->digest);
    (void)snprintf(s->fingerprint, sizeof s->fingerprint, "%.16s-%s-%s-%s", s->digest,
                   lk_numerics_version(), lk_kv_type_name(s->options.k_type),
                   lk_kv_type_name(s->options.v_type));
    return true;
}

static bool start_engine(server *s, lk_error *err) {
    const serve_options *o = &s->options;
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    params.n_threads = (uint32_t)o->n_threads;
    params.n_slots = (int32_t)o->n_slots;
    params.kv_positions = o->kv_positions;
    params.n_ctx = o->n_ctx;
    params.max_rows = (int32_t)(o->max_rows > o->n_slots ? o->max_rows : o->n_slots);
    params.max_queued = (int32_t)o->max_queued;
    params.k_type = o->k_type;
    params.device = (uint32_t)o->device;
    params.v_type = o->v_type;
    params.flags = LK_ENGINE_PARALLEL_EVENTS | (o->no_cache ? LK_ENGINE_NO_CACHE : 0u);
    return lk_engine_create(s->model, &params, &s->engine, err) == LK_OK;
}

/* Each connection is a descriptor: as many as the system lets us have. */
static void raise_limits(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool open_server(server *s) {
    lk_error err;
    s->model = lk_open_model("serve", s->options.model_path, s->options.n_threads,
                             !s->options.no_repack && s->options.device == 0);
    if (s->model == NULL) {
        return false;
    }
    s->tokenizer = lk_model_tokenizer(s->model);
    s->info = LK_MODEL_INFO_INIT;
    s->started = (int64_t)time(NULL);
    choose_id(s);
    raise_limits();
    if (lk_model_get_info(s->model, &s->info, &err) != LK_OK || !compute_digest(s, &err) ||
        !server_open_template(s, &err) ||
        lk_token_trie_create(s->tokenizer, NULL, &s->trie, &err) != LK_OK ||
        !server_open_calls(s, &err) || !start_engine(s, &err)) {
        return lk_console_failed("serve", &err) == 0;
    }
    if (!server_media_open(s)) {
        return false;
    }
    s->defaults = (serve_defaults){
        .sampler = s->options.sampler,
        .max_tokens = -1,
        .n_vocab = s->info.n_vocab,
        .max_choices = (int32_t)(s->options.max_queued < LK_MAX_CHOICES ? s->options.max_queued
                                                                        : LK_MAX_CHOICES),
        .n_embd = s->info.n_embd,
        .pooling = choose_pooling(s),
    };
    if (pthread_mutex_init(&s->counters.lock, NULL) != 0 || !server_watch_start(s)) {
        return lk_console_error("serve", "the watcher of connections does not start") == 0;
    }
    return server_listen(s, &err) || lk_console_failed("serve", &err) == 0;
}

static uint64_t count_open(server *s) {
    (void)pthread_mutex_lock(&s->counters.lock);
    const uint64_t n = s->counters.open_jobs;
    (void)pthread_mutex_unlock(&s->counters.lock);
    return n + (uint64_t)atomic_load(&s->n_tasks) + (uint64_t)atomic_load(&s->n_media);
}

/* Waits at most 50 ms for a signal of the set. */
static bool next_signal(const sigset_t *signals, int *number) {
    const struct timespec wait = {0, 50000000};
    *number = sigtimedwait(signals, NULL, &wait);
    return *number > 0;
}

/* Until nothing is open and all answers are sent, or a second signal cancels what is open: of that
 * only the engine's end is waited for, and a moment for the answers. */
static void drain(server *s, const sigset_t *signals) {
    enum { N_MOMENTS = 20 }; /* of 50 ms */
    int number = 0;
    bool is_over = false;
    atomic_store(&s->is_draining, true);
    (void)fprintf(stderr, "lockstep serve: %llu requests finish; a second signal ends them\n",
                  (unsigned long long)count_open(s));
    while (!is_over && (count_open(s) > 0 || atomic_load(&s->n_answers) > 0)) {
        is_over = next_signal(signals, &number);
    }
    if (!is_over) {
        return;
    }
    server_cancel_all(s);
    while (count_open(s) > 0) {
        (void)next_signal(signals, &number);
    }
    for (int i = 0; i < N_MOMENTS && atomic_load(&s->n_answers) > 0; i++) {
        (void)next_signal(signals, &number);
    }
}

static void close_server(server *s) {
    server_close(s);
    server_watch_stop(s);
    lk_engine_destroy(s->engine);
    server_media_close(s);
    lk_token_trie_destroy(s->trie);
    lk_token_trie_destroy(s->call_trie);
    lk_chat_template_close(s->chat_template);
    lk_model_close(s->model);
}

int lk_command_serve(int argc, char **argv) {
    static server s; /* large, and other threads look at it */
    int exit_status = 0;
    int number = 0;
    sigset_t signals;
    serve_arguments arguments;
    if (!serve_parse_options(argc, argv, &arguments, &s.options, &exit_status)) {
        serve_free_options(&arguments);
        return exit_status;
    }
    /* Every thread that is started from here on leaves the signals to this one. */
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    const bool ok = open_server(&s);
    if (ok) {
        (void)fprintf(stderr, "lockstep serve: %s on %s://%s:%lld, %lld slots\n", s.model_id,
                      s.options.certificate != NULL ? "https" : "http", s.options.host,
                      (long long)s.options.port, (long long)s.options.n_slots);
        (void)printf("%lld\n", (long long)s.options.port);
        (void)fflush(stdout);
        while (!next_signal(&signals, &number)) {
        }
        drain(&s, &signals);
    }
    close_server(&s);
    serve_free_options(&arguments);
    return lk_console_finish("serve", ok ? 0 : 1);
}
