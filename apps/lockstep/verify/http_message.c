/* http_message.c - see http_message.h. */
#include "http_message.h"

#include <stdlib.h>

static char *to_base64(const char *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((n + 2) / 3 * 4 + 1);
    char *at = text;
    for (size_t i = 0; text != NULL && i < n; i += 3) {
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++) {
            group = group << 8 | (i + k < n ? (unsigned char)bytes[i + k] : 0u);
        }
        for (size_t k = 0; k < 4; k++) {
            *at++ = i + k <= n ? digits[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    if (text != NULL) {
        *at = '\0';
    }
    return text;
}

json_t *http_message(const verify_stream *stream) {
    const verify_clip *clip = stream->clip;
    if (clip == NULL) {
        return json_pack("[{s:s, s:s}]", "role", "user", "content", stream->text);
    }
    char *data = to_base64(clip->bytes, clip->n_bytes);
    json_t *message =
        data != NULL ? json_pack("[{s:s, s:[{s:s, s:{s:s, s:s}}, {s:s, s:s}]}]", "role", "user",
                                 "content", "type", "input_audio", "input_audio", "data", data,
                                 "format", clip->format, "type", "text", "text", stream->text)
                     : NULL;
    free(data);
    return message;
}
