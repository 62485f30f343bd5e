/* listener.c - see listener.h. */
#include "listener.h"

#include <stdlib.h>

#include "console.h"
#include "recording/audio_stream.h"

bool lk_listener_open(lk_audio_input *input, const char *command, const char *path,
                      const lk_model *model, int64_t n_threads, bool repack, uint32_t device) {
    lk_error err;
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.progress = lk_progress_bar_draw;
    params.progress_ctx = &bar;
    params.n_threads = (uint32_t)n_threads;
    params.flags = repack && device == LK_DEVICE_CPU ? 0 : LK_MODEL_NO_REPACK;
    const lk_status status = lk_audio_input_open(input, path, model, &params, device, &err);
    lk_progress_bar_clear(&bar);
    return status == LK_OK || lk_console_failed(command, &err) == 0;
}

bool lk_listener_hear(lk_audio_input *input, const char *command, const char *path,
                      lk_audio_vectors *vectors, double *seconds) {
    lk_error err;
    lk_audio *audio = NULL;
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    lk_status status = lk_audio_from_file(path, NULL, &audio, &err);
    if (status == LK_OK) {
        lk_error inner;
        status = lk_audio_input_encode(input, audio, lk_progress_bar_draw, &bar, vectors, &inner);
        if (status != LK_OK) {
            (void)lk_audio_fail(&err, status, inner.offset, "%.160s: %.200s", path, inner.message);
        }
        if (seconds != NULL) {
            *seconds = (double)lk_audio_n_samples(audio) / LK_AUDIO_RATE;
        }
    }
    lk_progress_bar_clear(&bar);
    lk_audio_destroy(audio);
    return status == LK_OK || lk_console_failed(command, &err) == 0;
}

bool lk_listener_place(const char *command, const lk_tokenizer *tokenizer,
                       const lk_audio_vectors *vectors, size_t n_clips, int32_t **ids,
                       size_t *n_ids, const float ***embeddings) {
    lk_error err;
    lk_media_span *spans = calloc(n_clips + 1, sizeof spans[0]);
    if (spans == NULL) {
        return lk_console_error(command, "out of memory for the prompt") == 0;
    }
    if (lk_audio_input_place(tokenizer, vectors, n_clips, ids, n_ids, spans, &err) != LK_OK) {
        free(spans);
        return lk_console_failed(command, &err) == 0;
    }
    *embeddings = calloc(*n_ids + 1, sizeof(*embeddings)[0]);
    for (size_t i = 0; *embeddings != NULL && i < n_clips; i++) {
        for (size_t k = 0; k < spans[i].n; k++) {
            (*embeddings)[spans[i].first + k] = spans[i].embeddings + k * vectors[i].width;
        }
    }
    free(spans);
    return *embeddings != NULL || lk_console_error(command, "out of memory for the prompt") == 0;
}
