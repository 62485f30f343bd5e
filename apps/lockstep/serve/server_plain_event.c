/* server_plain_event.c - the event that nearly every token of a stream is: some text of one choice,
 * and nothing else. It is written without a tree of JSON values, from a head that all events of the
 * stream have; byte for byte it is what server_render.c would write. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

static bool add_string(lk_buffer *out, const char *text) {
    return lk_buffer_add(out, text, strlen(text));
}

/* The text in quotes. It is well-formed UTF-8, of which only these bytes must not stand for
 * themselves. */
static bool add_quoted(lk_buffer *out, const char *text, size_t n) {
    static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    bool ok = lk_buffer_add(out, "\"", 1);
    size_t first = 0; /* byte that is not written yet */
    for (size_t i = 0; i < n && ok; i++) {
        const unsigned char c = (unsigned char)text[i];
        char escape[8] = {'\\', '\0'};
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        (void)snprintf(escape, sizeof escape, "\\u%04X", c);
        for (size_t k = 0; k + 1 < sizeof letters; k += 2) {
            if ((unsigned char)letters[k] == c) {
                escape[1] = letters[k + 1];
                escape[2] = '\0';
            }
        }
        ok = lk_buffer_add(out, text + first, i - first) && add_string(out, escape);
        first = i + 1;
    }
    return ok && lk_buffer_add(out, text + first, n - first) && lk_buffer_add(out, "\"", 1);
}

/* "data: " and the object up to the choices. */
static bool make_head(const server *s, serve_job *job) {
    json_t *object = server_envelope(
        s, job, job->settings.kind == SERVE_CHAT ? "chat.completion.chunk" : "text_completion");
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    const bool ok = text != NULL && add_string(&job->event_head, "data: ") &&
                    lk_buffer_add(&job->event_head, text, strlen(text) - 1) && /* without its } */
                    add_string(&job->event_head, ",\"choices\":[{\"index\":");
    free(text);
    return ok;
}

bool server_add_plain_event(const server *s, serve_job *job, size_t i, const char *text, size_t n,
                            lk_buffer *out) {
    const bool is_chat = job->settings.kind == SERVE_CHAT;
    char index[32];
    if (job->event_head.n == 0 && !make_head(s, job)) {
        return false;
    }
    (void)snprintf(index, sizeof index, "%zu%s", i,
                   is_chat ? ",\"delta\":{\"content\":" : ",\"text\":");
    return lk_buffer_add(out, job->event_head.data, job->event_head.n) && add_string(out, index) &&
           add_quoted(out, text, n) && add_string(out, is_chat ? "}" : "") &&
           add_string(out, ",\"logprobs\":null,\"finish_reason\":null}]") &&
           add_string(out, job->settings.include_usage ? ",\"usage\":null" : "") &&
           add_string(out, "}\n\n");
}
