/* audio_sndfile.c - FLAC, Ogg Vorbis, Ogg Opus and MP3 by libsndfile, from memory. The first bytes
 * have said what the file is, so that no other reader of that library sees it. */
#include <inttypes.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>

#include "audio_file.h"
#include "audio_stream.h"

const char *lk_audio_formats(void) {
    return "WAV, FLAC, Ogg Vorbis, Ogg Opus, MP3";
}

/* A file in memory, as libsndfile wants it. */
typedef struct memory_file {
    const uint8_t *bytes;
    sf_count_t n;
    sf_count_t at;
    bool hides_total; /* the number of samples in a FLAC file reads as unknown ... */
} memory_file;

static sf_count_t memory_length(void *ctx) {
    return ((const memory_file *)ctx)->n;
}

static sf_count_t memory_seek(sf_count_t offset, int whence, void *ctx) {
    memory_file *m = ctx;
    const sf_count_t base = whence == SEEK_CUR ? m->at : whence == SEEK_END ? m->n : 0;
    if (offset < -base || offset > m->n - base) {
        return -1;
    }
    m->at = base + offset;
    return m->at;
}

static sf_count_t memory_read(void *to, sf_count_t n, void *ctx) {
    memory_file *m = ctx;
    const sf_count_t left = m->n - m->at;
    n = n < left ? n : left;
    memcpy(to, m->bytes + m->at, (size_t)n);
    uint8_t *bytes = to; /* ... so that all are read, and counted */
    for (sf_count_t i = LK_FLAC_TOTAL_AT; m->hides_total && i < LK_FLAC_TOTAL_END; i++) {
        if (i >= m->at && i < m->at + n) {
            bytes[i - m->at] &= i == LK_FLAC_TOTAL_AT ? 0xf0 : 0;
        }
    }
    m->at += n;
    return n;
}

static sf_count_t memory_write(const void *from, sf_count_t n, void *ctx) {
    (void)from;
    (void)n;
    (void)ctx;
    return 0;
}

static sf_count_t memory_tell(void *ctx) {
    return ((const memory_file *)ctx)->at;
}

/* n_said: samples, where the file says so. */
static lk_status check_info(lk_audio_kind kind, const SF_INFO *info, uint64_t n_said,
                            const lk_audio_params *params, lk_error *err) {
    static const int types[] = {0, SF_FORMAT_FLAC, SF_FORMAT_OGG, SF_FORMAT_MPEG};
    if ((info->format & SF_FORMAT_TYPEMASK) != types[kind]) {
        return lk_audio_fail(err, LK_E_FORMAT, 0, "the file is not what its first bytes say");
    }
    if (info->channels < 1 || info->channels > LK_AUDIO_MAX_CHANNELS) {
        return lk_audio_fail(err, LK_E_UNSUPPORTED, 0, "%d channels; 1 to %d are read",
                             info->channels, LK_AUDIO_MAX_CHANNELS);
    }
    if (info->samplerate < LK_AUDIO_MIN_RATE || info->samplerate > LK_AUDIO_MAX_RATE) {
        return lk_audio_fail(err, LK_E_UNSUPPORTED, 0, "a rate of %d Hz; %d to %d Hz are read",
                             info->samplerate, LK_AUDIO_MIN_RATE, LK_AUDIO_MAX_RATE);
    }
    if (n_said > (uint64_t)params->max_seconds * (uint64_t)info->samplerate) {
        return lk_audio_fail(err, LK_E_LIMIT, 0, "the recording lasts %.2f s; the limit is %u s",
                             (double)n_said / info->samplerate, (unsigned)params->max_seconds);
    }
    return LK_OK;
}

/* Reads all samples; *n of each channel. The memory is the caller's to free(), also on failure. */
static lk_status read_samples(SNDFILE *file, const SF_INFO *info, const memory_file *m,
                              const lk_audio_params *params, float **samples, sf_count_t *n,
                              lk_error *err) {
    enum { BLOCK = 16384 };
    const size_t frame_bytes = (size_t)info->channels * sizeof(float);
    const sf_count_t limit = (sf_count_t)params->max_seconds * info->samplerate;
    sf_count_t capacity = 0;
    for (;;) {
        if (capacity - *n < BLOCK) {
            capacity = 2 * capacity + 2 * BLOCK;
            float *larger = realloc(*samples, (size_t)capacity * frame_bytes);
            if (larger == NULL) {
                return lk_audio_fail(err, LK_E_NOMEM, UINT64_MAX, "out of memory for the clip");
            }
            *samples = larger;
        }
        const sf_count_t got = sf_readf_float(file, *samples + *n * info->channels, BLOCK);
        if (sf_error(file) != SF_ERR_NO_ERROR) {
            return lk_audio_fail(err, LK_E_FORMAT, (uint64_t)m->at, "before byte %" PRId64 ": %s",
                                 (int64_t)m->at, sf_strerror(file));
        }
        if (got <= 0) {
            return LK_OK;
        }
        *n += got;
        if (*n > limit) {
            return lk_audio_fail(err, LK_E_LIMIT, (uint64_t)m->at,
                                 "the recording lasts more than %.2f s; the limit is %u s",
                                 (double)limit / info->samplerate, (unsigned)params->max_seconds);
        }
    }
}

lk_status lk_audio_decode_kind(lk_audio_kind kind, const void *bytes, size_t n_bytes,
                               const lk_audio_params *params, lk_audio **out, lk_error *err) {
    SF_VIRTUAL_IO io = {memory_length, memory_seek, memory_read, memory_write, memory_tell};
    memory_file m = {bytes, (sf_count_t)n_bytes, 0, kind == LK_AUDIO_FLAC};
    SF_INFO info = {0};
    uint64_t n_said = 0;
    *out = NULL;
    if (kind == LK_AUDIO_FLAC) {
        const lk_status checked = lk_flac_check(bytes, n_bytes, &n_said, err);
        if (checked != LK_OK) {
            return checked;
        }
    }
    SNDFILE *file = sf_open_virtual(&io, SFM_READ, &info, &m);
    if (file == NULL) {
        return lk_audio_fail(err, LK_E_FORMAT, (uint64_t)m.at, "before byte %" PRId64 ": %s",
                             (int64_t)m.at, sf_strerror(NULL));
    }
    float *samples = NULL;
    sf_count_t n = 0;
    lk_status status = check_info(kind, &info, n_said, params, err);
    if (status == LK_OK) {
        status = read_samples(file, &info, &m, params, &samples, &n, err);
    }
    if (status == LK_OK && n_said != 0 && (uint64_t)n != n_said) {
        status = lk_audio_fail(err, LK_E_FORMAT, (uint64_t)m.at,
                               "before byte %" PRId64 ": the FLAC file says %" PRIu64
                               " samples and gives %" PRId64,
                               (int64_t)m.at, n_said, (int64_t)n);
    } else if (status == LK_OK && n == 0) {
        status = lk_audio_fail(err, LK_E_FORMAT, n_bytes, "the recording has no sample");
    }
    if (status == LK_OK) {
        status = lk_audio_create(samples, (uint64_t)n, (uint32_t)info.channels,
                                 (uint32_t)info.samplerate, params, NULL, out, err);
    }
    free(samples);
    (void)sf_close(file);
    return status;
}
