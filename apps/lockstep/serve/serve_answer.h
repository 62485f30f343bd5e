/* serve_answer.h - the answer of a chat, taken apart while it comes: text, reasoning and calls of
 * tools as a list of pieces, of which a stream sends each one and a whole answer the joined ones.
 * Stop texts count in the text alone. Under the lock of its job. */
#ifndef LK_SERVE_ANSWER_H
#define LK_SERVE_ANSWER_H

#include <jansson.h>

#include "lk/chat_parser.h"
#include "shared/text_stream.h"

typedef struct serve_piece {
    lk_chat_delta_kind kind; /* CALL_END is none */
    int32_t call;
    size_t begin; /* bytes of the answer's */
    size_t n;
    size_t n_id; /* CALL_BEGIN: the id's bytes, behind the name */
} serve_piece;

typedef struct serve_answer {
    lk_chat_parser *parser; /* NULL: this is no chat */
    lk_utf8_stream utf8;    /* the parser gets whole characters */
    lk_text_stream *stream; /* the text goes through this to `text`; borrowed */
    lk_buffer *text;
    bool has_marks;   /* control tokens that are marks count */
    bool is_one_call; /* it ends with its first call */
    lk_buffer bytes;
    serve_piece *pieces;
    size_t n_pieces;
    size_t capacity;
    size_t n_sent; /* pieces that a stream has sent */
    int32_t n_calls;
    bool is_full; /* nothing more is wanted */
    bool has_failed;
} serve_answer;

/* Makes the parser; params->on_delta and ctx are set here. The stream and the text that it gives
 * out are the choice's. */
lk_status serve_answer_begin(serve_answer *answer, const lk_chat_template *chat_template,
                             const lk_chat_parser_params *params, lk_text_stream *stream,
                             lk_buffer *text, lk_error *err);
void serve_answer_free(serve_answer *answer);
/* The bytes of a token; the end, at which what was held back comes. False when memory is short, or
 * the answer is beyond a limit of the parser. */
bool serve_answer_push(serve_answer *answer, const char *bytes, size_t n);
bool serve_answer_finish(serve_answer *answer);

/* The message of a whole answer. */
json_t *serve_answer_message(const serve_answer *answer);
/* The next piece of a stream as `delta`; there must be one. */
json_t *serve_answer_delta(serve_answer *answer);

#endif
