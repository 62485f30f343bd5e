/* serve_answer.c - see serve_answer.h. Texts are well-formed UTF-8, since what the parser is given
 * is; pieces end between characters for the same reason. */
#include "serve_answer.h"

#include <stdlib.h>
#include <string.h>

#include "server.h"

/* ---- pieces ---- */

static serve_piece *add_piece(serve_answer *a, lk_chat_delta_kind kind, int32_t call) {
    if (a->pieces == NULL || a->n_pieces == a->capacity) {
        const size_t wanted = 2 * a->capacity + 8;
        serve_piece *grown = realloc(a->pieces, wanted * sizeof grown[0]);
        if (grown == NULL) {
            return NULL;
        }
        a->pieces = grown;
        a->capacity = wanted;
    }
    serve_piece *piece = &a->pieces[a->n_pieces++];
    *piece = (serve_piece){.kind = kind, .call = call, .begin = a->bytes.n};
    return piece;
}

/* The last piece, where it has not been sent and more can be added to it, or a new one. */
static serve_piece *open_piece(serve_answer *a, lk_chat_delta_kind kind, int32_t call) {
    serve_piece *last = a->n_pieces > a->n_sent ? &a->pieces[a->n_pieces - 1] : NULL;
    const bool goes_on =
        last != NULL && last->kind == kind && last->call == call && kind != LK_DELTA_CALL_BEGIN;
    return goes_on ? last : add_piece(a, kind, call);
}

static serve_piece *add_bytes(serve_answer *a, lk_chat_delta_kind kind, int32_t call,
                              const char *bytes, size_t n) {
    serve_piece *piece = open_piece(a, kind, call);
    if (piece == NULL || !lk_buffer_add(&a->bytes, bytes, n)) {
        a->has_failed = true;
        return NULL;
    }
    piece->n += n;
    return piece;
}

/* What the stream has given out beyond the first n bytes. */
static void add_text(serve_answer *a, size_t n) {
    if (a->text->n > n) {
        (void)add_bytes(a, LK_DELTA_TEXT, 0, a->text->data + n, a->text->n - n);
    }
}

static void begin_call(serve_answer *a, const lk_chat_delta *delta) {
    serve_piece *piece = add_bytes(a, LK_DELTA_CALL_BEGIN, delta->call, delta->text, delta->n_text);
    const size_t n_id = strlen(delta->id);
    if (piece != NULL && lk_buffer_add(&a->bytes, delta->id, n_id)) {
        piece->n_id = n_id;
        a->n_calls++;
    } else {
        a->has_failed = true;
    }
}

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    serve_answer *a = ctx;
    const size_t n_text = a->text->n;
    if (a->has_failed || a->is_full || a->stream->is_stopped) {
        return;
    }
    switch (delta->kind) {
    case LK_DELTA_TEXT:
        a->has_failed = !lk_text_stream_push(a->stream, delta->text, delta->n_text, a->text);
        add_text(a, n_text);
        break;
    case LK_DELTA_CALL_BEGIN:
        begin_call(a, delta);
        break;
    case LK_DELTA_CALL_END:
        a->is_full = a->is_one_call;
        break;
    default:
        (void)add_bytes(a, delta->kind, delta->call, delta->text, delta->n_text);
        break;
    }
}

lk_status serve_answer_begin(serve_answer *a, const lk_chat_template *chat_template,
                             const lk_chat_parser_params *params, lk_text_stream *stream,
                             lk_buffer *text, lk_error *err) {
    lk_chat_parser_params own = *params;
    own.on_delta = on_delta;
    own.ctx = a;
    a->has_marks = params->flags != 0;
    a->stream = stream;
    a->text = text;
    return lk_chat_parser_create(chat_template, &own, &a->parser, err);
}

void serve_answer_free(serve_answer *a) {
    lk_chat_parser_destroy(a->parser);
    free(a->bytes.data);
    free(a->pieces);
}

bool serve_answer_push(serve_answer *a, const char *bytes, size_t n) {
    char whole[512];
    enum { PIECE = sizeof whole / 3 - 3 };
    for (size_t i = 0; i < n; i += PIECE) {
        size_t n_whole = 0;
        if (lk_utf8_stream_push(&a->utf8, bytes + i, n - i < PIECE ? n - i : PIECE, whole,
                                sizeof whole, &n_whole, NULL) != LK_OK ||
            lk_chat_parser_push(a->parser, whole, n_whole, NULL) != LK_OK) {
            return false;
        }
    }
    return !a->has_failed;
}

bool serve_answer_finish(serve_answer *a) {
    char rest[16];
    size_t n = 0;
    if (lk_utf8_stream_finish(&a->utf8, rest, sizeof rest, &n, NULL) != LK_OK ||
        lk_chat_parser_push(a->parser, rest, n, NULL) != LK_OK ||
        lk_chat_parser_finish(a->parser, NULL) != LK_OK) {
        return false;
    }
    const size_t n_text = a->text->n;
    if (!lk_text_stream_finish(a->stream, a->text)) {
        return false;
    }
    add_text(a, n_text);
    return !a->has_failed;
}

/* ---- JSON ---- */

static json_t *text_of(const serve_answer *a, const serve_piece *piece) {
    return server_text(piece->n != 0 ? a->bytes.data + piece->begin : "", piece->n);
}

static json_t *call_of(const serve_answer *a, const serve_piece *piece, const char *arguments,
                       size_t n_arguments) {
    const char *id = a->bytes.data + piece->begin + piece->n;
    return json_pack("{s:o, s:s, s:{s:o, s:o}}", "id", server_text(id, piece->n_id), "type",
                     "function", "function", "name", text_of(a, piece), "arguments",
                     server_text(arguments, n_arguments));
}

/* The pieces of one kind, of one call or of none, from piece i on; false when memory is short. */
static bool join(const serve_answer *a, lk_chat_delta_kind kind, int32_t call, lk_buffer *out) {
    for (size_t i = 0; i < a->n_pieces; i++) {
        const serve_piece *piece = &a->pieces[i];
        if (piece->kind == kind && piece->call == call &&
            !lk_buffer_add(out, a->bytes.data + piece->begin, piece->n)) {
            return false;
        }
    }
    return true;
}

static json_t *joined_text(const serve_answer *a, lk_chat_delta_kind kind) {
    lk_buffer all = {NULL, 0, 0};
    json_t *text = join(a, kind, 0, &all) && all.n != 0 ? server_text(all.data, all.n) : NULL;
    free(all.data);
    return text;
}

static json_t *call_list(const serve_answer *a) {
    json_t *list = json_array();
    for (size_t i = 0; i < a->n_pieces; i++) {
        lk_buffer arguments = {NULL, 0, 0};
        if (a->pieces[i].kind != LK_DELTA_CALL_BEGIN) {
            continue;
        }
        (void)join(a, LK_DELTA_CALL_ARGUMENTS, a->pieces[i].call, &arguments);
        (void)json_array_append_new(
            list, call_of(a, &a->pieces[i], arguments.n != 0 ? arguments.data : "", arguments.n));
        free(arguments.data);
    }
    return list;
}

json_t *serve_answer_message(const serve_answer *a) {
    json_t *text = joined_text(a, LK_DELTA_TEXT);
    json_t *reasoning = joined_text(a, LK_DELTA_REASONING);
    if (text == NULL) {
        text = a->n_calls > 0 ? json_null() : json_string("");
    }
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal");
    if (reasoning != NULL) {
        (void)json_object_set_new(message, "reasoning_content", reasoning);
    }
    if (a->n_calls > 0) {
        (void)json_object_set_new(message, "tool_calls", call_list(a));
    }
    return message;
}

json_t *serve_answer_delta(serve_answer *a) {
    const serve_piece *piece = &a->pieces[a->n_sent++];
    switch (piece->kind) {
    case LK_DELTA_TEXT:
        return json_pack("{s:o}", "content", text_of(a, piece));
    case LK_DELTA_REASONING:
        return json_pack("{s:o}", "reasoning_content", text_of(a, piece));
    case LK_DELTA_CALL_BEGIN: {
        json_t *call = call_of(a, piece, "", 0);
        (void)json_object_set_new(call, "index", json_integer(piece->call));
        return json_pack("{s:[o]}", "tool_calls", call);
    }
    default:
        return json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", piece->call, "function",
                         "arguments", text_of(a, piece));
    }
}
