/* target_http.h - between the files of the target `http`. */
#ifndef LK_TARGET_HTTP_H
#define LK_TARGET_HTTP_H

#include "http_answer.h"
#include "http_client.h"
#include "verify_target.h"

/* How a server is asked, from the most that some of them understand to the least. */
typedef enum http_manner {
    HTTP_FULL,       /* completions; ids, log probabilities, no end before n tokens */
    HTTP_LOGPROBS,   /* completions with log probabilities */
    HTTP_PLAIN,      /* completions */
    HTTP_CHAT,       /* chat with log probabilities */
    HTTP_CHAT_PLAIN, /* chat */
    HTTP_N_MANNERS
} http_manner;

typedef struct http_target {
    verify_target target;
    http_client *client;
    http_pieces pieces;
    char *model; /* name to ask for; NULL: none */
    http_manner manner;
    http_manner manner_of_clips;
    bool has_cache_switch; /* cache_prompt is understood */
    int64_t n_requests;
    int64_t max_requests; /* 0: no limit */
    double deadline;      /* on lk_console_seconds; 0: none */
} http_target;

/* The request for a stream, as JSON that the caller frees with free(); NULL: no memory. */
char *http_target_request(const http_target *t, const verify_stream *stream, bool cache);
const char *http_target_path(const http_target *t, const verify_stream *stream);
/* Seconds left; a year where there is no limit. */
double http_target_seconds_left(const http_target *t);

/* Reads a whole body, a stream of events or one object, into an answer. */
bool http_target_read(http_answer *answer, http_pieces *pieces, const char *body, size_t n);

verify_status http_target_run(verify_target *target, const verify_schedule *s,
                              const verify_point *p, verify_result *result, char why[VERIFY_WHY]);

#endif
