/* audio_stream.c - see audio_stream.h. No sample is decoded here. */
#include "audio_stream.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lk_status lk_audio_fail(lk_error *err, lk_status status, uint64_t offset, const char *format, ...) {
    if (err != NULL) {
        *err = (lk_error){.status = status, .seq = -1, .pos = -1, .offset = offset};
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

static uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)p[0] | ((uint32_t)p[1] << 8) | ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);
}

/* Ogg's checksum over a page: polynomial 0x04c11db7, from the highest bit, with the field of the
 * checksum itself (bytes 22 .. 25) taken as zero. */
static uint32_t page_checksum(const uint8_t *page, size_t n) {
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        crc ^= (uint32_t)(i >= 22 && i < 26 ? 0 : page[i]) << 24;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc << 1) ^ ((crc & 0x80000000u) != 0 ? 0x04c11db7u : 0u);
        }
    }
    return crc;
}

lk_status lk_ogg_check(const uint8_t *bytes, size_t n_bytes, lk_error *err) {
    enum { HEADER = 27, LAST = 4 };
    uint32_t serial = 0;
    bool is_last = false;
    size_t at = 0;
    for (uint32_t i_page = 0; at < n_bytes; i_page++) {
        const uint8_t *page = bytes + at;
        const size_t left = n_bytes - at;
        if (left < HEADER || memcmp(page, "OggS\0", 5) != 0 ||
            left - HEADER < (size_t)page[HEADER - 1]) {
            return lk_audio_fail(err, LK_E_FORMAT, at,
                                 "byte %zu: page %" PRIu32 " of the Ogg file does not begin here, "
                                 "or is cut off",
                                 at, i_page);
        }
        size_t n = HEADER + (size_t)page[HEADER - 1];
        for (size_t i = HEADER; i < HEADER + (size_t)page[HEADER - 1]; i++) {
            n += page[i];
        }
        if (n > left) {
            return lk_audio_fail(err, LK_E_FORMAT, at,
                                 "byte %zu: page %" PRIu32 " of the Ogg file takes %zu bytes; the "
                                 "file has %zu more",
                                 at, i_page, n, left);
        }
        if (page_checksum(page, n) != load_u32(page + 22)) {
            return lk_audio_fail(
                err, LK_E_FORMAT, at,
                "byte %zu: the checksum of page %" PRIu32 " of the Ogg file is wrong", at, i_page);
        }
        serial = i_page == 0 ? load_u32(page + 14) : serial;
        if (is_last || load_u32(page + 14) != serial) {
            return lk_audio_fail(err, LK_E_UNSUPPORTED, at,
                                 "byte %zu: a second stream in the Ogg file; expected one", at);
        }
        if (load_u32(page + 18) != i_page) {
            return lk_audio_fail(err, LK_E_FORMAT, at,
                                 "byte %zu: page %" PRIu32 " of the Ogg file where page %" PRIu32
                                 " should be",
                                 at, load_u32(page + 18), i_page);
        }
        is_last = (page[5] & LAST) != 0;
        at += n;
    }
    return is_last ? LK_OK
                   : lk_audio_fail(err, LK_E_FORMAT, n_bytes,
                                   "byte %zu: the Ogg file ends before its last page", n_bytes);
}

/* The bytes of the frame with this header of MPEG layer III, or 0. */
static size_t mp3_frame_bytes(const uint8_t *h) {
    static const uint16_t kbits[2][15] = {
        {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
        {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};
    static const uint32_t rates[3] = {44100, 48000, 32000};
    const uint32_t version = (h[1] >> 3) & 3u; /* 0: 2.5, 2: 2, 3: 1 */
    const uint32_t i_kbits = h[2] >> 4;
    const uint32_t i_rate = (h[2] >> 2) & 3u;
    if (h[0] != 0xff || (h[1] & 0xe0u) != 0xe0u || version == 1 || (h[1] & 6u) != 2u ||
        i_kbits == 0 || i_kbits == 15 || i_rate == 3) {
        return 0;
    }
    const uint32_t rate = rates[i_rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    const uint32_t bits = 1000u * kbits[version != 3][i_kbits];
    return (version == 3 ? 144u : 72u) * bits / rate + ((h[2] >> 1) & 1u);
}

/* The bytes of a tag before the first frame. */
static size_t id3_bytes(const uint8_t *p, size_t left) {
    if (left < 10 || memcmp(p, "ID3", 3) != 0) {
        return 0;
    }
    const size_t n = ((size_t)(p[6] & 0x7f) << 21) | ((size_t)(p[7] & 0x7f) << 14) |
                     ((size_t)(p[8] & 0x7f) << 7) | (size_t)(p[9] & 0x7f);
    return 10 + n + ((p[5] & 0x10) != 0 ? 10 : 0);
}

/* Whether what is left is a tag at the end, or padding. */
static bool is_mp3_tail(const uint8_t *p, size_t left) {
    if ((left == 128 && memcmp(p, "TAG", 3) == 0) || (left >= 8 && memcmp(p, "APETAGEX", 8) == 0)) {
        return true;
    }
    for (size_t i = 0; i < left; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

lk_status lk_mp3_check(const uint8_t *bytes, size_t n_bytes, lk_error *err) {
    size_t at = 0;
    for (size_t n = id3_bytes(bytes, n_bytes); n != 0; n = id3_bytes(bytes + at, n_bytes - at)) {
        if (n > n_bytes - at) {
            return lk_audio_fail(err, LK_E_FORMAT, at,
                                 "byte %zu: the tag takes %zu bytes; the file has %zu more", at, n,
                                 n_bytes - at);
        }
        at += n;
    }
    uint64_t i_frame = 0;
    for (; n_bytes - at >= 4; i_frame++) {
        const size_t n = mp3_frame_bytes(bytes + at);
        if (n == 0) {
            break;
        }
        if (n > n_bytes - at) {
            return lk_audio_fail(err, LK_E_FORMAT, at,
                                 "byte %zu: frame %" PRIu64 " of the MP3 file takes %zu bytes; the "
                                 "file has %zu more",
                                 at, i_frame, n, n_bytes - at);
        }
        at += n;
    }
    if (i_frame == 0 || !is_mp3_tail(bytes + at, n_bytes - at)) {
        return lk_audio_fail(err, LK_E_FORMAT, at,
                             "byte %zu: frame %" PRIu64
                             " of the MP3 file does not begin here (MPEG layer III, a bit rate of "
                             "the table)",
                             at, i_frame);
    }
    return LK_OK;
}

static uint32_t load_big(const uint8_t *p, size_t n) {
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++) {
        value = value << 8 | p[i];
    }
    return value;
}

/* The rate that the header of a frame says; 0: that of the file, or none that is known. left is 16
 * at least. */
static uint32_t flac_frame_rate(const uint8_t *p) {
    static const uint32_t rates[12] = {0,     88200, 176400, 192000, 8000,  16000,
                                       22050, 24000, 32000,  44100,  48000, 96000};
    const uint32_t code = p[2] & 0x0fu;
    const uint32_t block = p[2] >> 4;
    if (code < 12) {
        return rates[code];
    }
    size_t at = 4; /* a number as in UTF-8, and perhaps the length of the frame, come before */
    for (uint32_t mask = 0x80; (p[4] & mask) != 0 && mask > 1; mask >>= 1) {
        at++;
    }
    at = at == 4 ? 5 : at;
    at += block == 6 ? 1 : block == 7 ? 2 : 0;
    return code == 12 ? 1000u * p[at] : load_big(p + at, 2) * (code == 14 ? 10u : 1u);
}

lk_status lk_flac_check(const uint8_t *bytes, size_t n_bytes, uint64_t *n_samples, lk_error *err) {
    enum { INFO = 34 };
    size_t at = 4;
    bool is_last = false;
    *n_samples = 0;
    if (n_bytes < 8 + INFO) {
        return lk_audio_fail(err, LK_E_FORMAT, n_bytes,
                             "byte %zu: the FLAC file ends before its first frame", n_bytes);
    }
    if ((bytes[4] & 0x7f) != 0 || load_big(bytes + 5, 3) != INFO) {
        return lk_audio_fail(err, LK_E_FORMAT, 4,
                             "byte 4: the FLAC file does not begin with %d bytes about the stream",
                             INFO);
    }
    while (!is_last) {
        if (n_bytes - at < 4 || n_bytes - at - 4 < load_big(bytes + at + 1, 3)) {
            return lk_audio_fail(err, LK_E_FORMAT, at,
                                 "byte %zu: a block of the FLAC file is cut off", at);
        }
        is_last = (bytes[at] & 0x80) != 0;
        at += 4 + load_big(bytes + at + 1, 3);
    }
    const uint32_t rate = load_big(bytes + 18, 3) >> 4;
    *n_samples = (uint64_t)(bytes[LK_FLAC_TOTAL_AT] & 0x0f) << 32 | load_big(bytes + 22, 4);
    if (n_bytes - at < 16 || bytes[at] != 0xff || (bytes[at + 1] & 0xfe) != 0xf8) {
        return lk_audio_fail(err, LK_E_FORMAT, at,
                             "byte %zu: the first frame of the FLAC file does not begin here, or "
                             "is cut off",
                             at);
    }
    const uint32_t frame_rate = flac_frame_rate(bytes + at);
    if (frame_rate != 0 && frame_rate != rate) {
        return lk_audio_fail(err, LK_E_FORMAT, 18,
                             "byte 18: a rate of %" PRIu32 " Hz; the first frame has %" PRIu32,
                             rate, frame_rate);
    }
    return LK_OK;
}
