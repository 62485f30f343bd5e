/* talk.h - the parts of `lockstep chat`: options and commands (cmd_chat.c), one answer
 * (talk_answer.c), recordings (talk_audio.c). */
#ifndef LK_TALK_H
#define LK_TALK_H

#include "line_editor.h"
#include "recording/audio_input.h"
#include "shared/conversation.h"
#include "shared/open_model.h"

typedef struct talk_options {
    lk_conversation_options conversation;
    const char *model;
    const char *mmproj; /* NULL: no recordings */
    uint32_t projector_device;
    int64_t n_predict, n_ctx, n_threads, device;
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
    lk_audio_input audio;    /* without --mmproj all zero */
    lk_audio_vectors *clips; /* [n_clips] recordings, in the order of the messages; the last */
    size_t n_clips;
    size_t n_pending;   /* ... of them are for the next message */
    uint64_t seed;      /* of the next answer */
    json_t *open_calls; /* calls that wait for a result */
    bool styled;        /* the output is a terminal */
    bool is_interrupted;
} talk;

/* Computes and prints the answer to the conversation, and adds it. False: the reason is printed,
 * the conversation is as before. */
bool talk_answer(talk *t);

/* Those that can fail print the reason. */
bool talk_audio_open(talk *t);
void talk_audio_close(talk *t);
/* Reads and encodes a recording for the next message. */
bool talk_audio_hear(talk *t, const char *path);
/* The user's message, with the recordings that wait for it. */
bool talk_audio_add_message(talk *t, const char *text, size_t n);
/* Makes room for the vectors in the prompt's ids, malloc'd; spans [LK_MAX_MEDIA]. */
bool talk_audio_place(talk *t, int32_t **ids, size_t *n_ids, lk_media_span *spans, size_t *n);
/* Messages have gone: drops their recordings, and those that wait. */
void talk_audio_trim(talk *t);

#endif
