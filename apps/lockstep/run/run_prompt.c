/* run_prompt.c - the prompt of `lockstep run`: read, put into a chat if asked, encoded. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

static bool append_ids(run *r, const char *text, size_t n_bytes, uint32_t flags) {
    size_t n = 0;
    int32_t *ids = lk_encode("run", r->tokenizer, text, n_bytes, flags, &n);
    int32_t *all = ids != NULL ? realloc(r->prompt, (r->n_prompt + n + 1) * sizeof all[0]) : NULL;
    if (all != NULL) {
        r->prompt = all;
        memcpy(r->prompt + r->n_prompt, ids, n * sizeof ids[0]);
        r->n_prompt += n;
    } else if (ids != NULL) {
        (void)lk_console_error("run", "out of memory for the prompt");
    }
    free(ids);
    return all != NULL;
}

/* The prompt as the user's message, through the model's chat template. */
static bool encode_chat(run *r, const char *text, size_t n) {
    lk_conversation c;
    lk_chat_prompt *prompt = NULL;
    if (lk_conversation_open(&c, "run", lk_model_gguf(r->model), r->tokenizer,
                             &r->options->conversation) &&
        (r->clips != NULL ? lk_conversation_add_audio(&c, r->options->audio.n, text, n)
                          : lk_conversation_add(&c, "user", text, n))) {
        prompt = lk_conversation_render(&c, LK_CHAT_GENERATION_PROMPT);
    }
    if (prompt != NULL) {
        r->prompt = lk_conversation_encode(&c, prompt, r->options->special, &r->n_prompt);
    }
    lk_chat_prompt_close(prompt);
    lk_conversation_close(&c);
    return r->prompt != NULL &&
           (r->clips == NULL ||
            lk_listener_place("run", r->tokenizer, r->clips, r->options->audio.n, &r->prompt,
                              &r->n_prompt, &r->embeddings));
}

static bool encode_prompt(run *r, const char *text, size_t n) {
    if (r->options->chat) {
        return encode_chat(r, text, n);
    }
    uint32_t flags = LK_TOKENIZE_ADD_SPECIAL;
    if (r->options->special) {
        flags |= LK_TOKENIZE_PARSE_SPECIAL;
    }
    if (!append_ids(r, text, n, flags)) {
        return false;
    }
    /* A prompt is to be continued: the end that some models add does not belong here. */
    if (r->n_prompt > 1 && lk_tokenizer_adds_eos(r->tokenizer) &&
        r->prompt[r->n_prompt - 1] == lk_tokenizer_eos(r->tokenizer)) {
        r->n_prompt--;
    }
    return true;
}

static bool check_length(const run *r) {
    if (r->n_prompt == 0) {
        (void)lk_console_error("run", "the prompt is empty");
        return false;
    }
    if ((int64_t)r->n_prompt > r->n_ctx) {
        (void)lk_console_error("run",
                               "the prompt has %zu tokens, the context %lld positions: shorten it "
                               "or give a larger -c",
                               r->n_prompt, (long long)r->n_ctx);
        return false;
    }
    return true;
}

/* The text of -p, in memory like that of a file. */
static char *copy_text(const char *text, size_t *n) {
    *n = strlen(text);
    char *copy = malloc(*n + 1);
    if (copy != NULL) {
        memcpy(copy, text, *n + 1);
    } else {
        (void)lk_console_error("run", "out of memory for the prompt");
    }
    return copy;
}

bool run_read_audio(run *r) {
    const run_options *o = r->options;
    if (o->audio.n == 0) {
        return true;
    }
    r->clips = calloc(o->audio.n, sizeof r->clips[0]);
    if (r->clips == NULL) {
        (void)lk_console_error("run", "out of memory for the recordings");
        return false;
    }
    lk_audio_input input;
    bool ok = lk_listener_open(&input, "run", o->mmproj, r->model, o->n_threads, !o->no_repack,
                               o->projector_device);
    for (size_t i = 0; ok && i < o->audio.n; i++) {
        ok = lk_listener_hear(&input, "run", o->audio.items[i], &r->clips[i], NULL);
    }
    lk_audio_input_close(&input);
    return ok;
}

bool run_read_prompt(run *r) {
    const run_options *o = r->options;
    r->prompt_text = o->prompt != NULL ? copy_text(o->prompt, &r->n_prompt_text)
                                       : lk_console_read("run", o->prompt_file, LK_MAX_TEXT_BYTES,
                                                         &r->n_prompt_text);
    return r->prompt_text != NULL && encode_prompt(r, r->prompt_text, r->n_prompt_text) &&
           check_length(r);
}
