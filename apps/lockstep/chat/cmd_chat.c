/* cmd_chat.c - `lockstep chat`: a conversation with a model in the terminal, through the model's
 * own chat template. Lines that begin with a slash are commands. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "command.h"
#include "shared/console.h"
#include "talk.h"

static const char help[] =
    "usage: lockstep chat MODEL [OPTIONS]\n"
    "Talks with a model. A line that ends with a backslash goes on in the next one, and so does\n"
    "everything between two lines of \"\"\". Ctrl-C ends an answer, /help lists the commands.\n\n"
    "  --system TEXT         the system message\n"
    "  --mmproj FILE         the model's audio encoder, for /audio; --projector cpu|device: where\n"
    "                        it runs (cpu)\n"
    "  --tools FILE          a JSON array of tools; /tool TEXT answers a call\n"
    "  --chat-template X     a file, a name in the model's file, or chatml\n"
    "  --chat-template-kwargs JSON     variables: '{\"enable_thinking\": false}'\n"
    "  -n N                  tokens of an answer (-1: until the context is full)\n"
    "  --temp T --top-k N --top-p P --min-p P     (0.8, 40, 0.95, 0.05)\n"
    "  --seed N              repeats a conversation (default: random)\n"
    "  --hide-reasoning      do not show what the model thinks\n"
    "  -c, --ctx N           positions of the context\n"
    "  --kv-type T[,T]       keys and values as f32, f16 (default) or q8_0\n"
    "  -t, --threads N       threads; never changes the output; --device N: compute on device N\n"
    "  --no-repack           compute from the mapped file\n\n"
    "example: lockstep chat model.gguf --system \"Answer briefly.\"\n";

static bool parse(int argc, char **argv, talk_options *o, int *exit_status) {
    const lk_sampler_params defaults = LK_SAMPLER_PARAMS_INIT;
    *o = (talk_options){.n_predict = -1,
                        .temperature = (double)defaults.temperature,
                        .top_k = defaults.top_k,
                        .top_p = (double)defaults.top_p,
                        .min_p = (double)defaults.min_p};
    const char *kv_type = "f16";
    const char *projector = NULL;
    const lk_option options[] = {
        LK_CONVERSATION_OPTIONS(&o->conversation),
        {"--mmproj", NULL, LK_OPTION_TEXT, &o->mmproj, 0, 0, NULL},
        {"--projector", NULL, LK_OPTION_TEXT, &projector, 0, 0, NULL},
        {"--n-predict", "-n", LK_OPTION_INT, &o->n_predict, -1, 1e9, NULL},
        {"--ctx", "-c", LK_OPTION_INT, &o->n_ctx, 1, (double)LK_MAX_POSITIONS, NULL},
        {"--threads", "-t", LK_OPTION_INT, &o->n_threads, 1, 256, NULL},
        {"--temp", NULL, LK_OPTION_REAL, &o->temperature, 0, 1e6, NULL},
        {"--top-k", NULL, LK_OPTION_INT, &o->top_k, 0, INT32_MAX, NULL},
        {"--top-p", NULL, LK_OPTION_REAL, &o->top_p, 0, 1, NULL},
        {"--min-p", NULL, LK_OPTION_REAL, &o->min_p, 0, 1, NULL},
        {"--seed", NULL, LK_OPTION_U64, &o->seed, 0, 0, &o->has_seed},
        {"--hide-reasoning", NULL, LK_OPTION_FLAG, &o->hide_reasoning, 0, 0, NULL},
        {"--kv-type", NULL, LK_OPTION_TEXT, &kv_type, 0, 0, NULL},
        {"--device", NULL, LK_OPTION_INT, &o->device, 0, 1024, NULL},
        {"--no-repack", NULL, LK_OPTION_FLAG, &o->no_repack, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &o->model, true}};
    const lk_command_line line = {
        "chat",      help,
        options,     sizeof options / sizeof options[0],
        positionals, sizeof positionals / sizeof positionals[0],
    };
    if (!lk_options_parse(&line, argc, argv, exit_status)) {
        return false;
    }
    *exit_status = 2;
    return lk_audio_input_check_place("chat", projector, o->mmproj, &o->projector_device) &&
           lk_check_device("chat", o->device) &&
           lk_parse_kv_type("chat", kv_type, &o->k_type, &o->v_type);
}

static bool open_all(talk *t) {
    const talk_options *o = &t->options;
    lk_engine_params params = LK_ENGINE_PARAMS_INIT;
    lk_error err;
    t->model = lk_open_model("chat", o->model, o->n_threads, !o->no_repack && o->device == 0);
    if (t->model == NULL) {
        return false;
    }
    t->tokenizer = lk_model_tokenizer(t->model);
    t->styled = isatty(STDOUT_FILENO) == 1;
    t->seed = o->seed;
    if (!o->has_seed && getrandom(&t->seed, sizeof t->seed, 0) != (ssize_t)sizeof t->seed) {
        (void)lk_console_error("chat", "no random seed: %s; give one with --seed", strerror(errno));
        return false;
    }
    params.n_threads = (uint32_t)o->n_threads;
    params.kv_positions = o->n_ctx;
    params.k_type = o->k_type;
    params.device = (uint32_t)o->device;
    params.v_type = o->v_type;
    if (!lk_conversation_open(&t->conversation, "chat", lk_model_gguf(t->model), t->tokenizer,
                              &o->conversation) ||
        !talk_audio_open(t)) {
        return false;
    }
    /* Ctrl-C is this thread's to hear: others inherit that they are deaf to it. */
    sigset_t interrupt;
    sigset_t before;
    (void)sigemptyset(&interrupt);
    (void)sigaddset(&interrupt, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    const lk_status status = lk_engine_create(t->model, &params, &t->engine, &err);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != LK_OK) {
        return lk_console_failed("chat", &err) == 0;
    }
    t->editor = lk_line_editor_create();
    return t->editor != NULL || lk_console_error("chat", "no line editor") == 0;
}

static bool has_role(const talk *t, size_t i, const char *role) {
    const char *own =
        json_string_value(json_object_get(json_array_get(t->conversation.messages, i), "role"));
    return own != NULL && strcmp(own, role) == 0;
}

static size_t count(const talk *t) {
    return json_array_size(t->conversation.messages);
}

/* Keeps the first n messages. */
static void cut(talk *t, size_t n) {
    while (count(t) > n) {
        (void)json_array_remove(t->conversation.messages, count(t) - 1);
    }
    json_decref(t->open_calls);
    t->open_calls = NULL;
    talk_audio_trim(t);
}

/* Back to before the user's last message, or just behind it. */
static bool back(talk *t, bool keeps_message) {
    for (size_t i = count(t); i-- > 0;) {
        if (has_role(t, i, "user")) {
            cut(t, i + keeps_message);
            return true;
        }
    }
    (void)fprintf(stderr, "there is no message yet\n");
    return false;
}

static void clear(talk *t, const char *text) {
    (void)text;
    cut(t, count(t) != 0 && has_role(t, 0, "system"));
}

static void save(talk *t, const char *path) {
    if (json_dump_file(t->conversation.messages, path, JSON_INDENT(2)) != 0) {
        (void)lk_console_error("chat", "cannot write %s: %s", path, strerror(errno));
    }
}

static void load(talk *t, const char *path) {
    size_t n = 0;
    char *text = lk_console_read("chat", path, LK_MAX_CHAT_BYTES, &n);
    json_t *before = t->conversation.messages;
    t->conversation.messages = json_array();
    if (text != NULL && t->conversation.messages != NULL &&
        lk_conversation_load(&t->conversation, text, n)) {
        json_decref(before);
        talk_audio_trim(t);
        (void)fprintf(stderr, "%zu messages\n", count(t));
    } else {
        json_decref(t->conversation.messages);
        t->conversation.messages = before;
    }
    free(text);
}

static void show_prompt(talk *t, const char *text) {
    (void)text;
    lk_chat_prompt *prompt = lk_conversation_render(&t->conversation, LK_CHAT_GENERATION_PROMPT);
    if (prompt != NULL) {
        (void)printf("%s\n", lk_chat_prompt_text(prompt, NULL));
    }
    lk_chat_prompt_close(prompt);
}

/* The result of the first call that waits; the model goes on when none is left. */
static void give_result(talk *t, const char *text) {
    const json_t *call = json_array_get(t->open_calls, 0);
    if (call == NULL) {
        (void)fprintf(stderr, "no call waits for a result\n");
        return;
    }
    json_t *message = json_pack(
        "{s:s, s:O, s:O, s:s}", "role", "tool", "tool_call_id", json_object_get(call, "id"), "name",
        json_object_get(json_object_get(call, "function"), "name"), "content", text);
    if (message == NULL || json_array_append_new(t->conversation.messages, message) != 0) {
        (void)lk_console_error("chat", "the result is not well-formed UTF-8");
        return;
    }
    json_t *rest = json_array();
    for (size_t i = 1; i < json_array_size(t->open_calls); i++) {
        (void)json_array_append(rest, json_array_get(t->open_calls, i));
    }
    json_decref(t->open_calls);
    t->open_calls = rest;
    if (json_array_size(rest) == 0) {
        (void)talk_answer(t);
    }
}

static void set_system(talk *t, const char *text) {
    cut(t, 0);
    (void)lk_conversation_add(&t->conversation, "system", text, strlen(text));
}

static void undo(talk *t, const char *text) {
    (void)text;
    (void)back(t, false);
}

static void retry(talk *t, const char *text) {
    (void)text;
    if (back(t, true)) {
        (void)talk_answer(t);
    }
}

static void hear(talk *t, const char *path) {
    (void)talk_audio_hear(t, path);
}

/* ---- commands ---- */

static void show_help(talk *t, const char *text);

typedef struct chat_command {
    const char *name;
    const char *argument; /* NULL: none */
    const char *help;
    void (*run)(talk *t, const char *argument); /* NULL: leave */
} chat_command;

static const chat_command commands[] = {
    {"/help", NULL, "this", show_help},
    {"/clear", NULL, "forget the conversation, not the system message", clear},
    {"/system", "TEXT", "another system message; forgets the rest", set_system},
    {"/undo", NULL, "forget the last message and its answer", undo},
    {"/retry", NULL, "answer the last message again", retry},
    {"/audio", "FILE", "a recording for the next message (--mmproj)", hear},
    {"/tool", "TEXT", "the result of the call that waits for one", give_result},
    {"/prompt", NULL, "show the prompt as the model gets it", show_prompt},
    {"/save", "FILE", "write the messages as JSON", save},
    {"/load", "FILE", "replace them by those of a file", load},
    {"/exit", NULL, "leave (or /quit, or Ctrl-D)", NULL},
    {"/quit", NULL, NULL, NULL},
};

static void show_help(talk *t, const char *text) {
    (void)t;
    (void)text;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const chat_command *c = &commands[i];
        if (c->help != NULL) {
            (void)fprintf(stderr, "%-8s%-10s%s\n", c->name, c->argument != NULL ? c->argument : "",
                          c->help);
        }
    }
}

static const chat_command *find_command(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* A line with a slash. False: leave. */
static bool command(talk *t, char *line) {
    char *rest = line + strcspn(line, " \t");
    if (*rest != '\0') {
        *rest++ = '\0';
        rest += strspn(rest, " \t");
    }
    const chat_command *c = find_command(line);
    if (c == NULL) {
        (void)fprintf(stderr, "there is no command %.40s; /help lists all\n", line);
    } else if (c->argument != NULL && *rest == '\0') {
        (void)fprintf(stderr, "%s needs %s: %s\n", c->name, c->argument, c->help);
    } else if (c->argument == NULL && *rest != '\0') {
        (void)fprintf(stderr, "%s takes nothing, not '%.40s'\n", c->name, rest);
    } else if (c->run == NULL) {
        return false;
    } else {
        c->run(t, rest);
    }
    return true;
}

/* Messages until the end of the input. False: one of a script failed. */
static bool converse(talk *t) {
    bool ok = true;
    while (lk_line_editor_read(t->editor, &t->line)) {
        if (t->line.n == 0) {
            continue;
        }
        if (!lk_buffer_add(&t->line, "", 1)) {
            return lk_console_error("chat", "out of memory") == 0;
        }
        if (t->line.data[0] == '/' && memchr(t->line.data, '\n', t->line.n) == NULL) {
            if (!command(t, t->line.data)) {
                return ok;
            }
            continue;
        }
        const size_t n = count(t);
        ok = talk_audio_add_message(t, t->line.data, t->line.n - 1) && talk_answer(t);
        if (!ok) {
            cut(t, n);
        }
        if (!ok && !lk_line_editor_is_terminal(t->editor)) {
            return false;
        }
    }
    return ok;
}

int lk_command_chat(int argc, char **argv) {
    talk t = {.line = {NULL, 0, 0}};
    int exit_status = 0;
    if (!parse(argc, argv, &t.options, &exit_status)) {
        return exit_status;
    }
    const bool ok = open_all(&t) && converse(&t);
    lk_line_editor_destroy(t.editor);
    lk_engine_destroy(t.engine);
    talk_audio_close(&t);
    lk_conversation_close(&t.conversation);
    lk_model_close(t.model);
    json_decref(t.open_calls);
    free(t.line.data);
    return lk_console_finish("chat", ok ? 0 : 1);
}
