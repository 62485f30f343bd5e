/* audio_wav_only.c - the build without libsndfile: everything but WAV is refused. */
#include "audio_file.h"
#include "audio_stream.h"

const char *lk_audio_formats(void) {
    return "WAV";
}

lk_status lk_audio_decode_kind(lk_audio_kind kind, const void *bytes, size_t n_bytes,
                               const lk_audio_params *params, lk_audio **out, lk_error *err) {
    static const char *const names[] = {"another format", "FLAC", "Ogg", "MP3"};
    (void)bytes;
    (void)n_bytes;
    (void)params;
    *out = NULL;
    return lk_audio_fail(err, LK_E_UNSUPPORTED, 0,
                         "the recording is %s; this build reads WAV alone (it was made without "
                         "libsndfile)",
                         names[kind]);
}
