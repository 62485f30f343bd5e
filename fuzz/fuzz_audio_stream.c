/* fuzz_audio_stream.c - the walks over Ogg pages, MP3 frames and FLAC blocks on any bytes.
 * Invariants: whole, or a status with a message and an offset within the file. The input is copied
 * to its exact size, so that a sanitizer sees any byte read beyond. */
#include "fuzz.h"

#include <string.h>

#include "recording/audio_stream.h"

static void check(lk_status status, const lk_error *err, size_t size) {
    fuzz_check(status == LK_OK || status == LK_E_FORMAT || status == LK_E_UNSUPPORTED);
    fuzz_check(status == LK_OK || (err->status == status && err->message[0] != '\0'));
    fuzz_check(status == LK_OK || err->offset <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size != 0 ? size : 1);
    fuzz_check(copy != NULL);
    memcpy(copy, data, size);
    lk_error err = {0};
    check(lk_ogg_check(copy, size, &err), &err, size);
    check(lk_mp3_check(copy, size, &err), &err, size);
    uint64_t n_samples = 0;
    check(lk_flac_check(copy, size, &n_samples, &err), &err, size);
    free(copy);
    return 0;
}
