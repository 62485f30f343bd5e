/* lk/chat.h - messages to a prompt, through the model's own chat template.
 *
 * A chat template is Jinja text that comes with the model (the key tokenizer.chat_template of a
 * GGUF file) and says how messages become a prompt. It is compiled once; a template that is missing
 * or does not compile is an error, and no other one is put in its place. The result is what the
 * models' own software (Jinja2 as transformers sets it up) renders, byte for byte
 * (docs/chat-templates.md).
 *
 * Special tokens that the template writes are special; the same characters in a message are text:
 * every byte of a prompt has an origin, and lk_chat_prompt_encode reads control tokens only where
 * the template wrote them. BOS and EOS are where the template puts them; none is added.
 *
 * Thread rule: templates and prompts are immutable; any number of threads may use one.
 */
#ifndef LK_CHAT_H
#define LK_CHAT_H

#include "lk/base.h"
#include "lk/gguf.h"
#include "lk/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_chat_template lk_chat_template;
typedef struct lk_chat_prompt lk_chat_prompt;

/* Limits. */
#define LK_MAX_TEMPLATE_BYTES ((size_t)1 << 20)
#define LK_MAX_CHAT_BYTES ((size_t)64 << 20) /* of messages, tools and variables, each */

/* Compiles n_bytes of Jinja. On success *out is owned by the caller (lk_chat_template_close).
 * LK_E_FORMAT names the line and what is wrong there; LK_E_UNSUPPORTED names a statement, filter or
 * test that this engine does not have; LK_E_LIMIT, LK_E_NOMEM. */
LK_API lk_status lk_chat_template_create(const char *source, size_t n_bytes,
                                         const lk_allocator *allocator, lk_chat_template **out,
                                         lk_error *err);
/* The template of a GGUF file. name NULL: tokenizer.chat_template, and for requests with tools
 * tokenizer.chat_template.tool_use where the file has one; else tokenizer.chat_template.<name>.
 * LK_E_NOT_FOUND when the file has none; else as lk_chat_template_create. */
LK_API lk_status lk_chat_template_open(const lk_gguf *gguf, const char *name,
                                       const lk_allocator *allocator, lk_chat_template **out,
                                       lk_error *err);
/* A template that the library knows by name: "chatml". LK_E_NOT_FOUND for others. */
LK_API lk_status lk_chat_template_builtin(const char *name, const lk_allocator *allocator,
                                          lk_chat_template **out, lk_error *err);
LK_API void lk_chat_template_close(lk_chat_template *chat_template); /* accepts NULL */
/* The Jinja text (borrowed, zero-terminated); with_tools: the one for requests with tools. */
LK_API const char *lk_chat_template_source(const lk_chat_template *chat_template, int with_tools,
                                           size_t *n_bytes);

/* What a template can do: found when it is compiled, by rendering small conversations. */
enum {
    LK_CHAT_TAKES_SYSTEM = 1,             /* a system message shows in the prompt */
    LK_CHAT_TAKES_TOOLS = 2,              /* tools show in the prompt */
    LK_CHAT_TAKES_TOOL_CALLS = 4,         /* so do calls of the assistant */
    LK_CHAT_TAKES_STRING_CONTENT = 8,     /* content as one text */
    LK_CHAT_TAKES_PART_CONTENT = 16,      /* content as a list of parts */
    LK_CHAT_TAKES_TEXT_WITH_CALLS = 32,   /* calls beside a text */
    LK_CHAT_TAKES_NULL_CONTENT = 64,      /* calls with a content of null */
    LK_CHAT_TAKES_OBJECT_ARGUMENTS = 128, /* arguments of calls as objects */
    LK_CHAT_TAKES_STRING_ARGUMENTS = 256  /* arguments of calls as JSON text */
};
LK_API uint32_t lk_chat_template_abilities(const lk_chat_template *chat_template, int with_tools);

enum {
    LK_CHAT_GENERATION_PROMPT = 1, /* end with the beginning of the assistant's turn */
    /* The last message is the assistant's, and its content is to be continued: the prompt ends with
     * it. Excludes GENERATION_PROMPT. */
    LK_CHAT_CONTINUE_FINAL = 2,
    /* Hand the messages to the template as they stand. Without it they are checked and put into the
     * form that the template takes (docs/chat-templates.md, "Messages"). */
    LK_CHAT_AS_GIVEN = 4
};

#define LK_CHAT_NO_TIME INT64_MIN

typedef struct lk_chat_params {
    size_t struct_size;
    const lk_allocator *allocator; /* NULL: the C library's; must outlive the prompt */
    const char *messages;          /* JSON: an array of messages as in OpenAI's API */
    size_t n_messages;             /* bytes */
    const char *tools;             /* JSON: an array of tools; NULL: none */
    size_t n_tools;
    const char *variables; /* JSON: an object; more variables (chat_template_kwargs); NULL: none */
    size_t n_variables;
    const char *bos_token; /* texts; NULL: not defined (see lk_chat_params_tokens) */
    size_t n_bos_token;
    const char *eos_token;
    size_t n_eos_token;
    int64_t local_time_s; /* for strftime_now: seconds since 1970-01-01 00:00 on the local clock;
                             LK_CHAT_NO_TIME: the template sees no strftime_now */
    uint32_t flags;
    uint32_t reserved; /* 0 */
} lk_chat_params;
#define LK_CHAT_PARAMS_INIT                                                                        \
    ((lk_chat_params){.struct_size = sizeof(lk_chat_params),                                       \
                      .local_time_s = LK_CHAT_NO_TIME,                                             \
                      .flags = LK_CHAT_GENERATION_PROMPT})
/* Sets bos_token and eos_token to the texts of the tokenizer's tokens (borrowed). */
LK_API void lk_chat_params_tokens(lk_chat_params *params, const lk_tokenizer *tokenizer);

/* Renders messages. On success *out is owned by the caller (lk_chat_prompt_close).
 * LK_E_REFUSED: the template called raise_exception; err->message is its text.
 * LK_E_TEMPLATE: the template failed on these messages; the line and the reason.
 * LK_E_FORMAT: the JSON is damaged, or a message has not the form of one.
 * LK_E_UNSUPPORTED: the template takes no tools, or not this kind of content.
 * LK_E_LIMIT, LK_E_NOMEM, LK_E_ARG. */
LK_API lk_status lk_chat_render(const lk_chat_template *chat_template, const lk_chat_params *params,
                                lk_chat_prompt **out, lk_error *err);
LK_API void lk_chat_prompt_close(lk_chat_prompt *prompt); /* accepts NULL */
/* The text (borrowed, zero-terminated), and for each byte whether it came from the template (0) or
 * from the messages, tools and variables (1). */
LK_API const char *lk_chat_prompt_text(const lk_chat_prompt *prompt, size_t *n_bytes);
LK_API const uint8_t *lk_chat_prompt_origins(const lk_chat_prompt *prompt);

enum {
    LK_CHAT_PARSE_SPECIAL = 1 /* read control tokens in the messages too */
};
/* The ids of the prompt, as lk_tokenizer_encode gives them (capacity, n_ids, statuses). The text is
 * read as one, so that tokens cross the border between template and message as they do in the
 * model's own software. User-defined tokens are recognised everywhere. */
LK_API lk_status lk_chat_prompt_encode(const lk_chat_prompt *prompt, const lk_tokenizer *tokenizer,
                                       uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                                       lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
