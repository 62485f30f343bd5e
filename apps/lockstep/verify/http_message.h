/* http_message.h - the message of a chat that asks for a stream. */
#ifndef LK_HTTP_MESSAGE_H
#define LK_HTTP_MESSAGE_H

#include <jansson.h>

#include "verify_schedule.h"

/* [{"role": "user", "content": ...}]: the text, or, with a recording, parts: `input_audio` and the
 * text. A new reference; NULL: no memory. */
json_t *http_message(const verify_stream *stream);

#endif
