/* fuzz_request.c - the body of a request to the server on any bytes; the first one chooses the
 * endpoint. Invariants: a problem with a 4xx and a message, or settings within their limits whose
 * sampler the library takes; the fields of messages are texts that JSON can hold. */
#include "fuzz.h"

#include <jansson.h>
#include <string.h>

#include "serve/serve_decode.h"
#include "serve/serve_media.h"

enum { N_VOCAB = 64, MAX_CHOICES = 16 };

static void check_settings(const serve_settings *s) {
    lk_sampler *sampler = NULL;
    lk_error err;
    const size_t most = s->kind == SERVE_EMBEDDING ? SERVE_MAX_INPUTS : MAX_CHOICES;
    fuzz_check(s->root != NULL && s->n_prompts >= 1 && s->n >= 1);
    fuzz_check(s->n_prompts * (size_t)s->n <= most);
    fuzz_check((s->kind == SERVE_EMBEDDING) == (s->pooling != LK_POOLING_NONE));
    fuzz_check(s->max_tokens >= -1 && s->n_top >= 0 && s->n_top <= 20 && s->timeout_ms >= 0);
    fuzz_check(s->n_stops <= SERVE_MAX_STOPS);
    for (size_t i = 0; i < s->n_stops; i++) {
        fuzz_check(s->stops[i][0] != '\0' && strlen(s->stops[i]) <= SERVE_MAX_STOP_BYTES);
    }
    for (size_t i = 0; s->kind != SERVE_CHAT && i < s->n_prompts; i++) {
        const json_t *prompt = serve_prompt_at(s, i);
        fuzz_check(json_is_string(prompt) || serve_is_ids(prompt, N_VOCAB));
    }
    fuzz_check((s->grammar == SERVE_FREE || s->grammar == SERVE_JSON_OBJECT) ==
               (s->grammar_text == NULL));
    fuzz_check(lk_sampler_create(&s->sampler, N_VOCAB, &sampler, &err) == LK_OK);
    lk_sampler_destroy(sampler);
}

/* Recordings of the messages: bytes, and nothing left of them in the messages but their places. */
static void check_clips(json_t *messages) {
    serve_clips clips;
    serve_problem problem = {.status = 0};
    if (!serve_take_clips(messages, &clips, &problem)) {
        fuzz_check(problem.status == 400 && problem.message[0] != '\0' && clips.n == 0);
        return;
    }
    fuzz_check(clips.n <= SERVE_MAX_CLIPS);
    for (size_t i = 0; i < clips.n; i++) {
        fuzz_check(clips.items[i].bytes != NULL);
    }
    char *text = json_dumps(messages, JSON_COMPACT);
    fuzz_check(text != NULL && (clips.n == 0 || strstr(text, "{\"type\":\"audio\"}") != NULL));
    free(text);
    serve_clips_free(&clips);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const serve_defaults defaults = {LK_SAMPLER_PARAMS_INIT, -1, N_VOCAB, MAX_CHOICES, 16,
                                     LK_POOLING_MEAN};
    serve_settings settings;
    serve_problem problem = {.status = 0};
    if (size == 0) {
        return 0;
    }
    const serve_kind kind = (serve_kind)(data[0] % SERVE_N_KINDS);
    if (serve_decode(kind, (const char *)data + 1, size - 1, &defaults, &settings, &problem)) {
        check_settings(&settings);
        if (kind == SERVE_CHAT) {
            check_clips(json_object_get(settings.root, "messages"));
        }
        serve_settings_free(&settings);
    } else {
        fuzz_check(problem.status >= 400 && problem.status < 500 && problem.message[0] != '\0');
        fuzz_check(problem.type != NULL && settings.root == NULL);
    }
    return 0;
}
