/* audio_file.c - see audio_file.h. */
#include "audio_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audio_stream.h"

static bool begins(const void *bytes, size_t n_bytes, const char *mark, size_t n) {
    return n_bytes >= n && memcmp(bytes, mark, n) == 0;
}

static lk_audio_kind kind_of(const uint8_t *bytes, size_t n) {
    if (begins(bytes, n, "fLaC", 4)) {
        return LK_AUDIO_FLAC;
    }
    if (begins(bytes, n, "OggS", 4)) {
        return LK_AUDIO_OGG;
    }
    if (begins(bytes, n, "ID3", 3) || (n >= 2 && bytes[0] == 0xff && (bytes[1] & 0xe6) == 0xe2)) {
        return LK_AUDIO_MP3;
    }
    return LK_AUDIO_OTHER;
}

lk_status lk_audio_from_bytes(const void *bytes, size_t n_bytes, const lk_audio_params *params,
                              lk_audio **out, lk_error *err) {
    const lk_audio_params defaults = LK_AUDIO_PARAMS_INIT;
    params = params != NULL ? params : &defaults;
    *out = NULL;
    const lk_audio_kind kind = kind_of(bytes, n_bytes);
    if (kind == LK_AUDIO_OTHER) {
        lk_error inner;
        const lk_status status = lk_audio_decode_wav(bytes, n_bytes, params, NULL, out, &inner);
        if (status != LK_OK &&
            strcmp(inner.subject, "container") == 0) { /* it names what is none */
            return lk_audio_fail(err, status, 0, "%.200s; read are %s", inner.message,
                                 lk_audio_formats());
        }
        if (status != LK_OK && err != NULL) {
            *err = inner;
        }
        return status;
    }
    if (n_bytes > params->max_bytes) {
        return lk_audio_fail(err, LK_E_LIMIT, UINT64_MAX,
                             "the recording has %zu bytes; the limit is %" PRIu64, n_bytes,
                             params->max_bytes);
    }
    lk_status status = LK_OK;
    if (kind == LK_AUDIO_OGG) {
        status = lk_ogg_check(bytes, n_bytes, err);
    } else if (kind == LK_AUDIO_MP3) {
        status = lk_mp3_check(bytes, n_bytes, err);
    }
    return status == LK_OK ? lk_audio_decode_kind(kind, bytes, n_bytes, params, out, err) : status;
}

/* What is too large is refused before it is read, where its size is known; of a pipe so much and
 * one byte is read. */
static lk_status check_size(FILE *file, uint64_t limit, lk_error *err) {
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) &&
        (uint64_t)info.st_size > limit) {
        return lk_audio_fail(err, LK_E_LIMIT, UINT64_MAX,
                             "the recording has %" PRIu64 " bytes; the limit is %" PRIu64,
                             (uint64_t)info.st_size, limit);
    }
    return LK_OK;
}

/* The whole file, at most `limit` bytes and one, in memory that the caller frees. */
static lk_status read_file(const char *path, uint64_t limit, uint8_t **bytes, size_t *n,
                           lk_error *err) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return lk_audio_fail(err, LK_E_IO, UINT64_MAX, "%s", strerror(errno));
    }
    size_t capacity = 0;
    lk_status status = check_size(file, limit, err);
    *n = 0;
    for (size_t got = 1; got > 0 && *n <= limit && status == LK_OK; *n += got) {
        if (*n == capacity) {
            capacity = 2 * capacity + ((size_t)1 << 16);
            capacity = capacity <= limit ? capacity : (size_t)limit + 1;
            uint8_t *larger = realloc(*bytes, capacity);
            if (larger == NULL) {
                status = lk_audio_fail(err, LK_E_NOMEM, UINT64_MAX, "out of memory");
                break;
            }
            *bytes = larger;
        }
        got = fread(*bytes + *n, 1, capacity - *n, file);
    }
    if (status == LK_OK && ferror(file)) {
        status = lk_audio_fail(err, LK_E_IO, *n, "cannot be read: %s", strerror(errno));
    }
    (void)fclose(file);
    return status;
}

lk_status lk_audio_from_file(const char *path, const lk_audio_params *params, lk_audio **out,
                             lk_error *err) {
    const lk_audio_params defaults = LK_AUDIO_PARAMS_INIT;
    params = params != NULL ? params : &defaults;
    uint8_t *bytes = NULL;
    size_t n = 0;
    lk_error inner = {.status = LK_OK};
    *out = NULL;
    lk_status status = read_file(path, params->max_bytes, &bytes, &n, &inner);
    if (status == LK_OK) {
        status = lk_audio_from_bytes(bytes, n, params, out, &inner);
    }
    free(bytes);
    if (status != LK_OK) {
        (void)lk_audio_fail(err, status, inner.offset, "%.160s: %.200s", path, inner.message);
    }
    return status;
}
