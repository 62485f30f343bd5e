/* chat_template.h - a chat template as its parts see it: the compiled programs, what they can do,
 * and the prompt that a rendering gives. */
#ifndef LK_TEXT_CHAT_TEMPLATE_H
#define LK_TEXT_CHAT_TEMPLATE_H

#include "lk/chat.h"
#include "text/jinja/jinja_render.h"

typedef struct lk_chat_program {
    char *source; /* zero-terminated */
    size_t n_source;
    lk_jprogram *program;
    uint32_t abilities; /* LK_CHAT_TAKES_* */
} lk_chat_program;

struct lk_chat_template {
    lk_allocator allocator;
    lk_chat_program plain;
    lk_chat_program tools; /* for requests with tools; source NULL: the plain one */
};

struct lk_chat_prompt {
    lk_allocator allocator;
    size_t n;
    char *text;       /* [n + 1] */
    uint8_t *origins; /* [n] */
};

/* Adds the template for requests with tools to one that was just created. */
lk_status lk_chat_template_add_tools(lk_chat_template *t, const char *source, size_t n_bytes,
                                     lk_error *err);

static inline const lk_chat_program *lk_chat_program_for(const lk_chat_template *t, int tools) {
    return tools != 0 && t->tools.source != NULL ? &t->tools : &t->plain;
}

/* Finds out what a program can do (chat_abilities.c). LK_E_NOMEM is the only failure. */
lk_status lk_chat_find_abilities(lk_chat_program *p, const lk_allocator *allocator, lk_error *err);

/* Puts checked messages into the form that the program takes (chat_messages.c). *mark becomes the
 * text that was put behind the content to be continued, or NULL. */
lk_status lk_chat_messages_prepare(lk_jvm *vm, const lk_chat_program *p, lk_jvalue messages,
                                   uint32_t flags, const lk_jstring **mark, lk_error *err);
/* Makes the roles of messages that are known ones text of the template's: some templates build
 * special tokens from them. */
bool lk_chat_messages_trust_roles(lk_jvm *vm, lk_jvalue messages);

#endif
