/* talk.h - the parts of `lockstep chat`: options and commands (cmd_chat.c), one answer
 * (talk_answer.c). */
#ifndef LK_TALK_H
#define LK_TALK_H

#include "conversation.h"
#include "line_editor.h"
#include "open_model.h"

typedef struct talk_options {
    lk_conversation_options conversation;
    const char *model;
    int64_t n_predict, n_ctx, n_threads;
    double temperature, top_p, min_p;
    int64_t top_k;
    uint64_t seed;
    bool has_seed, no_repack, hide_reasoning;
    lk_kv_type k_type, v_type;
} talk_options;

typedef struct talk {
    talk_options options;
    lk_model *model;
    const lk_tokenizer *tokenizer;
    lk_conversation conversation;
    lk_engine *engine;
    lk_line_editor *editor;
    lk_buffer line;
    uint64_t seed;      /* of the next answer */
    json_t *open_calls; /* calls that wait for a result */
    bool styled;        /* the output is a terminal */
    bool is_interrupted;
} talk;

/* Computes and prints the answer to the conversation, and adds it. False: the reason is printed,
 * the conversation is as before. */
bool talk_answer(talk *t);

#endif
