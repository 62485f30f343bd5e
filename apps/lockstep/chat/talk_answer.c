/* talk_answer.c - one answer of `lockstep chat`: submitted to the engine, taken apart and printed
 * while it comes. Ctrl-C ends the answer, not the program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

/* What the engine's thread works with; the main one waits until it is done. */
typedef struct answer {
    talk *talk;
    lk_chat_parser *parser;
    lk_text_stream stream;
    lk_buffer bytes;
    lk_buffer text, reasoning, arguments;
    json_t *calls;
    lk_chat_delta_kind shown; /* what the last output was, 0: nothing */
    lk_finish finish;
    lk_error error;
    bool failed;
    int64_t n_prompt, n_cached, n_generated;
} answer;

static volatile sig_atomic_t wants_stop;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    wants_stop = 1;
}

/* Control characters of a model must not move the cursor. */
static void print(const answer *a, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (a->talk->styled && ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)) {
            (void)fputs("\xef\xbf\xbd", stdout);
        } else {
            (void)putchar(c);
        }
    }
    (void)fflush(stdout);
}

/* Reasoning is dim, calls begin a line. */
static void show_as(answer *a, lk_chat_delta_kind kind) {
    const bool is_call = kind == LK_DELTA_CALL_BEGIN;
    if (a->shown == kind && !is_call) {
        return;
    }
    if (a->talk->styled && (a->shown == LK_DELTA_REASONING) != (kind == LK_DELTA_REASONING)) {
        (void)fputs(kind == LK_DELTA_REASONING ? "\033[2m" : "\033[0m", stdout);
    }
    if (a->shown != 0) {
        (void)fputs(a->shown == LK_DELTA_REASONING ? "\n\n" : "\n", stdout);
    }
    a->shown = kind;
}

static void add_call(answer *a, const lk_chat_delta *delta) {
    json_t *call = json_pack("{s:s, s:s, s:{s:s%}}", "id", delta->id, "type", "function",
                             "function", "name", delta->text, delta->n_text);
    a->failed = a->failed || call == NULL || json_array_append_new(a->calls, call) != 0;
    a->arguments.n = 0;
}

static void end_call(answer *a) {
    json_t *call = json_array_get(a->calls, json_array_size(a->calls) - 1);
    json_t *arguments = json_stringn(a->arguments.n != 0 ? a->arguments.data : "", a->arguments.n);
    a->failed = a->failed ||
                json_object_set_new(json_object_get(call, "function"), "arguments", arguments) != 0;
}

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    answer *a = ctx;
    bool ok = true;
    switch (delta->kind) {
    case LK_DELTA_TEXT:
        show_as(a, LK_DELTA_TEXT);
        print(a, delta->text, delta->n_text);
        ok = lk_buffer_add(&a->text, delta->text, delta->n_text);
        break;
    case LK_DELTA_REASONING:
        if (!a->talk->options.hide_reasoning) {
            show_as(a, LK_DELTA_REASONING);
            print(a, delta->text, delta->n_text);
        }
        ok = lk_buffer_add(&a->reasoning, delta->text, delta->n_text);
        break;
    case LK_DELTA_CALL_BEGIN:
        show_as(a, LK_DELTA_CALL_BEGIN);
        (void)fputs("[call] ", stdout);
        print(a, delta->text, delta->n_text);
        print(a, " ", 1);
        add_call(a, delta);
        break;
    case LK_DELTA_CALL_ARGUMENTS:
        print(a, delta->text, delta->n_text);
        ok = lk_buffer_add(&a->arguments, delta->text, delta->n_text);
        break;
    case LK_DELTA_CALL_END:
        end_call(a);
        break;
    }
    a->failed = a->failed || !ok;
}

/* The bytes of a token through the stream of whole characters into the parser. */
static bool take_token(answer *a, int32_t id) {
    char small[1024];
    size_t n = 0;
    if (lk_tokenizer_is_end(a->talk->tokenizer, id)) {
        return true;
    }
    a->bytes.n = 0;
    return lk_tokenizer_token_bytes(a->talk->tokenizer, id, LK_DETOKENIZE_SPECIAL, small,
                                    sizeof small, &n, &a->error) == LK_OK &&
           lk_text_stream_push(&a->stream, small, n, &a->bytes) &&
           lk_chat_parser_push(a->parser, a->bytes.n != 0 ? a->bytes.data : "", a->bytes.n,
                               &a->error) == LK_OK &&
           !a->failed;
}

static int on_event(void *ctx, const lk_event *event) {
    answer *a = ctx;
    if (event->kind == LK_EVENT_TOKEN) {
        a->n_generated++;
        a->failed = !take_token(a, event->token) || ferror(stdout) != 0;
        return !a->failed;
    }
    if (event->kind == LK_EVENT_END) {
        a->finish = event->finish;
        a->n_prompt = event->n_prompt;
        a->n_cached = event->n_cached;
        if (event->error != NULL) {
            a->error = *event->error;
        }
    }
    return 1;
}

static bool run(answer *a, const int32_t *prompt, size_t n_prompt, const lk_media_span *media,
                size_t n_media) {
    const talk_options *o = &a->talk->options;
    lk_sampler_params sampler = LK_SAMPLER_PARAMS_INIT;
    lk_request_params params = LK_REQUEST_PARAMS_INIT;
    lk_request *request = NULL;
    lk_error err;
    sampler.seed = a->talk->seed++;
    sampler.temperature = (float)o->temperature;
    sampler.top_k = (int32_t)o->top_k;
    sampler.top_p = (float)o->top_p;
    sampler.min_p = (float)o->min_p;
    params.prompt = prompt;
    params.n_prompt = n_prompt;
    params.media = media;
    params.n_media = n_media;
    params.sampler = &sampler;
    params.max_tokens = o->n_predict;
    params.on_event = on_event;
    params.ctx = a;
    wants_stop = 0;
    struct sigaction stop = {.sa_handler = on_interrupt}, before;
    (void)sigemptyset(&stop.sa_mask);
    (void)sigaction(SIGINT, &stop, &before);
    const lk_status status = lk_engine_submit(a->talk->engine, &params, &request, &err);
    if (status == LK_OK) {
        while (lk_request_wait(request, 50, &err) == LK_E_LIMIT) {
            if (wants_stop != 0) {
                lk_request_cancel(request);
            }
        }
        lk_request_release(request);
    } else {
        (void)lk_console_failed("chat", &err);
    }
    (void)sigaction(SIGINT, &before, NULL);
    return status == LK_OK;
}

/* The answer as a message. */
static bool keep(answer *a) {
    json_t *message = json_pack("{s:s, s:s%}", "role", "assistant", "content",
                                a->text.n != 0 ? a->text.data : "", a->text.n);
    if (message == NULL) {
        return false;
    }
    if (a->reasoning.n != 0) {
        (void)json_object_set_new(message, "reasoning_content",
                                  json_stringn(a->reasoning.data, a->reasoning.n));
    }
    if (json_array_size(a->calls) != 0) {
        (void)json_object_set(message, "tool_calls", a->calls);
    }
    json_decref(a->talk->open_calls);
    a->talk->open_calls = json_incref(a->calls);
    return json_array_append_new(a->talk->conversation.messages, message) == 0;
}

static bool finish(answer *a) {
    lk_error err;
    a->bytes.n = 0;
    bool ok = !a->failed && a->finish != LK_FINISH_ERROR &&
              lk_text_stream_finish(&a->stream, &a->bytes) &&
              lk_chat_parser_push(a->parser, a->bytes.n != 0 ? a->bytes.data : "", a->bytes.n,
                                  &err) == LK_OK &&
              lk_chat_parser_finish(a->parser, &err) == LK_OK;
    if (a->talk->styled && a->shown == LK_DELTA_REASONING) {
        (void)fputs("\033[0m", stdout);
    }
    (void)putchar('\n');
    (void)fflush(stdout);
    if (!ok && a->error.message[0] != '\0') {
        (void)lk_console_failed("chat", &a->error);
    }
    a->talk->is_interrupted = a->finish == LK_FINISH_CANCELLED;
    if (a->finish == LK_FINISH_LENGTH) {
        (void)fprintf(stderr, "(the answer reached its greatest length: -n or the context)\n");
    }
    return ok && keep(a);
}

static lk_chat_parser *make_parser(answer *a, const lk_chat_prompt *prompt) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *parser = NULL;
    lk_error err;
    params.prompt = prompt;
    params.id_seed = a->talk->seed;
    params.on_delta = on_delta;
    params.ctx = a;
    params.flags = LK_PARSE_REASONING;
    if (a->talk->conversation.tools != NULL) {
        params.flags |= LK_PARSE_TOOL_CALLS;
        params.tools = a->talk->conversation.tools;
        params.n_tools = a->talk->conversation.n_tools;
    }
    if (lk_chat_parser_create(a->talk->conversation.chat_template, &params, &parser, &err) !=
        LK_OK) {
        (void)lk_console_failed("chat", &err);
    }
    return parser;
}

bool talk_answer(talk *t) {
    answer a = {.talk = t, .calls = json_array()};
    lk_media_span media[LK_MAX_MEDIA];
    size_t n_media = 0;
    size_t n = 0;
    lk_chat_prompt *prompt = lk_conversation_render(&t->conversation, LK_CHAT_GENERATION_PROMPT);
    int32_t *ids =
        prompt != NULL ? lk_conversation_encode(&t->conversation, prompt, false, &n) : NULL;
    a.parser = ids != NULL && a.calls != NULL ? make_parser(&a, prompt) : NULL;
    const bool ok = a.parser != NULL && talk_audio_place(t, &ids, &n, media, &n_media) &&
                    run(&a, ids, n, media, n_media) && finish(&a);
    lk_chat_parser_destroy(a.parser);
    lk_chat_prompt_close(prompt);
    lk_text_stream_deinit(&a.stream);
    json_decref(a.calls);
    free(ids);
    free(a.bytes.data);
    free(a.text.data);
    free(a.reasoning.data);
    free(a.arguments.data);
    return ok;
}
