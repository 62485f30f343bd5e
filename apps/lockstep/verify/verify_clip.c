/* verify_clip.c - see verify_clip.h. */
#include "verify_clip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "recording/audio_file.h"
#include "recording/audio_input.h"
#include "shared/console.h"
#include "shared/conversation.h"

const char verify_clip_question[] = "Transcribe the following audio.";

enum { WAV_HEADER = 44 };

static const char *format_of(const char *bytes, size_t n) {
    static const char *const marks[][2] = {{"RIFF", "wav"}, {"fLaC", "flac"}, {"OggS", "ogg"}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (n >= 4 && memcmp(bytes, marks[i][0], 4) == 0) {
            return marks[i][1];
        }
    }
    return "mp3";
}

static void put(char *at, uint32_t value, size_t n) {
    for (size_t i = 0; i < n; i++) {
        at[i] = (char)(unsigned char)(value >> (8 * i) & 0xff);
    }
}

/* A WAV file of 16 bits. */
static bool write_wav(verify_clip *clip) {
    const size_t n = (size_t)lk_audio_n_samples(clip->audio);
    const float *samples = lk_audio_samples(clip->audio);
    clip->format = "wav";
    clip->n_bytes = WAV_HEADER + 2 * n;
    clip->bytes = malloc(clip->n_bytes);
    if (clip->bytes == NULL) {
        return false;
    }
    memcpy(clip->bytes, "RIFF    WAVEfmt ", 16);
    put(clip->bytes + 4, (uint32_t)(clip->n_bytes - 8), 4);
    put(clip->bytes + 16, 16, 4);
    put(clip->bytes + 20, 1, 2);
    put(clip->bytes + 22, 1, 2);
    put(clip->bytes + 24, LK_AUDIO_RATE, 4);
    put(clip->bytes + 28, 2 * LK_AUDIO_RATE, 4);
    put(clip->bytes + 32, 2, 2);
    put(clip->bytes + 34, 16, 2);
    memcpy(clip->bytes + 36, "data", 4);
    put(clip->bytes + 40, (uint32_t)(2 * n), 4);
    for (size_t i = 0; i < n; i++) {
        const float x = samples[i] < -1.0f ? -1.0f : samples[i] > 1.0f ? 1.0f : samples[i];
        put(clip->bytes + WAV_HEADER + 2 * i, (uint32_t)lrintf(x * 32767.0f), 2);
    }
    return true;
}

static bool turn(const verify_clip *forwards, verify_clip *backwards, lk_error *err) {
    const uint64_t n = lk_audio_n_samples(forwards->audio);
    const float *samples = lk_audio_samples(forwards->audio);
    float *turned = malloc((size_t)n * sizeof turned[0]);
    if (turned == NULL) {
        return lk_console_error("verify", "out of memory for the recording") == 0;
    }
    for (uint64_t i = 0; i < n; i++) {
        turned[i] = samples[n - 1 - i];
    }
    const lk_status status =
        lk_audio_create(turned, n, 1, LK_AUDIO_RATE, NULL, NULL, &backwards->audio, err);
    free(turned);
    if (status != LK_OK) {
        return lk_console_failed("verify", err) == 0;
    }
    return write_wav(backwards) ||
           lk_console_error("verify", "out of memory for the recording") == 0;
}

bool verify_clips_read(verify_clip clips[VERIFY_N_CLIPS], const char *path) {
    const lk_audio_params params = LK_AUDIO_PARAMS_INIT;
    lk_error err;
    verify_clip *clip = &clips[VERIFY_FORWARDS];
    clip->bytes = lk_console_read("verify", path, (size_t)params.max_bytes, &clip->n_bytes);
    if (clip->bytes == NULL) {
        return false;
    }
    clip->format = format_of(clip->bytes, clip->n_bytes);
    if (lk_audio_from_bytes(clip->bytes, clip->n_bytes, NULL, &clip->audio, &err) != LK_OK) {
        return lk_console_error("verify", "%s: %s", path, err.message) == 0;
    }
    return turn(clip, &clips[VERIFY_BACKWARDS], &err);
}

/* The prompt with one token for the recording. */
static int32_t *make_prompt(const lk_model *model, const char *chat_template, size_t *n) {
    const lk_conversation_options options = {.chat_template = chat_template};
    lk_conversation c;
    lk_chat_prompt *prompt = NULL;
    int32_t *ids = NULL;
    if (lk_conversation_open(&c, "verify", lk_model_gguf(model), lk_model_tokenizer(model),
                             &options) &&
        lk_conversation_add_audio(&c, 1, verify_clip_question, sizeof verify_clip_question - 1)) {
        prompt = lk_conversation_render(&c, LK_CHAT_GENERATION_PROMPT);
    }
    if (prompt != NULL) {
        ids = lk_conversation_encode(&c, prompt, true, n);
    }
    lk_chat_prompt_close(prompt);
    lk_conversation_close(&c);
    return ids;
}

static bool place(verify_clip *clip, const lk_projector *projector, const char *chat_template,
                  const lk_model *model) {
    lk_media_span span;
    lk_error err;
    const lk_audio_vectors vectors = {
        .n = (size_t)lk_projector_n_tokens(projector, lk_audio_n_frames(clip->audio))};
    if (vectors.n == 0) {
        return lk_console_error("verify", "the recording is too short: it gives no token") == 0;
    }
    clip->ids = make_prompt(model, chat_template, &clip->n_ids);
    if (clip->ids == NULL) {
        return false;
    }
    if (lk_audio_input_place(lk_model_tokenizer(model), &vectors, 1, &clip->ids, &clip->n_ids,
                             &span, &err) != LK_OK) {
        return lk_console_failed("verify", &err) == 0;
    }
    clip->first = span.first;
    clip->n_tokens = span.n;
    return true;
}

bool verify_clips_place(verify_clip clips[VERIFY_N_CLIPS], const char *mmproj,
                        const char *chat_template, const lk_model *model) {
    lk_error err;
    lk_projector *projector = NULL;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = LK_MODEL_NO_REPACK; /* nothing is computed with it */
    if (lk_projector_open(mmproj, &params, &projector, &err) != LK_OK) {
        return lk_console_failed("verify", &err) == 0;
    }
    bool ok = true;
    for (int i = 0; ok && i < VERIFY_N_CLIPS; i++) {
        ok = place(&clips[i], projector, chat_template, model);
    }
    lk_projector_close(projector);
    return ok;
}

void verify_clips_deinit(verify_clip clips[VERIFY_N_CLIPS]) {
    for (int i = 0; i < VERIFY_N_CLIPS; i++) {
        free(clips[i].bytes);
        free(clips[i].ids);
        lk_audio_destroy(clips[i].audio);
        clips[i] = (verify_clip){.bytes = NULL};
    }
}
