/* audio_file.h - a clip from a recording: WAV by the library; FLAC, Ogg Vorbis, Ogg Opus and MP3 by
 * libsndfile, where the tool was built with it. Damaged and cut-off files are errors with the byte;
 * other containers (WebM, MP4, ...) are refused by name. */
#ifndef LK_AUDIO_FILE_H
#define LK_AUDIO_FILE_H

#include "lk/audio.h"

/* From bytes; statuses as of lk_audio_decode_wav. On success *out is owned by the caller
 * (lk_audio_destroy). params NULL: LK_AUDIO_PARAMS_INIT. */
lk_status lk_audio_from_bytes(const void *bytes, size_t n_bytes, const lk_audio_params *params,
                              lk_audio **out, lk_error *err);

/* From a file; LK_E_IO where it cannot be read. The error's message begins with the path. */
lk_status lk_audio_from_file(const char *path, const lk_audio_params *params, lk_audio **out,
                             lk_error *err);

/* The formats that this build reads, for messages and --help: "WAV" or "WAV, FLAC, ...". */
const char *lk_audio_formats(void);

#endif
