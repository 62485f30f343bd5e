/* run_prompt.c - the prompt of `lockstep run`: read, put into a chat if asked, encoded. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

static const char turn_begin[] = "<|im_start|>user\n";
static const char turn_end[] = "<|im_end|>\n<|im_start|>assistant\n";

/* Whether the text holds what would be read as special tokens. */
static bool holds_special(const lk_tokenizer *tokenizer, const char *text, size_t n, bool *result) {
    size_t n_plain = 0;
    size_t n_parsed = 0;
    int32_t *plain = lk_encode("run", tokenizer, text, n, 0, &n_plain);
    int32_t *parsed =
        plain != NULL ? lk_encode("run", tokenizer, text, n, LK_TOKENIZE_PARSE_SPECIAL, &n_parsed)
                      : NULL;
    if (parsed != NULL) {
        *result = n_plain != n_parsed || memcmp(plain, parsed, n_plain * sizeof plain[0]) != 0;
    }
    free(plain);
    const bool ok = parsed != NULL;
    free(parsed);
    return ok;
}

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

/* The markers of the turns are special tokens; the user's own text is only read for such with
 * --special. Without any in it the whole is encoded in one piece. */
static bool encode_chat(run *r, const char *text, size_t n) {
    bool is_split = false;
    if (!r->options->special && !holds_special(r->tokenizer, text, n, &is_split)) {
        return false;
    }
    if (is_split) {
        return append_ids(r, turn_begin, strlen(turn_begin),
                          LK_TOKENIZE_ADD_SPECIAL | LK_TOKENIZE_PARSE_SPECIAL) &&
               append_ids(r, text, n, 0) &&
               append_ids(r, turn_end, strlen(turn_end), LK_TOKENIZE_PARSE_SPECIAL);
    }
    lk_buffer whole = {NULL, 0, 0};
    const bool ok =
        lk_buffer_add(&whole, turn_begin, strlen(turn_begin)) && lk_buffer_add(&whole, text, n) &&
        lk_buffer_add(&whole, turn_end, strlen(turn_end)) &&
        append_ids(r, whole.data, whole.n, LK_TOKENIZE_ADD_SPECIAL | LK_TOKENIZE_PARSE_SPECIAL);
    free(whole.data);
    return ok;
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

bool run_read_prompt(run *r) {
    const run_options *o = r->options;
    r->prompt_text = o->prompt != NULL ? copy_text(o->prompt, &r->n_prompt_text)
                                       : lk_console_read("run", o->prompt_file, LK_MAX_TEXT_BYTES,
                                                         &r->n_prompt_text);
    return r->prompt_text != NULL && encode_prompt(r, r->prompt_text, r->n_prompt_text) &&
           check_length(r);
}
