/* faulty_server.h - a small OpenAI-compatible server that lies in one way, for `lockstep verify` to
 * find out. Its answers are made of the prompt alone, as long as it is honest: words, one token
 * each, that begin with the prompt's own code word. */
#ifndef LK_FAULTY_SERVER_H
#define LK_FAULTY_SERVER_H

#include "faulty_dialect.h"

typedef enum faulty_fault {
    FAULTY_NOTHING,
    FAULTY_NOISE,    /* log probabilities move by a thousandth in company, late tokens flip */
    FAULTY_FOREIGN,  /* in company: the answer of the request before it */
    FAULTY_TOKENS,   /* in company: other tokens from the first one on */
    FAULTY_LOOP,     /* in company: one token for ever */
    FAULTY_EMPTY,    /* in company: no token at all */
    FAULTY_REFUSES,  /* in company: HTTP 500 */
    FAULTY_CLOSES,   /* in company: the connection, midway */
    FAULTY_DIES,     /* every connection, after some answers */
    FAULTY_JUNK,     /* always: bytes that are no JSON */
    FAULTY_HANGS,    /* always: nothing at all */
    FAULTY_FLOODS,   /* always: a line that does not end */
    FAULTY_NO_MODELS /* /v1/models has no models */
} faulty_fault;

typedef struct faulty_server faulty_server;

faulty_server *faulty_start(faulty_fault fault, faulty_dialect dialect);
int faulty_port(const faulty_server *s);
int faulty_requests(faulty_server *s); /* completions that were asked for */
void faulty_stop(faulty_server *s);

#endif
