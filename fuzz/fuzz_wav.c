/* fuzz_wav.c - the WAV reader and what follows on any bytes. Invariants: a status with a message
 * and an offset within the file, or a clip whose samples and features are finite; memory in
 * proportion (a rate of 1000 Hz makes 16 samples of one), all given back. The input is copied to
 * its exact size, so that a sanitizer sees any byte read beyond. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

#include "lk/audio.h"

static void check_clip(const lk_audio *audio) {
    const uint64_t n = lk_audio_n_samples(audio);
    const uint64_t n_frames = lk_audio_n_frames(audio);
    fuzz_check(n > 0 && n <= LK_AUDIO_RATE && n_frames == (n + LK_AUDIO_HOP - 1) / LK_AUDIO_HOP);
    for (uint64_t i = 0; i < n; i++) {
        fuzz_check(isfinite(lk_audio_samples(audio)[i]));
    }
    const size_t n_floats = (size_t)n_frames * 80;
    float *features = malloc(n_floats * sizeof *features);
    fuzz_check(features != NULL);
    fuzz_check(lk_audio_features(audio, 80, features, n_floats, NULL) == LK_OK);
    for (size_t i = 0; i < n_floats; i++) {
        fuzz_check(isfinite(features[i]));
    }
    free(features);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory c;
    fuzz_memory_init(&c);
    uint8_t *copy = malloc(size != 0 ? size : 1);
    fuzz_check(copy != NULL);
    memcpy(copy, data, size);
    lk_audio_params params = LK_AUDIO_PARAMS_INIT;
    params.max_seconds = 1;
    lk_audio *audio = NULL;
    lk_error err = {0};
    const lk_status status = lk_audio_decode_wav(copy, size, &params, &c.base, &audio, &err);
    if (status == LK_OK) {
        check_clip(audio);
    } else {
        fuzz_check(audio == NULL && err.status == status && err.message[0] != '\0');
        fuzz_check(status == LK_E_FORMAT || status == LK_E_UNSUPPORTED ||
                   status == LK_E_NONFINITE || status == LK_E_LIMIT);
        fuzz_check(err.offset <= size || strstr(err.message, "after resampling") != NULL);
    }
    lk_audio_destroy(audio);
    free(copy);
    fuzz_check(c.live == 0);
    fuzz_check(c.peak <= 100 * size + ((size_t)10 << 20));
    return 0;
}
