/* encoders.c - bodies of lk/projector.h that use an encoder: arguments are checked here, a second
 * thread is refused, the work is in src/engine. */
#include "api/device_list.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "engine/encoder.h"

lk_status lk_encoder_create(lk_projector *projector, const lk_encoder_params *params,
                            lk_encoder **out, lk_error *err) {
    const lk_encoder_params defaults = LK_ENCODER_PARAMS_INIT;
    if (out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("out"), "out is NULL");
    }
    *out = NULL;
    if (projector == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("projector"), "the projector is NULL");
    }
    params = params != NULL ? params : &defaults;
    lk_status status =
        lk_check_struct_size("lk_encoder_params", params->struct_size, sizeof *params, err);
    if (status != LK_OK) {
        return status;
    }
    const lk_fpenv fpenv = lk_fpenv_enter();
    const lk_backend_ops *ops = NULL;
    uint32_t i_device = 0;
    status = lk_device_find(params->device, &ops, &i_device, err);
    if (status == LK_OK) {
        status = lk_encoder_build(projector, ops, i_device, params, out, err);
    }
    lk_fpenv_leave(fpenv);
    return status;
}

void lk_encoder_destroy(lk_encoder *encoder) {
    lk_encoder_free(encoder);
}

static lk_status check_sizes(const lk_encoder *e, const float *features, uint64_t n_frames,
                             const float *embeddings, size_t n_floats, lk_error *err) {
    const uint64_t n_tokens = lk_projector_n_tokens(e->projector, n_frames);
    if (features == NULL || n_frames == 0 || n_frames > UINT32_MAX ||
        (embeddings == NULL && n_tokens != 0)) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("features"),
                       "%llu frames, expected 1 .. %u, and memory for features and embeddings",
                       (unsigned long long)n_frames, UINT32_MAX);
    }
    if (n_floats != n_tokens * e->n_out) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("n_floats"),
                       "room for %zu values, %llu frames give %llu vectors of %u", n_floats,
                       (unsigned long long)n_frames, (unsigned long long)n_tokens, e->n_out);
    }
    return LK_OK;
}

lk_status lk_encoder_encode(lk_encoder *encoder, const float *features, uint64_t n_frames,
                            float *embeddings, size_t n_floats, const lk_encode_params *params,
                            lk_error *err) {
    const lk_encode_params defaults = LK_ENCODE_PARAMS_INIT;
    params = params != NULL ? params : &defaults;
    if (encoder == NULL || params->struct_size != sizeof *params) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT(encoder == NULL ? "encoder" : "struct_size"),
                       "the encoder is NULL, or lk_encode_params has an unknown size");
    }
    lk_status status = check_sizes(encoder, features, n_frames, embeddings, n_floats, err);
    if (status != LK_OK) {
        return status;
    }
    if (atomic_exchange_explicit(&encoder->is_busy, 1, memory_order_acquire) != 0) {
        return lk_fail(err, LK_E_BUSY, LK_NOWHERE, "another thread is inside this encoder");
    }
    const lk_fpenv fpenv = lk_fpenv_enter();
    status = lk_encoder_run(encoder, features, n_frames, embeddings, params, NULL, NULL, err);
    lk_fpenv_leave(fpenv);
    atomic_store_explicit(&encoder->is_busy, 0, memory_order_release);
    return status;
}
