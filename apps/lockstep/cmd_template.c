/* cmd_template.c - `lockstep template`: the prompt that the model's chat template makes of
 * messages. The model itself is not loaded, so any GGUF file with a tokenizer will do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "shared/console.h"
#include "shared/conversation.h"

static const char help[] =
    "usage: lockstep template MODEL (--messages FILE | -p TEXT) [OPTIONS]\n"
    "       lockstep template MODEL --source\n"
    "Prints the prompt that the model's chat template makes of a conversation.\n\n"
    "  --messages FILE       a JSON array of messages, or an object with \"messages\" and\n"
    "                        \"tools\", as in OpenAI's API; - is standard input\n"
    "  -p TEXT               one message of the user\n"
    "  --system TEXT         the system message before it\n"
    "  --tools FILE          a JSON array of tools\n"
    "  --chat-template X     a file with Jinja, the name of another template of the model's\n"
    "                        file, or chatml\n"
    "  --chat-template-kwargs JSON     variables: '{\"enable_thinking\": false}'\n"
    "  --no-generation-prompt          do not begin the assistant's turn\n"
    "  --continue            end inside the last message, the assistant's, to continue it\n"
    "  --as-given            hand the messages to the template as they stand\n"
    "  --ids                 the token ids instead of the text\n"
    "  --special             read special tokens in messages too (with --ids)\n"
    "  --source              the template itself\n"
    "  --abilities           what the template takes\n\n"
    "example: lockstep template model.gguf -p \"What is 2+2?\" --ids\n";

typedef struct template_options {
    lk_conversation_options conversation;
    const char *model, *messages, *prompt;
    bool no_generation_prompt, continues, as_given, ids, special, source, abilities;
} template_options;

static bool parse(int argc, char **argv, template_options *o, int *exit_status) {
    const lk_option options[] = {
        LK_CONVERSATION_OPTIONS(&o->conversation),
        {"--messages", NULL, LK_OPTION_TEXT, &o->messages, 0, 0, NULL},
        {"--prompt", "-p", LK_OPTION_TEXT, &o->prompt, 0, 0, NULL},
        {"--no-generation-prompt", NULL, LK_OPTION_FLAG, &o->no_generation_prompt, 0, 0, NULL},
        {"--continue", NULL, LK_OPTION_FLAG, &o->continues, 0, 0, NULL},
        {"--as-given", NULL, LK_OPTION_FLAG, &o->as_given, 0, 0, NULL},
        {"--ids", NULL, LK_OPTION_FLAG, &o->ids, 0, 0, NULL},
        {"--special", NULL, LK_OPTION_FLAG, &o->special, 0, 0, NULL},
        {"--source", NULL, LK_OPTION_FLAG, &o->source, 0, 0, NULL},
        {"--abilities", NULL, LK_OPTION_FLAG, &o->abilities, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &o->model, true}};
    const lk_command_line line = {
        "template",  help,
        options,     sizeof options / sizeof options[0],
        positionals, sizeof positionals / sizeof positionals[0],
    };
    if (!lk_options_parse(&line, argc, argv, exit_status)) {
        return false;
    }
    const bool shows = o->source || o->abilities;
    *exit_status = 2;
    if (!shows && (o->messages != NULL) + (o->prompt != NULL) != 1) {
        (void)lk_console_error("template", "give the messages once: --messages FILE or -p TEXT");
        return false;
    }
    if (o->special && !o->ids) {
        (void)lk_console_error("template", "--special needs --ids: the text is the same");
        return false;
    }
    return true;
}

static void print_abilities(const lk_chat_template *t) {
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        {LK_CHAT_TAKES_SYSTEM, "system message"},
        {LK_CHAT_TAKES_TOOLS, "tools"},
        {LK_CHAT_TAKES_TOOL_CALLS, "calls of tools"},
        {LK_CHAT_TAKES_STRING_CONTENT, "content as a text"},
        {LK_CHAT_TAKES_PART_CONTENT, "content as parts"},
        {LK_CHAT_TAKES_TEXT_WITH_CALLS, "calls beside a text"},
        {LK_CHAT_TAKES_NULL_CONTENT, "calls beside null"},
        {LK_CHAT_TAKES_OBJECT_ARGUMENTS, "arguments as objects"},
        {LK_CHAT_TAKES_STRING_ARGUMENTS, "arguments as text"},
    };
    const uint32_t abilities = lk_chat_template_abilities(t, 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)printf("%-22s %s\n", names[i].name, (abilities & names[i].bit) != 0 ? "yes" : "no");
    }
}

static bool print_prompt(const template_options *o, const lk_conversation *c) {
    uint32_t flags = o->as_given ? LK_CHAT_AS_GIVEN : 0;
    if (o->continues) {
        flags |= LK_CHAT_CONTINUE_FINAL;
    } else if (!o->no_generation_prompt) {
        flags |= LK_CHAT_GENERATION_PROMPT;
    }
    lk_chat_prompt *prompt = lk_conversation_render(c, flags);
    if (prompt == NULL) {
        return false;
    }
    size_t n = 0;
    bool ok = true;
    if (o->ids) {
        int32_t *ids = lk_conversation_encode(c, prompt, o->special, &n);
        ok = ids != NULL;
        for (size_t i = 0; ok && i < n; i++) {
            (void)printf("%s%d", i == 0 ? "" : " ", ids[i]);
        }
        (void)fputs(ok ? "\n" : "", stdout);
        free(ids);
    } else {
        const char *text = lk_chat_prompt_text(prompt, &n);
        (void)fwrite(text, 1, n, stdout);
    }
    lk_chat_prompt_close(prompt);
    return ok;
}

/* The messages of the command line, and what is asked of them. */
static bool work(const template_options *o, lk_conversation *c) {
    size_t n = 0;
    if (o->source) {
        const char *source = lk_chat_template_source(c->chat_template, c->tools != NULL, &n);
        (void)fwrite(source, 1, n, stdout);
        return true;
    }
    if (o->abilities) {
        print_abilities(c->chat_template);
        return true;
    }
    bool ok = true;
    if (o->messages != NULL) {
        char *text = lk_console_read("template", o->messages, LK_MAX_CHAT_BYTES, &n);
        ok = text != NULL && lk_conversation_load(c, text, n);
        free(text);
    } else {
        ok = lk_conversation_add(c, "user", o->prompt, strlen(o->prompt));
    }
    return ok && print_prompt(o, c);
}

int lk_command_template(int argc, char **argv) {
    template_options o = {.model = NULL};
    int exit_status = 0;
    if (!parse(argc, argv, &o, &exit_status)) {
        return exit_status;
    }
    lk_error err;
    lk_gguf *gguf = NULL;
    lk_tokenizer *tokenizer = NULL;
    lk_conversation c = {.command = "template"};
    bool ok = lk_gguf_open(o.model, NULL, &gguf, &err) == LK_OK &&
              lk_tokenizer_open(o.model, NULL, &tokenizer, &err) == LK_OK;
    if (!ok) {
        (void)lk_console_failed("template", &err);
    }
    ok = ok && lk_conversation_open(&c, "template", gguf, tokenizer, &o.conversation) &&
         work(&o, &c);
    lk_conversation_close(&c);
    lk_tokenizer_close(tokenizer);
    lk_gguf_close(gguf);
    return lk_console_finish("template", ok ? 0 : 1);
}
