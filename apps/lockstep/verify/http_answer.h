/* http_answer.h - the answer to one request, put together from the JSON objects that an
 * OpenAI-compatible server sends: text, tokens where it names them, log probabilities. */
#ifndef LK_HTTP_ANSWER_H
#define LK_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_ANSWER_WHY = 300, HTTP_ANSWER_MAX_TOKENS = 1 << 18, HTTP_ANSWER_MAX_TEXT = 8 << 20 };

/* Pieces of text with a number each: where a server shows tokens as text, equal texts have equal
 * numbers. Shared by all answers of a target. */
typedef struct http_pieces {
    char **texts; /* [n] */
    size_t n;
    size_t capacity;
} http_pieces;
/* -1: no memory. */
int32_t http_pieces_find(http_pieces *p, const char *text, size_t n);
void http_pieces_deinit(http_pieces *p);

typedef struct http_answer {
    int32_t *ids;    /* [n_tokens] the vocabulary's, or numbers of pieces */
    float *logprobs; /* [n_tokens] NaN where not given */
    size_t n_tokens;
    size_t capacity;
    char *text; /* zero-terminated, or NULL while there is none */
    size_t n_text;
    size_t text_capacity;
    size_t n_chunks; /* objects that brought text or tokens */
    bool has_ids;    /* tokens came, and each with the vocabulary's id */
    bool has_logprobs;
    bool is_finished;              /* it said why it ended */
    int64_t n_cached;              /* prompt tokens from a cache; -1: not said */
    char failure[HTTP_ANSWER_WHY]; /* "": none. What is wrong with what came */
    bool is_error;                 /* the failure is the server's own message */
} http_answer;

void http_answer_init(http_answer *a);
void http_answer_deinit(http_answer *a);
/* Adds one object: a whole answer, or a chunk of a streamed one. False: see failure. */
bool http_answer_add(http_answer *a, http_pieces *pieces, const char *json, size_t n);
/* Where tokens were not shown: words of the text, which do not depend on how it was cut into
 * chunks, stand for them; at most n, the last one with all that follows. False: no memory. */
bool http_answer_split(http_answer *a, http_pieces *pieces, size_t n);
/* The message of an error body, or its beginning; printable. */
void http_answer_error(const char *body, size_t n, char *text, size_t size);

#endif
