/* line_editor.h - messages typed by a person: lines with editing and history on a terminal
 * (libedit), plain lines otherwise. A line that ends with a backslash goes on in the next one; so
 * does everything between two lines of """. */
#ifndef LK_LINE_EDITOR_H
#define LK_LINE_EDITOR_H

#include <stdbool.h>

#include "shared/text_stream.h"

#define LK_MAX_MESSAGE ((size_t)16 << 20) /* bytes of a message */

typedef struct lk_line_editor lk_line_editor;

/* NULL when memory is short. */
lk_line_editor *lk_line_editor_create(void);
void lk_line_editor_destroy(lk_line_editor *editor); /* accepts NULL */
/* The next message, without its last line end, into `text` (emptied first). Ctrl-C drops what is
 * typed of it. False at the end of the input, or when memory is short or the message too long. */
bool lk_line_editor_read(lk_line_editor *editor, lk_buffer *text);
/* Whether a person sits there. */
bool lk_line_editor_is_terminal(const lk_line_editor *editor);

#endif
