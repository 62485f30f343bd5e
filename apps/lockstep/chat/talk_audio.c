/* talk_audio.c - recordings in `lockstep chat`: /audio reads and encodes one, the next message
 * holds it. The vectors of all recordings stand in the order of the messages; they go when their
 * message goes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/listener.h"
#include "talk.h"

static size_t count_parts(const json_t *messages) {
    const json_t *message = NULL;
    size_t n = 0;
    size_t i = 0;
    json_array_foreach(messages, i, message) {
        const json_t *part = NULL;
        size_t k = 0;
        json_array_foreach(json_object_get(message, "content"), k, part) {
            const char *type = json_string_value(json_object_get(part, "type"));
            n += type != NULL && strcmp(type, "audio") == 0;
        }
    }
    return n;
}

bool talk_audio_open(talk *t) {
    return t->options.mmproj == NULL ||
           lk_listener_open(&t->audio, "chat", t->options.mmproj, t->model, t->options.n_threads,
                            !t->options.no_repack, t->options.projector_device);
}

static void keep_first(talk *t, size_t n) {
    while (t->n_clips > n) {
        free(t->clips[--t->n_clips].values);
    }
}

void talk_audio_close(talk *t) {
    keep_first(t, 0);
    free(t->clips);
    lk_audio_input_close(&t->audio);
}

void talk_audio_trim(talk *t) {
    keep_first(t, count_parts(t->conversation.messages));
    t->n_pending = 0;
}

bool talk_audio_hear(talk *t, const char *path) {
    lk_audio_vectors heard = {.values = NULL};
    double seconds = 0;
    if (t->audio.encoder == NULL) {
        (void)fprintf(stderr, "/audio needs the model's audio encoder: start with --mmproj FILE\n");
        return false;
    }
    if (t->n_clips == LK_MAX_MEDIA) {
        (void)fprintf(stderr, "a conversation holds %d recordings at most\n", LK_MAX_MEDIA);
        return false;
    }
    if (!lk_listener_hear(&t->audio, "chat", path, &heard, &seconds)) {
        return false;
    }
    lk_audio_vectors *more = realloc(t->clips, (t->n_clips + 1) * sizeof *more);
    if (more == NULL) {
        free(heard.values);
        return lk_console_error("chat", "out of memory for a recording") == 0;
    }
    t->clips = more;
    t->clips[t->n_clips++] = heard;
    t->n_pending++;
    (void)fprintf(stderr, "(%.1f seconds, %zu tokens; the next message holds them)\n", seconds,
                  heard.n);
    return true;
}

bool talk_audio_add_message(talk *t, const char *text, size_t n) {
    const size_t n_clips = t->n_pending;
    t->n_pending = 0;
    return n_clips == 0 ? lk_conversation_add(&t->conversation, "user", text, n)
                        : lk_conversation_add_audio(&t->conversation, n_clips, text, n);
}

bool talk_audio_place(talk *t, int32_t **ids, size_t *n_ids, lk_media_span *spans, size_t *n) {
    lk_error err;
    *n = t->n_clips - t->n_pending;
    return (*n == 0 && count_parts(t->conversation.messages) == 0) ||
           lk_audio_input_place(t->tokenizer, t->clips, *n, ids, n_ids, spans, &err) == LK_OK ||
           lk_console_failed("chat", &err) == 0;
}
