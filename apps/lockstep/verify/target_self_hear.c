/* target_self_hear.c - recordings for the target `self`: samples to features to vectors, with a
 * digest of every stage on the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recording/audio_input.h"
#include "target_self.h"

bool verify_self_can_hear(verify_self *self, const lk_model *model, char why[VERIFY_WHY]) {
    lk_audio_input input;
    lk_error err;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = LK_MODEL_NO_REPACK;
    if (lk_audio_input_open(&input, self->mmproj, model, &params, LK_DEVICE_CPU, &err) != LK_OK) {
        (void)snprintf(why, VERIFY_WHY, "%s", err.message);
        return false;
    }
    lk_audio_input_close(&input);
    return true;
}

void verify_self_deafen(verify_self *self) {
    lk_encoder_destroy(self->encoder);
    lk_projector_close(self->projectors[0]);
    lk_projector_close(self->projectors[1]);
    self->encoder = NULL;
    self->projectors[0] = self->projectors[1] = NULL;
}

static bool done(lk_status status, const lk_error *err, char why[VERIFY_WHY]) {
    if (status != LK_OK) {
        (void)snprintf(why, VERIFY_WHY, "%s", err->message);
    }
    return status == LK_OK;
}

/* The encoder at a point's settings: the one at hand where they are its own, so that what it
 * computed before is part of the experiment. */
static verify_status prepare(verify_self *self, const verify_point *p, lk_projector **projector,
                             char why[VERIFY_WHY]) {
    const size_t i = p->value[VERIFY_REPACK] != 0;
    const verify_factors matter = VERIFY_BIT(VERIFY_REPACK) | VERIFY_BIT(VERIFY_THREADS) |
                                  VERIFY_BIT(VERIFY_ISA) | VERIFY_BIT(VERIFY_WINDOWS) |
                                  VERIFY_BIT(VERIFY_PROJECTOR);
    lk_error err;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.flags = i != 0 ? 0 : LK_MODEL_NO_REPACK;
    if (self->projectors[i] == NULL &&
        !done(lk_projector_open(self->mmproj, &params, &self->projectors[i], &err), &err, why)) {
        return VERIFY_BROKEN;
    }
    *projector = self->projectors[i];
    if (self->encoder != NULL && (verify_point_differs(p, &self->encoder_point) & matter) == 0) {
        return VERIFY_RAN;
    }
    lk_encoder_params settings = LK_ENCODER_PARAMS_INIT;
    settings.n_threads = (uint32_t)p->value[VERIFY_THREADS];
    settings.isa_mask = verify_self_isa(p);
    settings.max_windows = (int32_t)p->value[VERIFY_WINDOWS];
    settings.device = (uint32_t)p->value[VERIFY_PROJECTOR];
    lk_encoder_destroy(self->encoder);
    self->encoder = NULL;
    self->encoder_point = *p;
    if (done(lk_encoder_create(*projector, &settings, &self->encoder, &err), &err, why)) {
        return VERIFY_RAN;
    }
    return verify_self_cannot(p, &err) ? VERIFY_NOT_POSSIBLE : VERIFY_BROKEN;
}

static bool name_stages(const lk_projector *projector, uint8_t (*digests)[16],
                        verify_heard *heard) {
    bool ok = true;
    for (int32_t i = 0; i < heard->n_stages; i++) {
        ok = lk_projector_stage(projector, i, heard->stages[i].name, NULL) == LK_OK && ok;
        memcpy(heard->stages[i].digest, digests[i], sizeof heard->stages[i].digest);
    }
    return ok;
}

static bool encode(verify_self *self, const verify_clip *clip, float *features, size_t n_mels,
                   uint8_t (*digests)[16], verify_heard *heard, char why[VERIFY_WHY]) {
    const uint64_t n_frames = lk_audio_n_frames(clip->audio);
    lk_error err;
    lk_encode_params params = LK_ENCODE_PARAMS_INIT;
    params.digests = digests;
    return done(lk_audio_features(clip->audio, (uint32_t)n_mels, features,
                                  (size_t)n_frames * n_mels, &err),
                &err, why) &&
           done(lk_encoder_encode(self->encoder, features, n_frames, heard->vectors,
                                  heard->n * heard->width, &params, &err),
                &err, why);
}

verify_status verify_self_hear(void *engine, const verify_point *p, const verify_clip *clip,
                               verify_heard *heard, char why[VERIFY_WHY]) {
    verify_self *self = engine;
    lk_projector *projector = NULL;
    lk_projector_info info = LK_PROJECTOR_INFO_INIT;
    verify_status status = prepare(self, p, &projector, why);
    if (status != VERIFY_RAN) {
        return status;
    }
    (void)lk_projector_get_info(projector, &info, NULL);
    const size_t n_mels = (size_t)info.n_mels;
    *heard = (verify_heard){
        .n = (size_t)lk_projector_n_tokens(projector, lk_audio_n_frames(clip->audio)),
        .width = (size_t)info.n_out,
        .n_stages = info.n_stages};
    heard->vectors = malloc((heard->n * heard->width + 1) * sizeof heard->vectors[0]);
    heard->stages = calloc((size_t)info.n_stages + 1, sizeof heard->stages[0]);
    float *features = malloc((size_t)lk_audio_n_frames(clip->audio) * n_mels * sizeof features[0]);
    uint8_t(*digests)[16] = calloc((size_t)info.n_stages + 1, sizeof digests[0]);
    status = VERIFY_BROKEN;
    if (heard->vectors == NULL || heard->stages == NULL || features == NULL || digests == NULL) {
        (void)snprintf(why, VERIFY_WHY, "out of memory for the recording");
    } else if (heard->n != clip->n_tokens) {
        (void)snprintf(why, VERIFY_WHY, "%zu vectors for %zu tokens", heard->n, clip->n_tokens);
    } else if (encode(self, clip, features, n_mels, digests, heard, why)) {
        status = name_stages(projector, digests, heard) ? VERIFY_RAN : VERIFY_BROKEN;
    } else {
        status = VERIFY_FAILED;
    }
    free(features);
    free(digests);
    if (status != VERIFY_RAN) {
        verify_heard_deinit(heard);
    }
    return status;
}
