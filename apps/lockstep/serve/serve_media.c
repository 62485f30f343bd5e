/* serve_media.c - see serve_media.h. */
#include "serve_media.h"

#include <stdlib.h>
#include <string.h>

/* ---- base64 ---- */

static int digit_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

uint8_t *serve_base64(const char *text, size_t n, size_t *n_bytes, size_t *bad) {
    *n_bytes = 0;
    *bad = SIZE_MAX;
    size_t n_digits = n;
    while (n_digits > 0 && n - n_digits < 2 && text[n_digits - 1] == '=') {
        n_digits--;
    }
    if (n_digits % 4 == 1 || (n != n_digits && n % 4 != 0)) {
        *bad = n;
        return NULL;
    }
    uint8_t *bytes = malloc(n_digits / 4 * 3 + 3);
    if (bytes == NULL) {
        return NULL;
    }
    uint32_t bits = 0;
    for (size_t i = 0; i < n_digits; i++) {
        const int digit = digit_of(text[i]);
        if (digit < 0) {
            *bad = i;
            free(bytes);
            return NULL;
        }
        bits = (bits << 6) | (uint32_t)digit;
        if (i % 4 != 0) { /* a byte is full after the second, third and fourth digit */
            bytes[(*n_bytes)++] = (uint8_t)(bits >> (2 * (3 - i % 4)));
        }
    }
    return bytes;
}

/* ---- parts ---- */

static bool add_clip(serve_clips *clips, const char *text, size_t n, size_t i_message,
                     serve_problem *problem) {
    if (clips->n == SERVE_MAX_CLIPS) {
        return serve_fail(problem, 400, "out_of_range", "messages",
                          "the messages have more than %d recordings", SERVE_MAX_CLIPS);
    }
    size_t n_bytes = 0;
    size_t bad = 0;
    uint8_t *bytes = serve_base64(text, n, &n_bytes, &bad);
    if (bytes == NULL && bad == SIZE_MAX) {
        return serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for a recording");
    }
    if (bytes == NULL) {
        return serve_fail(problem, 400, "invalid_value", "messages",
                          "message %zu: the recording is no base64: character %zu of %zu is wrong",
                          i_message, bad, n);
    }
    clips->items[clips->n].bytes = bytes;
    clips->items[clips->n].n = n_bytes;
    clips->n++;
    return true;
}

/* {"type": "input_audio", "input_audio": {"data": base64, "format": "wav"}}. The bytes themselves
 * say what they are; the format only has to be one that is known. */
static bool take_input_audio(const json_t *part, serve_clips *clips, size_t i_message,
                             serve_problem *problem) {
    static const char *const formats[] = {"wav", "mp3", "flac", "ogg", "opus"};
    const json_t *audio = json_object_get(part, "input_audio");
    const json_t *data = json_object_get(audio, "data");
    const json_t *format = json_object_get(audio, "format");
    if (!json_is_string(data)) {
        return serve_fail(problem, 400, "invalid_type", "messages",
                          "message %zu: 'input_audio' needs 'data' with the file in base64",
                          i_message);
    }
    bool is_known = format == NULL || json_is_null(format);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0] && json_is_string(format); i++) {
        is_known = is_known || strcmp(json_string_value(format), formats[i]) == 0;
    }
    if (!is_known) {
        return serve_fail(problem, 400, "unsupported_value", "messages",
                          "message %zu: the format of 'input_audio' is '%.32s', expected wav, mp3, "
                          "flac, ogg or opus",
                          i_message,
                          json_is_string(format) ? json_string_value(format) : field_kind(format));
    }
    return add_clip(clips, json_string_value(data), json_string_length(data), i_message, problem);
}

/* {"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,..."}}. */
static bool take_audio_url(const json_t *part, serve_clips *clips, size_t i_message,
                           serve_problem *problem) {
    const json_t *url = json_object_get(json_object_get(part, "audio_url"), "url");
    const char *text = json_string_value(url);
    const char *comma = text != NULL ? strchr(text, ',') : NULL;
    static const char ending[] = ";base64";
    const size_t n_ending = sizeof ending - 1;
    if (text == NULL || strncmp(text, "data:", 5) != 0 || comma == NULL ||
        (size_t)(comma - text) < 5 + n_ending || strncmp(comma - n_ending, ending, n_ending) != 0) {
        return serve_fail(problem, 400, "unsupported_value", "messages",
                          "message %zu: 'audio_url' needs a 'url' that begins with "
                          "'data:audio/...;base64,'; this server fetches nothing",
                          i_message);
    }
    comma++;
    return add_clip(clips, comma, json_string_length(url) - (size_t)(comma - text), i_message,
                    problem);
}

static bool take_part(json_t *part, serve_clips *clips, size_t i_message, serve_problem *problem) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type == NULL) {
        return true; /* the chat template's to judge */
    }
    if (strcmp(type, "input_audio") == 0) {
        if (!take_input_audio(part, clips, i_message, problem)) {
            return false;
        }
    } else if (strcmp(type, "audio_url") == 0) {
        if (!take_audio_url(part, clips, i_message, problem)) {
            return false;
        }
    } else if (strcmp(type, "audio") == 0) {
        return serve_fail(problem, 400, "unsupported_value", "messages",
                          "message %zu: a recording comes as a part of the type 'input_audio'",
                          i_message);
    } else {
        return true;
    }
    (void)json_object_clear(part);
    return json_object_set_new(part, "type", json_string("audio")) == 0 ||
           serve_fail(problem, 500, "out_of_memory", NULL, "out of memory for the messages");
}

bool serve_take_clips(json_t *messages, serve_clips *clips, serve_problem *problem) {
    json_t *message = NULL;
    size_t i = 0;
    clips->n = 0;
    json_array_foreach(messages, i, message) {
        json_t *part = NULL;
        size_t k = 0;
        json_array_foreach(json_object_get(message, "content"), k, part) {
            if (!take_part(part, clips, i, problem)) {
                serve_clips_free(clips);
                return false;
            }
        }
    }
    return true;
}

void serve_clips_free(serve_clips *clips) {
    for (size_t i = 0; i < clips->n; i++) {
        free(clips->items[i].bytes);
    }
    clips->n = 0;
}
