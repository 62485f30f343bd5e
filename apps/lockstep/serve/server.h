/* server.h - the running server: what all connections share, and what one request is on its way
 * through it.
 *
 * Threads: libmicrohttpd's pool runs the handlers, each connection on one of them; the engine's
 * threads write results into jobs, and send or wake connections (server_stream.c); the watcher
 * looks at descriptors of connections that wait (server_watch.c). */
#ifndef LK_SERVER_H
#define LK_SERVER_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "lk/chat.h"
#include "recording/audio_input.h"
#include "serve_counters.h"
#include "serve_job.h"
#include "serve_media.h"
#include "shared/options.h"

/* The command line, filled in. Strings are borrowed. */
typedef struct serve_options {
    const char *model_path;
    const char *host;
    int64_t port; /* 0: any free one, printed */
    const char *alias;
    const char *chat_template; /* a name or a file; NULL: the model's own */
    const char *mmproj;        /* the projector, for recordings; NULL: none */
    uint32_t projector_device;
    int64_t max_audio_s; /* of one recording */
    int64_t n_slots;
    int64_t n_ctx;        /* of one sequence; 0: as much as fits */
    int64_t kv_positions; /* 0: the model's context */
    int64_t n_threads;
    int64_t device; /* 0: the processor */
    int64_t max_rows;
    int64_t max_queued;
    int64_t max_body;
    int64_t max_connections;
    int64_t header_timeout_s;
    int64_t body_timeout_s;
    int64_t idle_timeout_s;
    int64_t request_timeout_s; /* 0: none */
    const char *const *api_keys;
    size_t n_api_keys;
    const char *cors_origin; /* NULL: off */
    const char *slot_folder; /* NULL: off */
    const char *certificate; /* PEM text, NULL: no TLS */
    const char *private_key;
    lk_kv_type k_type;
    lk_kv_type v_type;
    lk_sampler_params sampler;
    lk_pooling pooling; /* of embeddings; LK_POOLING_NONE: the model's */
    bool no_cache;
    bool no_repack;
    bool log_requests;
} serve_options;

/* What the command line named, and the files that were read for it. */
typedef struct serve_arguments {
    const char *kv_type;
    const char *pooling;
    const char *projector;
    const char *key_file_path;
    const char *certificate_path;
    const char *key_path;
    lk_option_list keys;
    char *key_file;
    char *certificate;
    char *private_key;
} serve_arguments;

typedef struct server {
    serve_options options;
    lk_model *model;
    const lk_tokenizer *tokenizer;
    lk_model_info info;
    lk_engine *engine;
    lk_chat_template *chat_template; /* NULL: none */
    lk_token_trie *trie;             /* for grammars */
    char call_syntax[32];            /* of the template; "": none that is known ... */
    char no_calls[384];              /* ... and why */
    lk_token_trie *call_trie;        /* for calls of tools; NULL: there are none */
    lk_audio_input audio;            /* with has_audio; its encoder under audio_lock */
    pthread_mutex_t audio_lock;
    bool has_audio;
    char model_id[256];
    char digest[65];
    char fingerprint[64];
    int64_t started; /* seconds since 1970 */
    serve_defaults defaults;
    serve_counters counters;
    struct MHD_Daemon *daemon;
    char complaint[256]; /* libmicrohttpd's last word before it listens */
    atomic_bool is_listening;
    struct server_watch *watch;
    atomic_bool is_draining;
    atomic_int n_tasks;        /* threads that work on slots */
    atomic_int n_media;        /* ... and on recordings */
    atomic_int n_slot_actions; /* whose exchange is not over */
    atomic_int n_answers;      /* exchanges with a job, until all of the answer is sent */
} server;

/* One request on its way. */
typedef struct exchange {
    server *server;
    struct MHD_Connection *connection;
    struct server_socket *socket;
    const struct server_route *route;
    const char *tail; /* what followed the route's path; owned, or NULL */
    char *body;
    size_t n_body;
    size_t body_capacity;
    size_t n_dropped; /* bytes of a body that nobody wants */
    bool is_too_large;
    bool is_refused; /* `problem` is the answer, when the body is through */
    bool is_preflight;
    bool is_answered;
    serve_problem problem;
    serve_job *job;
    struct slot_task *task;
    struct media_task *media;             /* its recordings are being encoded */
    struct server_transcript *transcript; /* it asks for a transcript; owned */
    bool is_suspended;                    /* under the job's or the task's lock */
    bool is_blocked;  /* likewise: suspended, and a part of a chunk in `out` waits for room */
    bool is_broken;   /* the stream cannot go on */
    bool is_direct;   /* a stream that is written to while it is suspended */
    bool is_http_1_1; /* of the request */
    bool is_head;
    lk_buffer out; /* of a stream: what is rendered, and how much of it is sent */
    size_t n_out_sent;
} exchange;

/* Puts an answer on its way, or says that one will come (it has suspended the connection).
 * Called again after each wake. */
typedef enum MHD_Result (*server_handler)(exchange *x);

typedef struct server_route {
    const char *method; /* "GET" or "POST" */
    const char *path;   /* "/slots/" with a slash at the end takes what follows as `tail` */
    server_handler handle;
    bool is_open; /* needs no API key */
} server_route;

/* server_options.c. The arguments must live as long as the options, and be freed in any case. */
bool serve_parse_options(int argc, char **argv, serve_arguments *arguments, serve_options *options,
                         int *exit_status);
void serve_free_options(serve_arguments *arguments);

/* server_http.c */
bool server_listen(server *s, lk_error *err);
void server_close(server *s);

/* server_reply.c: answers. Each returns what a handler returns. */
enum MHD_Result server_reply_json(exchange *x, unsigned status, json_t *value); /* steals value */
enum MHD_Result server_reply_problem(exchange *x, const serve_problem *problem);
enum MHD_Result server_reply_text(exchange *x, unsigned status, const char *type, const char *text,
                                  size_t n, bool is_static);
/* Headers that every answer has; takes the response. */
enum MHD_Result server_queue(exchange *x, unsigned status, struct MHD_Response *response);
/* A JSON string of any bytes: what is no UTF-8 becomes U+FFFD. */
json_t *server_text(const char *bytes, size_t n);
/* The error object of OpenAI's API. */
json_t *server_problem_json(const serve_problem *problem);

/* server_watch.c: descriptors of connections. */
bool server_watch_start(server *s);
void server_watch_stop(server *s);
/* MHD's notice of a connection that begins or ends. */
void server_watch_notify(void *ctx, struct MHD_Connection *connection, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);
/* A request has begun to be received, its body is complete, its answer is out. */
void server_watch_receiving(server *s, struct server_socket *socket);
void server_watch_working(server *s, struct server_socket *socket, serve_job *job);
void server_watch_idle(server *s, struct server_socket *socket);
/* Without news for so long, a connection whose answer is due is closed. */
static inline unsigned server_inactive_s(const serve_options *o) {
    return (unsigned)(o->body_timeout_s > o->idle_timeout_s ? o->body_timeout_s
                                                            : o->idle_timeout_s);
}
int server_watch_fd(const struct server_socket *socket);
/* Calls server_stream_room when the connection, whose job it has, takes more. */
void server_watch_room(server *s, struct server_socket *socket);
/* Closes the streams that still wait for that; no job is open any more. */
void server_watch_give_up(server *s);
/* Cancels the jobs of all connections. */
void server_cancel_all(server *s);

/* server_chat_prompt.c. A model without a template is no error; its chats are refused. */
bool server_open_template(server *s, lk_error *err);
/* The prompt of a chat, `messages` and more of a request, as text and as ids, both malloc'd, each
 * where it is asked for. job: gives the tools, and is prepared for the answers; may be NULL. */
bool server_encode_chat(server *s, const json_t *root, char **text, int32_t **ids, size_t *n_ids,
                        serve_job *job, serve_problem *problem);

/* server_calls.c. A template without calls that are known is no error; tools are refused. */
bool server_open_calls(server *s, lk_error *err);
/* Has the answers to a prompt taken apart, and calls in them held to the tools. */
bool server_prepare_calls(server *s, serve_job *job, const lk_chat_prompt *prompt,
                          serve_problem *problem);

/* server_slots.c: the end of an exchange whose client has left before its action was done. */
void server_slot_drop(exchange *x);

/* server_generate.c: what an endpoint that generates text does. clips: recordings that the body
 * does not hold, which are taken over; NULL: those of the messages. */
enum MHD_Result server_generate(exchange *x, serve_kind kind, serve_clips *clips);
/* server_stream.c. With the job's lock: */
void server_suspend(exchange *x);
void server_wake(void *ctx); /* an exchange, whose job has news */
void server_stream_room(exchange *x);
/* Closes a stream that is blocked; nothing where it is not. */
void server_stream_give_up(exchange *x);
/* Without: the answer of a job that streams. */
enum MHD_Result server_begin_stream(exchange *x);
/* server_transcribe.c: the answer, of a job without failure whose lock is free. */
enum MHD_Result server_reply_transcript(exchange *x);

/* server_render.c: JSON of answers; with the job's lock. */
json_t *server_render_whole(const server *s, serve_job *job);
/* Appends events of a stream that are due to `out`, not too many at once; none when nothing is due
 * or all is sent (job->has_ended). False when memory is short. */
bool server_render_events(const server *s, serve_job *job, lk_buffer *out);
/* What every object of an answer begins with. */
json_t *server_envelope(const server *s, const serve_job *job, const char *object);
/* server_plain_event.c: appends the event that has nothing but new text of choice i. */
bool server_add_plain_event(const server *s, serve_job *job, size_t i, const char *text, size_t n,
                            lk_buffer *out);
/* server_embeddings.c: the whole answer, as text. False when memory is short. */
bool server_render_embeddings(const server *s, const serve_job *job, lk_buffer *out);
/* server_receipt.c */
json_t *server_receipt(const server *s, const serve_job *job, size_t i_choice);

/* The problem of the first choice that failed; false when none did. */
bool server_find_failure(const serve_job *job, serve_problem *problem);

#define SERVER_ROUTE(method, path, name, is_open) enum MHD_Result server_##name(exchange *x);
#include "routes.def"
#undef SERVER_ROUTE

#endif
