/* server_slots.c - /slots: what the slots do, and saving, restoring and erasing what an idle one
 * holds. Such an action waits for the engine and for a disk, so a thread of its own does it while
 * the connection is suspended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "shared/console.h"

enum { MAX_TASKS = 8, MAX_NAME_BYTES = 200 };

typedef enum slot_verb { VERB_SAVE, VERB_RESTORE, VERB_ERASE } slot_verb;

struct slot_task {
    exchange *x;
    pthread_mutex_t lock;
    slot_verb verb;
    int32_t slot;
    char name[MAX_NAME_BYTES + 1];
    char path[4096];
    bool is_done;
    lk_status status;
    lk_error error;
    int64_t n_tokens;
    double seconds;
};

static const char *const state_names[] = {"idle", "prompt", "generating"};

enum MHD_Result server_slots(exchange *x) {
    const server *s = x->server;
    json_t *list = json_array();
    for (int32_t i = 0; i < (int32_t)s->options.n_slots; i++) {
        lk_slot_info info = LK_SLOT_INFO_INIT;
        (void)lk_engine_get_slot(s->engine, i, &info, NULL);
        (void)json_array_append_new(
            list, json_pack("{s:i, s:s, s:b, s:I, s:i, s:I, s:I, s:I, s:I}", "id", i, "state",
                            state_names[info.state], "is_processing", info.state != LK_SLOT_IDLE,
                            "request_id", (json_int_t)info.request_id, "choice", info.choice,
                            "n_prompt_tokens", (json_int_t)info.n_prompt, "n_cached_tokens",
                            (json_int_t)info.n_cached, "n_positions", (json_int_t)info.n_positions,
                            "n_generated_tokens", (json_int_t)info.n_generated));
    }
    return server_reply_json(x, MHD_HTTP_OK, list);
}

/* ---- actions ---- */

static void *run_task(void *arg) {
    struct slot_task *t = arg;
    server *s = t->x->server;
    const double start_s = lk_console_seconds();
    lk_error err = {.status = LK_OK};
    int64_t n_tokens = 0;
    lk_status status = LK_OK;
    switch (t->verb) {
    case VERB_SAVE:
        status = lk_engine_slot_save(s->engine, t->slot, t->path, &n_tokens, &err);
        break;
    case VERB_RESTORE:
        status = lk_engine_slot_load(s->engine, t->slot, t->path, &n_tokens, &err);
        break;
    case VERB_ERASE:
        status = lk_engine_slot_erase(s->engine, t->slot, &n_tokens, &err);
        break;
    }
    (void)pthread_mutex_lock(&t->lock);
    t->is_done = true;
    t->status = status;
    t->error = err;
    t->n_tokens = n_tokens;
    t->seconds = lk_console_seconds() - start_s;
    if (t->x->is_suspended) {
        t->x->is_suspended = false;
        MHD_resume_connection(t->x->connection);
    }
    (void)pthread_mutex_unlock(&t->lock);
    (void)atomic_fetch_sub(&s->n_tasks, 1);
    return NULL;
}

static bool parse_verb(const char *text, slot_verb *verb) {
    static const char *const names[] = {"save", "restore", "erase"};
    for (size_t i = 0; text != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *verb = (slot_verb)i;
            return true;
        }
    }
    return false;
}

/* A name that stays in the folder: letters, digits, ".", "_", "-", and not a "." first. */
static bool is_safe_name(const char *name) {
    if (name == NULL || name[0] == '\0' || name[0] == '.' || strlen(name) > MAX_NAME_BYTES) {
        return false;
    }
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    return strspn(name, allowed) == strlen(name);
}

static bool parse_slot(const server *s, const char *text, int32_t *slot) {
    const size_t n = text != NULL ? strlen(text) : 0;
    if (n == 0 || n > 6 || strspn(text, "0123456789") != n) {
        return false;
    }
    *slot = (int32_t)atoi(text);
    return *slot < s->options.n_slots;
}

static bool read_task(exchange *x, struct slot_task *t, serve_problem *problem) {
    const server *s = x->server;
    const char *verb = MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, "action");
    if (!parse_slot(s, x->tail, &t->slot)) {
        return serve_fail(problem, 404, "not_found", "id", "there is no slot '%.32s', only 0 .. %d",
                          x->tail != NULL ? x->tail : "", (int)s->options.n_slots - 1);
    }
    if (!parse_verb(verb, &t->verb)) {
        return serve_fail(problem, 400, "invalid_value", "action",
                          "'action' must be save, restore or erase");
    }
    if (t->verb == VERB_ERASE) {
        return true;
    }
    if (s->options.slot_folder == NULL) {
        return serve_fail(problem, 400, "unsupported_value", "action",
                          "saving and restoring needs a server started with --slot-save-path");
    }
    json_t *root = serve_parse(x->body, x->n_body, problem);
    if (root == NULL) {
        return false;
    }
    const char *name = json_string_value(json_object_get(root, "filename"));
    const bool ok = is_safe_name(name);
    if (ok) {
        (void)snprintf(t->name, sizeof t->name, "%s", name);
        (void)snprintf(t->path, sizeof t->path, "%s/%s", s->options.slot_folder, name);
    } else {
        (void)serve_fail(problem, 400, "invalid_value", "filename",
                         "'filename' must have 1 .. %d letters, digits, '.', '_' or '-' and not "
                         "begin with '.'",
                         MAX_NAME_BYTES);
    }
    json_decref(root);
    return ok;
}

static void task_free(server *s, struct slot_task *t) {
    (void)atomic_fetch_sub(&s->n_slot_actions, 1);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

/* The task of an exchange, which is not its any more. Its thread has woken us with the lock, and is
 * done when it has left it. */
static struct slot_task *take_task(exchange *x) {
    struct slot_task *t = x->task;
    x->task = NULL;
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_mutex_unlock(&t->lock);
    return t;
}

void server_slot_drop(exchange *x) {
    if (x->task != NULL) {
        task_free(x->server, take_task(x));
    }
}

static enum MHD_Result reply_task(exchange *x) {
    struct slot_task *t = take_task(x);
    enum MHD_Result result = MHD_NO;
    if (t->status != LK_OK) {
        serve_problem problem;
        const int status = t->status == LK_E_BUSY                                   ? 409
                           : t->status == LK_E_NOT_FOUND || t->status == LK_E_IO    ? 404
                           : t->status == LK_E_MISMATCH || t->status == LK_E_FORMAT ? 400
                                                                                    : 0;
        if (status != 0) {
            (void)serve_fail(&problem, status, lk_status_name(t->status), NULL, "%s",
                             t->error.message);
        } else {
            (void)serve_fail_status(&problem, &t->error);
        }
        result = server_reply_problem(x, &problem);
    } else {
        static const char *const counts[] = {"n_saved", "n_restored", "n_erased"};
        json_t *answer =
            json_pack("{s:i, s:I}", "id_slot", t->slot, counts[t->verb], (json_int_t)t->n_tokens);
        if (t->verb != VERB_ERASE) {
            (void)json_object_set_new(answer, "filename", json_string(t->name));
        }
        (void)json_object_set_new(answer, "ms", json_real(t->seconds * 1000));
        result = server_reply_json(x, MHD_HTTP_OK, answer);
    }
    task_free(x->server, t);
    return result;
}

static bool start_task(exchange *x, struct slot_task *t, serve_problem *problem) {
    server *s = x->server;
    pthread_t thread;
    if (atomic_fetch_add(&s->n_tasks, 1) >= MAX_TASKS || atomic_load(&s->is_draining)) {
        (void)atomic_fetch_sub(&s->n_tasks, 1);
        return serve_fail(problem, 503, "busy", NULL, "too many slot actions run: try again later");
    }
    if (pthread_create(&thread, NULL, run_task, t) != 0) {
        (void)atomic_fetch_sub(&s->n_tasks, 1);
        return serve_fail(problem, 500, "out_of_memory", NULL, "no thread for a slot action");
    }
    (void)pthread_detach(thread);
    return true;
}

enum MHD_Result server_slot_action(exchange *x) {
    serve_problem problem;
    if (x->task != NULL) {
        return reply_task(x); /* woken */
    }
    struct slot_task *t = calloc(1, sizeof *t);
    if (t == NULL || pthread_mutex_init(&t->lock, NULL) != 0) {
        free(t);
        return MHD_NO;
    }
    t->x = x;
    (void)atomic_fetch_add(&x->server->n_slot_actions, 1);
    /* The task runs only with the lock free: the connection is suspended before. */
    (void)pthread_mutex_lock(&t->lock);
    if (!read_task(x, t, &problem) || !start_task(x, t, &problem)) {
        (void)pthread_mutex_unlock(&t->lock);
        task_free(x->server, t);
        return server_reply_problem(x, &problem);
    }
    x->task = t;
    x->is_suspended = true;
    MHD_suspend_connection(x->connection);
    (void)pthread_mutex_unlock(&t->lock);
    return MHD_YES;
}
