/* server_tokens.c - /tokenize, /detokenize and /apply-template: between texts, ids and messages. */
#include <stdlib.h>
#include <string.h>

#include "server.h"

static bool find_content(const json_t *root, const char **text, size_t *n, serve_problem *problem) {
    const json_t *content = json_object_get(root, "content");
    if (!json_is_string(content)) {
        return serve_fail(problem, 400, content == NULL ? "missing_parameter" : "invalid_type",
                          "content", "'content' must be a string, not %s",
                          content == NULL ? "absent" : field_kind(content));
    }
    *text = json_string_value(content);
    *n = json_string_length(content);
    return true;
}

/* Ids, or with_pieces objects of id and text (bytes where the text is no whole UTF-8). */
static json_t *token_list(const server *s, const int32_t *ids, size_t n, bool with_pieces) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        char bytes[1024];
        size_t n_bytes = 0;
        if (!with_pieces) {
            (void)json_array_append_new(list, json_integer(ids[i]));
            continue;
        }
        (void)lk_tokenizer_token_bytes(s->tokenizer, ids[i],
                                       LK_DETOKENIZE_SPECIAL | LK_DETOKENIZE_KEEP_SPACE, bytes,
                                       sizeof bytes, &n_bytes, NULL);
        n_bytes = n_bytes < sizeof bytes ? n_bytes : 0;
        json_t *piece = json_stringn(bytes, n_bytes);
        if (piece == NULL) {
            piece = json_array();
            for (size_t k = 0; k < n_bytes; k++) {
                (void)json_array_append_new(piece, json_integer((unsigned char)bytes[k]));
            }
        }
        (void)json_array_append_new(list, json_pack("{s:i, s:o}", "id", ids[i], "piece", piece));
    }
    return list;
}

static bool tokenize(server *s, const json_t *root, json_t **answer, serve_problem *problem) {
    const char *text = NULL;
    size_t n = 0;
    bool add_special = false;
    bool parse_special = true;
    bool with_pieces = false;
    lk_error err;
    if (!find_content(root, &text, &n, problem) ||
        !field_bool(root, "add_special", &add_special, problem) ||
        !field_bool(root, "parse_special", &parse_special, problem) ||
        !field_bool(root, "with_pieces", &with_pieces, problem)) {
        return false;
    }
    size_t n_ids = 0;
    const size_t capacity = LK_IDS_BOUND(n);
    int32_t *ids = malloc(capacity * sizeof ids[0]);
    if (ids == NULL) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the tokens");
    }
    const uint32_t flags = (add_special ? LK_TOKENIZE_ADD_SPECIAL : 0u) |
                           (parse_special ? LK_TOKENIZE_PARSE_SPECIAL : 0u);
    const bool ok =
        lk_tokenizer_encode(s->tokenizer, text, n, flags, ids, capacity, &n_ids, &err) == LK_OK ||
        serve_fail_status(problem, &err);
    if (ok) {
        *answer = json_pack("{s:o}", "tokens", token_list(s, ids, n_ids, with_pieces));
    }
    free(ids);
    return ok;
}

static bool detokenize(server *s, const json_t *root, json_t **answer, serve_problem *problem) {
    const json_t *tokens = json_object_get(root, "tokens");
    const size_t n = json_array_size(tokens);
    lk_error err;
    if (!json_is_array(tokens) || (n > 0 && !serve_is_ids(tokens, s->info.n_vocab))) {
        return serve_fail(problem, 400, "invalid_value", "tokens",
                          "'tokens' must be an array of token ids 0 .. %d", s->info.n_vocab - 1);
    }
    int32_t *ids = malloc((n + 1) * sizeof ids[0]);
    for (size_t i = 0; i < n && ids != NULL; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    }
    size_t n_bytes = 0;
    char *text = NULL;
    bool ok = false;
    if (ids != NULL) {
        (void)lk_tokenizer_decode(s->tokenizer, ids, n, LK_DETOKENIZE_SPECIAL, NULL, 0, &n_bytes,
                                  NULL);
        text = malloc(n_bytes + 1);
    }
    if (text == NULL) {
        (void)serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the text");
    } else {
        ok = lk_tokenizer_decode(s->tokenizer, ids, n, LK_DETOKENIZE_SPECIAL, text, n_bytes,
                                 &n_bytes, &err) == LK_OK ||
             serve_fail_status(problem, &err);
    }
    if (ok) {
        *answer = json_pack("{s:o}", "content", server_text(text, n_bytes));
    }
    free(text);
    free(ids);
    return ok;
}

static bool apply_template(server *s, const json_t *root, json_t **answer, serve_problem *problem) {
    const json_t *messages = json_object_get(root, "messages");
    char *text = NULL;
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        return serve_fail(problem, 400, "invalid_value", "messages",
                          "'messages' must be an array that is not empty");
    }
    const json_t *tools = json_object_get(root, "tools");
    if (tools != NULL && !json_is_null(tools) && !json_is_array(tools)) {
        return serve_fail(problem, 400, "invalid_type", "tools", "'tools' must be an array, not %s",
                          field_kind(tools));
    }
    serve_clips clips; /* only their places count here */
    if (!serve_take_clips(json_object_get(root, "messages"), &clips, problem)) {
        return false;
    }
    serve_clips_free(&clips);
    if (!server_encode_chat(s, root, &text, NULL, NULL, NULL, problem)) {
        return false;
    }
    *answer = json_pack("{s:o}", "prompt", server_text(text, strlen(text)));
    free(text);
    return true;
}

/* Parses the body, lets `work` answer, replies. */
static enum MHD_Result respond(exchange *x,
                               bool (*work)(server *, const json_t *, json_t **, serve_problem *)) {
    serve_problem problem;
    json_t *answer = NULL;
    json_t *root = serve_parse(x->body, x->n_body, &problem);
    const bool ok = root != NULL && work(x->server, root, &answer, &problem);
    json_decref(root);
    return ok ? server_reply_json(x, MHD_HTTP_OK, answer) : server_reply_problem(x, &problem);
}

enum MHD_Result server_tokenize(exchange *x) {
    return respond(x, tokenize);
}

enum MHD_Result server_detokenize(exchange *x) {
    return respond(x, detokenize);
}

enum MHD_Result server_apply_template(exchange *x) {
    return respond(x, apply_template);
}
