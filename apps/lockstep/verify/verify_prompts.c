/* verify_prompts.c - the prompts: plain English of different lengths, each with a code word that no
 * other one holds, so that an answer shows whose prompt it came from. Prompt i is the same text in
 * every version of the program that says so in its reports (VERIFY_PROMPTS_VERSION). */
#include <stdlib.h>
#include <string.h>

#include "verify.h"

static const char *const code_words[] = {
    "pelican", "harvest", "copper",  "lantern", "meadow", "violin", "granite", "saffron",
    "compass", "walnut",  "thunder", "orchard", "velvet", "anchor", "marble",  "falcon",
};
static const char *const openings[] = {
    "Once upon a time there was a girl who lived in a small house by the sea.",
    "The old man went to the market to buy bread, cheese and a new pair of shoes.",
    "In the winter the river froze, and the children of the village walked across it to school.",
    "My brother has a dog that likes to swim. Every morning they go down to the lake together.",
};
static const char *const middles[] = {
    "",
    " One day a letter came, and nobody in the house could read it.",
    " There was a storm in the night. In the morning the garden was full of leaves and branches, "
    "and the gate had been carried away by the wind. Everybody went out to look for it.",
    " They had walked for a long time when they came to a bridge. An old woman sat there with a "
    "basket of apples, and she asked them where they were going. They told her of the mountain, of "
    "the road through the forest, and of the king who had sent them. She laughed and gave each of "
    "them an apple for the way.",
};

enum {
    N_WORDS = sizeof code_words / sizeof code_words[0],
    N_OPENINGS = sizeof openings / sizeof openings[0],
    N_MIDDLES = sizeof middles / sizeof middles[0]
};

typedef struct verify_kept_prompt {
    char *text;
    int32_t *ids;
    size_t n_ids;
} verify_kept_prompt;

static char *make_text(size_t i) {
    const char *word = code_words[i % N_WORDS];
    const char *opening = openings[(i / N_MIDDLES + i) % N_OPENINGS];
    const char *middle = middles[i % N_MIDDLES];
    const size_t size = strlen(word) + strlen(opening) + strlen(middle) + 80;
    char *text = malloc(size);
    if (text != NULL) {
        (void)snprintf(text, size, "The secret word is %s.\n\n%s%s Then", word, opening, middle);
    }
    return text;
}

/* A model of few positions gets the beginnings of prompts: half of a sequence is for the answer. */
static bool encode(const verify *v, verify_kept_prompt *kept) {
    const size_t n = strlen(kept->text);
    const size_t most = v->target->n_ctx > 1 ? (size_t)v->target->n_ctx / 2 : SIZE_MAX;
    lk_error err;
    kept->ids = malloc(LK_IDS_BOUND(n) * sizeof kept->ids[0]);
    if (kept->ids == NULL ||
        lk_tokenizer_encode(v->tokenizer, kept->text, n, LK_TOKENIZE_ADD_SPECIAL, kept->ids,
                            LK_IDS_BOUND(n), &kept->n_ids, &err) != LK_OK) {
        return false;
    }
    kept->n_ids = kept->n_ids < most ? kept->n_ids : most;
    return true;
}

bool verify_prompts_init(verify *v) {
    v->prompts = calloc(VERIFY_N_PROMPTS, sizeof v->prompts[0]);
    for (size_t i = 0; v->prompts != NULL && i < VERIFY_N_PROMPTS; i++) {
        v->prompts[i].text = make_text(i);
        if (v->prompts[i].text == NULL || (v->tokenizer != NULL && !encode(v, &v->prompts[i]))) {
            return false;
        }
    }
    return v->prompts != NULL;
}

void verify_prompts_free(verify *v) {
    for (size_t i = 0; v->prompts != NULL && i < VERIFY_N_PROMPTS; i++) {
        free(v->prompts[i].text);
        free(v->prompts[i].ids);
    }
    free(v->prompts);
    v->prompts = NULL;
}

void verify_prompt(const verify *v, int64_t i, verify_stream *stream) {
    const size_t k = (size_t)(i < 0 ? -(i + 1) : i) % VERIFY_N_PROMPTS;
    memset(stream, 0, sizeof *stream);
    stream->text = v->prompts[k].text;
    stream->prompt = v->prompts[k].ids;
    stream->n_prompt = v->prompts[k].n_ids;
    stream->code_word = code_words[k % N_WORDS];
    stream->key = 1 + k;
}

void verify_prompt_of_clip(const verify *v, bool backwards, verify_stream *stream) {
    const verify_clip *clip = &v->clips[backwards ? VERIFY_BACKWARDS : VERIFY_FORWARDS];
    memset(stream, 0, sizeof *stream);
    stream->text = verify_clip_question;
    stream->prompt = clip->ids;
    stream->n_prompt = clip->n_ids;
    stream->clip = clip;
    stream->key = 1 + VERIFY_N_PROMPTS + (uint64_t)backwards;
}
