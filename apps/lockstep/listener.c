/* listener.c - see listener.h. */
#include "listener.h"

#include <stdlib.h>
#include <string.h>

#include "audio_file.h"
#include "console.h"

static bool open_projector(lk_listener *l, const char *path, int64_t n_threads, bool repack) {
    lk_error err;
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.progress = lk_progress_bar_draw;
    params.progress_ctx = &bar;
    params.n_threads = (uint32_t)n_threads;
    params.flags = repack ? 0 : LK_MODEL_NO_REPACK;
    const lk_status status = lk_projector_open(path, &params, &l->projector, &err);
    lk_progress_bar_clear(&bar);
    return status == LK_OK || lk_console_failed(l->command, &err) == 0;
}

static bool fits_model(lk_listener *l, const char *path, const lk_model *model) {
    lk_error err;
    lk_model_info info = LK_MODEL_INFO_INIT;
    l->info = LK_PROJECTOR_INFO_INIT;
    if (lk_projector_get_info(l->projector, &l->info, &err) != LK_OK ||
        lk_model_get_info(model, &info, &err) != LK_OK) {
        return lk_console_failed(l->command, &err) == 0;
    }
    if (l->info.n_out != info.n_embd) {
        (void)lk_console_error(l->command,
                               "%s gives vectors of %d values, the model has a width of %d: it "
                               "belongs to another model",
                               path, l->info.n_out, info.n_embd);
        return false;
    }
    return true;
}

bool lk_listener_open(lk_listener *l, const char *command, const char *path, const lk_model *model,
                      int64_t n_threads, bool repack) {
    lk_error err;
    *l = (lk_listener){.command = command};
    if (!open_projector(l, path, n_threads, repack) || !fits_model(l, path, model)) {
        return false;
    }
    lk_encoder_params params = LK_ENCODER_PARAMS_INIT;
    params.n_threads = (uint32_t)n_threads;
    return lk_encoder_create(l->projector, &params, &l->encoder, &err) == LK_OK ||
           lk_console_failed(command, &err) == 0;
}

void lk_listener_close(lk_listener *l) {
    lk_encoder_destroy(l->encoder);
    lk_projector_close(l->projector);
    *l = (lk_listener){.command = NULL};
}

static float *make_features(const lk_listener *l, const lk_audio *audio) {
    const size_t n_mels = (size_t)l->info.n_mels;
    const size_t n = (size_t)lk_audio_n_frames(audio) * n_mels; /* 300 seconds at most */
    lk_error err;
    float *features = malloc(n * sizeof features[0]);
    if (features == NULL) {
        (void)lk_console_error(l->command, "out of memory for the features of a recording");
    } else if (lk_audio_features(audio, (uint32_t)n_mels, features, n, &err) != LK_OK) {
        (void)lk_console_failed(l->command, &err);
        free(features);
        features = NULL;
    }
    return features;
}

static bool encode(lk_listener *l, const float *features, uint64_t n_frames, lk_heard *clip) {
    lk_error err;
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    lk_encode_params params = LK_ENCODE_PARAMS_INIT;
    params.progress = lk_progress_bar_draw;
    params.progress_ctx = &bar;
    const lk_status status = lk_encoder_encode(l->encoder, features, n_frames, clip->embeddings,
                                               clip->n_tokens * clip->width, &params, &err);
    lk_progress_bar_clear(&bar);
    return status == LK_OK || lk_console_failed(l->command, &err) == 0;
}

bool lk_listener_hear(lk_listener *l, const char *path, lk_heard *clip) {
    lk_error err;
    lk_audio *audio = NULL;
    *clip = (lk_heard){.width = (size_t)l->info.n_out};
    if (lk_audio_from_file(path, NULL, &audio, &err) != LK_OK) {
        return lk_console_failed(l->command, &err) == 0;
    }
    const uint64_t n_frames = lk_audio_n_frames(audio);
    float *features = make_features(l, audio);
    lk_audio_destroy(audio);
    clip->n_tokens = (size_t)lk_projector_n_tokens(l->projector, n_frames);
    bool ok = features != NULL;
    if (ok && clip->n_tokens == 0) {
        (void)lk_console_error(l->command, "%s is too short: %u frames of a hundredth of a second",
                               path, (unsigned)n_frames);
        ok = false;
    }
    if (ok) {
        clip->embeddings = malloc(clip->n_tokens * clip->width * sizeof clip->embeddings[0]);
        ok = clip->embeddings != NULL;
        if (!ok) {
            (void)lk_console_error(l->command, "out of memory for %zu vectors", clip->n_tokens);
        }
    }
    ok = ok && encode(l, features, n_frames, clip);
    free(features);
    return ok;
}

static size_t count(const int32_t *ids, size_t n, int32_t id) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        found += ids[i] == id;
    }
    return found;
}

bool lk_heard_place(const char *command, const lk_tokenizer *tokenizer, const lk_heard *clips,
                    size_t n_clips, int32_t **ids, size_t *n_ids, const float ***embeddings) {
    const int32_t audio = lk_tokenizer_find(tokenizer, LK_AUDIO_TOKEN, strlen(LK_AUDIO_TOKEN));
    const size_t n_found = audio >= 0 ? count(*ids, *n_ids, audio) : 0;
    if (n_found != n_clips) {
        (void)lk_console_error(command,
                               "the prompt has %zu of the token " LK_AUDIO_TOKEN
                               ", expected one for each of %zu recordings: the model or its chat "
                               "template takes no audio",
                               n_found, n_clips);
        return false;
    }
    size_t n = *n_ids;
    for (size_t i = 0; i < n_clips; i++) {
        n += clips[i].n_tokens - 1;
    }
    int32_t *all = malloc((n + 1) * sizeof all[0]);
    const float **vectors = calloc(n + 1, sizeof vectors[0]);
    if (all == NULL || vectors == NULL) {
        (void)lk_console_error(command, "out of memory for the prompt");
        free(all);
        free(vectors);
        return false;
    }
    size_t k = 0;
    size_t i_clip = 0;
    for (size_t i = 0; i < *n_ids; i++) {
        if ((*ids)[i] != audio) {
            all[k++] = (*ids)[i];
            continue;
        }
        const lk_heard *clip = &clips[i_clip++];
        for (size_t t = 0; t < clip->n_tokens; t++) {
            vectors[k] = clip->embeddings + t * clip->width;
            all[k++] = audio;
        }
    }
    free(*ids);
    *ids = all;
    *n_ids = n;
    *embeddings = vectors;
    return true;
}
