/* conversation.h - messages of a command line on their way to a prompt: `template`, `run --chat`
 * and `chat` share it. All functions print the reason of a failure. */
#ifndef LK_CONVERSATION_H
#define LK_CONVERSATION_H

#include <jansson.h>

#include "lk/lk.h"
#include "options.h"

/* What the command line says about a conversation. NULL: not given. */
typedef struct lk_conversation_options {
    const char *system;        /* --system TEXT */
    const char *tools;         /* --tools FILE: a JSON array */
    const char *chat_template; /* --chat-template FILE|NAME */
    const char *variables;     /* --chat-template-kwargs JSON */
} lk_conversation_options;

/* Rows for an option table. */
#define LK_CONVERSATION_OPTIONS(o)                                                                 \
    {"--system", NULL, LK_OPTION_TEXT, &(o)->system, 0, 0, NULL},                                  \
        {"--tools", NULL, LK_OPTION_TEXT, &(o)->tools, 0, 0, NULL},                                \
        {"--chat-template", NULL, LK_OPTION_TEXT, &(o)->chat_template, 0, 0, NULL}, {              \
        "--chat-template-kwargs", NULL, LK_OPTION_TEXT, &(o)->variables, 0, 0, NULL                \
    }

typedef struct lk_conversation {
    const char *command;
    const lk_tokenizer *tokenizer;
    const lk_conversation_options *options;
    lk_chat_template *chat_template;
    json_t *messages;
    char *tools;
    size_t n_tools;
} lk_conversation;

/* Opens the template: a file, a name in the model's file, or a name that the library knows; without
 * an option the model's own. Reads the tools, begins with the system message. */
bool lk_conversation_open(lk_conversation *c, const char *command, const lk_gguf *gguf,
                          const lk_tokenizer *tokenizer, const lk_conversation_options *options);
void lk_conversation_close(lk_conversation *c);

/* Replaces all messages by those of a JSON text: an array, or an object with "messages" and perhaps
 * "tools" and "chat_template_kwargs", as a request to a server has them. */
bool lk_conversation_load(lk_conversation *c, const char *text, size_t n);
/* A user's message of n_clips recordings and a text behind them, as parts. */
bool lk_conversation_add_audio(lk_conversation *c, size_t n_clips, const char *text, size_t n);
bool lk_conversation_add(lk_conversation *c, const char *role, const char *text, size_t n);

/* Renders with LK_CHAT_* flags. NULL on failure; else lk_chat_prompt_close. */
lk_chat_prompt *lk_conversation_render(const lk_conversation *c, uint32_t flags);
/* The ids of a prompt, in memory for free(). */
int32_t *lk_conversation_encode(const lk_conversation *c, const lk_chat_prompt *prompt,
                                bool special, size_t *n_ids);

#endif
