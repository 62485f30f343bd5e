/* audio_input.c - see audio_input.h. */
#include "audio_input.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audio_stream.h"
#include "shared/console.h"

/* How chat templates write a recording. */
static const char audio_token[] = "<|AUDIO|>";

bool lk_audio_input_check_place(const char *command, const char *place, const char *mmproj,
                                uint32_t *device) {
    lk_error err;
    uint32_t n = 0;
    *device = LK_DEVICE_CPU;
    if (place == NULL) {
        return true;
    }
    if (strcmp(place, "cpu") != 0 && strcmp(place, "device") != 0) {
        return lk_console_error(command, "--projector %s, expected cpu or device", place) == 0;
    }
    if (mmproj == NULL) {
        return lk_console_error(command, "--projector needs the encoder's file with --mmproj") == 0;
    }
    if (strcmp(place, "cpu") == 0) {
        return true;
    }
    if (lk_device_count(&n, &err) != LK_OK) {
        return lk_console_error(command, "--projector device: %s", err.message) == 0;
    }
    *device = 1;
    return true;
}

static int32_t find_token(const lk_tokenizer *tokenizer) {
    return tokenizer != NULL ? lk_tokenizer_find(tokenizer, audio_token, sizeof audio_token - 1)
                             : -1;
}

static lk_status fits_model(const lk_audio_input *input, const lk_model *model, lk_error *err) {
    lk_model_info info = LK_MODEL_INFO_INIT;
    const lk_status status = lk_model_get_info(model, &info, err);
    if (status != LK_OK) {
        return status;
    }
    if (input->info.n_out != info.n_embd) {
        return lk_audio_fail(err, LK_E_MISMATCH, UINT64_MAX,
                             "the projector gives vectors of %" PRId32 " values, the model has a "
                             "width of %" PRId32 ": it belongs to another model",
                             input->info.n_out, info.n_embd);
    }
    return find_token(lk_model_tokenizer(model)) >= 0
               ? LK_OK
               : lk_audio_fail(err, LK_E_UNSUPPORTED, UINT64_MAX,
                               "the model's vocabulary has no token for a recording (%s)",
                               audio_token);
}

lk_status lk_audio_input_open(lk_audio_input *input, const char *path, const lk_model *model,
                              const lk_model_params *params, uint32_t device, lk_error *err) {
    lk_encoder_params encoder = LK_ENCODER_PARAMS_INIT;
    encoder.n_threads = params->n_threads;
    encoder.device = device;
    encoder.max_windows = device == LK_DEVICE_CPU ? encoder.max_windows : LK_MAX_WINDOWS;
    *input = (lk_audio_input){.info = LK_PROJECTOR_INFO_INIT};
    lk_status status = lk_projector_open(path, params, &input->projector, err);
    if (status == LK_OK) {
        status = lk_projector_get_info(input->projector, &input->info, err);
    }
    if (status == LK_OK) {
        status = fits_model(input, model, err);
    }
    if (status == LK_OK) {
        status = lk_encoder_create(input->projector, &encoder, &input->encoder, err);
    }
    if (status != LK_OK) {
        lk_audio_input_close(input);
    }
    return status;
}

void lk_audio_input_close(lk_audio_input *input) {
    lk_encoder_destroy(input->encoder);
    lk_projector_close(input->projector);
    input->encoder = NULL;
    input->projector = NULL;
}

lk_status lk_audio_input_encode(lk_audio_input *input, const lk_audio *audio,
                                lk_progress_fn progress, void *progress_ctx,
                                lk_audio_vectors *vectors, lk_error *err) {
    const uint64_t n_frames = lk_audio_n_frames(audio);
    const size_t n_features = (size_t)n_frames * (size_t)input->info.n_mels;
    const size_t n = (size_t)lk_projector_n_tokens(input->projector, n_frames);
    const size_t n_values = n * (size_t)input->info.n_out;
    *vectors = (lk_audio_vectors){.n = n, .width = (size_t)input->info.n_out};
    if (n == 0) {
        return lk_audio_fail(err, LK_E_FORMAT, UINT64_MAX,
                             "the recording is too short: %" PRIu64 " samples at 16 kHz give no "
                             "token",
                             lk_audio_n_samples(audio));
    }
    float *features = malloc(n_features * sizeof *features);
    float *values = malloc(n_values * sizeof *values);
    if (features == NULL || values == NULL) {
        free(features);
        free(values);
        return lk_audio_fail(err, LK_E_NOMEM, UINT64_MAX, "out of memory for a recording");
    }
    lk_encode_params params = LK_ENCODE_PARAMS_INIT;
    params.progress = progress;
    params.progress_ctx = progress_ctx;
    lk_status status =
        lk_audio_features(audio, (uint32_t)input->info.n_mels, features, n_features, err);
    if (status == LK_OK) {
        status =
            lk_encoder_encode(input->encoder, features, n_frames, values, n_values, &params, err);
    }
    free(features);
    if (status != LK_OK) {
        free(values);
        return status;
    }
    vectors->values = values;
    lk_audio_digest(audio, vectors->samples);
    lk_logits_digest(values, n_values, vectors->digest);
    return LK_OK;
}

lk_status lk_audio_input_place(const lk_tokenizer *tokenizer, const lk_audio_vectors *vectors,
                               size_t n_clips, int32_t **ids, size_t *n_ids, lk_media_span *spans,
                               lk_error *err) {
    const int32_t mark = find_token(tokenizer);
    size_t n_marks = 0;
    size_t n_wanted = *n_ids;
    for (size_t i = 0; i < *n_ids; i++) {
        if ((*ids)[i] == mark) {
            n_wanted += n_marks < n_clips ? vectors[n_marks].n - 1 : 0;
            n_marks++;
        }
    }
    if (n_marks != n_clips) {
        return lk_audio_fail(err, LK_E_ARG, UINT64_MAX,
                             "the prompt has places for %zu recordings, and %zu are given", n_marks,
                             n_clips);
    }
    int32_t *wide = malloc((n_wanted + 1) * sizeof *wide);
    if (wide == NULL) {
        return lk_audio_fail(err, LK_E_NOMEM, UINT64_MAX, "out of memory for the prompt");
    }
    size_t n = 0;
    size_t i_clip = 0;
    for (size_t i = 0; i < *n_ids; i++) {
        if ((*ids)[i] != mark) {
            wide[n++] = (*ids)[i];
            continue;
        }
        spans[i_clip] = (lk_media_span){n, vectors[i_clip].n, vectors[i_clip].values};
        for (size_t k = 0; k < vectors[i_clip].n; k++) {
            wide[n++] = mark;
        }
        i_clip++;
    }
    free(*ids);
    *ids = wide;
    *n_ids = n;
    return LK_OK;
}
