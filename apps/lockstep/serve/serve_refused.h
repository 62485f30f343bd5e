/* serve_refused.h - fields that ask for something this server cannot do, or that belong to another
 * endpoint: refused by name, never left aside. */
#ifndef LK_SERVE_REFUSED_H
#define LK_SERVE_REFUSED_H

#include "serve_decode.h"

/* Of a request for text. Values that ask for nothing are no problem. */
bool serve_check_refused(const json_t *root, serve_kind kind, serve_problem *problem);
/* The same for /v1/embeddings. */
bool serve_check_refused_input(const json_t *root, serve_problem *problem);

#endif
