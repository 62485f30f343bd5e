/* faulty_dialect.h - how a faulty server (faulty_server.h) says things: the field names of engines
 * that could not be run beside these tests, written after their documentation, and two plain ways.
 * What the reader of `lockstep verify` makes of them is tested with this, not the engines. */
#ifndef LK_FAULTY_DIALECT_H
#define LK_FAULTY_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum faulty_dialect {
    DIALECT_TEXT,  /* completions; text alone */
    DIALECT_IDS,   /* completions; ids and log probabilities, as Lockstep gives them */
    DIALECT_VLLM,  /* completions; logprobs as lists, token_ids where they are asked for */
    DIALECT_OLLAMA /* completions are text alone, chats show tokens, thoughts are `reasoning` */
} faulty_dialect;

/* One token of an answer. */
typedef struct faulty_token {
    uint32_t id;
    const char *text;
    double logprob;
    int i; /* 0: the first one */
    bool is_last;
    bool is_chat;
    bool wants_ids; /* the request asked for ids */
} faulty_token;

/* The body of GET path with status 200, or NULL: there is no such path. */
const char *faulty_page(faulty_dialect dialect, const char *path);
bool faulty_has_chats(faulty_dialect dialect);
/* The event of a token; what follows the last one. At most `size` bytes with the zero. */
void faulty_put_token(faulty_dialect dialect, const faulty_token *t, char *out, size_t size);
void faulty_put_end(faulty_dialect dialect, char *out, size_t size);

#endif
