/* wav.c - see wav.h. A file is a RIFF chunk of form WAVE: chunks of a four-byte name, a length and
 * that many bytes, and a byte of padding when the length is odd. Nothing is guessed: a length that
 * the bytes do not bear out is an error at its offset, since a clip that is cut without a word is a
 * wrong answer later. */
#include "audio/wav.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_ALAW = 6, TAG_MULAW = 7, TAG_EXTENSIBLE = 0xfffe };

/* What else is met in practice: containers by their first bytes, codings by their tag. */
typedef struct container {
    const char *mark;
    size_t n;
    size_t at;
    const char *name;
} container;
static const container containers[] = {
    {"fLaC", 4, 0, "FLAC"},
    {"OggS", 4, 0, "Ogg"},
    {"ID3", 3, 0, "MP3"},
    {"\xff\xfb", 2, 0, "MP3"},
    {"\xff\xf3", 2, 0, "MP3"},
    {"\xff\xf2", 2, 0, "MP3"},
    {"\x1a\x45\xdf\xa3", 4, 0, "WebM or Matroska"},
    {"ftyp", 4, 4, "MP4"},
    {"FORM", 4, 0, "AIFF"},
    {"RF64", 4, 0, "RF64"},
    {"BW64", 4, 0, "BW64"},
    {"RIFX", 4, 0, "RIFX (big-endian WAV)"},
};

typedef struct coding_name {
    uint32_t tag;
    const char *name;
} coding_name;
static const coding_name coding_names[] = {
    {0x0002, "Microsoft ADPCM"},
    {0x0011, "IMA ADPCM"},
    {0x0031, "GSM 6.10"},
    {0x0050, "MPEG"},
    {0x0055, "MP3"},
    {0x00ff, "AAC"},
    {0x0161, "WMA"},
    {0xf1ac, "FLAC"},
};

static lk_status no_wav(const uint8_t *bytes, size_t n_bytes, lk_error *err) {
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        const container *c = &containers[i];
        if (n_bytes >= c->at + c->n && memcmp(bytes + c->at, c->mark, c->n) == 0) {
            return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_OFFSET(0, "container"),
                           "the container is %s, no WAV file", c->name);
        }
    }
    return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(0, "container"),
                   "no WAV file: it does not begin with RIFF, a length and WAVE");
}

/* The name of a chunk for a message: what is no letter becomes a question mark. */
static const char *chunk_name(const uint8_t *bytes, char name[5]) {
    for (int i = 0; i < 4; i++) {
        name[i] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '?';
    }
    name[4] = '\0';
    return name;
}

static lk_status unsupported_coding(uint32_t tag, uint32_t bits, uint64_t offset, lk_error *err) {
    const char *name = tag == TAG_PCM     ? "PCM"
                       : tag == TAG_FLOAT ? "float"
                       : tag == TAG_ALAW  ? "A-law"
                       : tag == TAG_MULAW ? "mu-law"
                                          : "unknown";
    for (size_t i = 0; i < sizeof coding_names / sizeof coding_names[0]; i++) {
        name = coding_names[i].tag == tag ? coding_names[i].name : name;
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_OFFSET(offset, "coding"),
                   "byte %" PRIu64 ": coding 0x%04" PRIx32 " (%s) with %" PRIu32
                   " bits a sample; read are PCM of 8, 16, 24, 32, float of 32, 64, A-law and "
                   "mu-law of 8",
                   offset, tag, name, bits);
}

static bool coding_of(uint32_t tag, uint32_t bits, lk_wav_coding *coding) {
    switch (tag) {
    case TAG_PCM:
        *coding = LK_WAV_PCM;
        return bits == 8 || bits == 16 || bits == 24 || bits == 32;
    case TAG_FLOAT:
        *coding = LK_WAV_FLOAT;
        return bits == 32 || bits == 64;
    case TAG_ALAW:
        *coding = LK_WAV_ALAW;
        return bits == 8;
    case TAG_MULAW:
        *coding = LK_WAV_MULAW;
        return bits == 8;
    default:
        return false;
    }
}

/* The chunk "fmt ", n bytes at `offset`. */
static lk_status read_format(lk_wav *wav, uint64_t offset, uint32_t n, lk_error *err) {
    static const uint8_t guid_tail[14] = {0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80,
                                          0x00, 0x00, 0xaa, 0x00, 0x38, 0x9b, 0x71};
    if (wav->fmt_offset != 0) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(offset - 8, "fmt"),
                       "byte %" PRIu64 ": a second chunk \"fmt \"", offset - 8);
    }
    if (n < 16) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(offset - 4, "fmt"),
                       "byte %" PRIu64 ": the chunk \"fmt \" has %" PRIu32
                       " bytes; expected 16 at least",
                       offset - 4, n);
    }
    const uint8_t *f = wav->bytes + offset;
    uint32_t tag = lk_load_u16(f);
    const uint32_t bits = lk_load_u16(f + 14);
    uint64_t tag_offset = offset;
    if (tag == TAG_EXTENSIBLE) {
        if (n < 40 || lk_load_u16(f + 16) < 22) {
            return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(offset - 4, "fmt"),
                           "byte %" PRIu64 ": an extensible format has %" PRIu32
                           " bytes; expected 40 at least, 22 of them an extension",
                           offset - 4, n);
        }
        const uint32_t valid_bits = lk_load_u16(f + 18);
        if (valid_bits > bits) {
            return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(offset + 18, "fmt"),
                           "byte %" PRIu64 ": %" PRIu32 " valid bits in samples of %" PRIu32,
                           offset + 18, valid_bits, bits);
        }
        tag_offset = offset + 24;
        if (memcmp(f + 26, guid_tail, sizeof guid_tail) != 0) {
            return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_OFFSET(tag_offset, "coding"),
                           "byte %" PRIu64 ": a coding that is none of the registered tags",
                           tag_offset);
        }
        tag = lk_load_u16(f + 24);
    }
    if (!coding_of(tag, bits, &wav->coding)) {
        return unsupported_coding(tag, bits, tag_offset, err);
    }
    wav->fmt_offset = offset;
    wav->n_channels = lk_load_u16(f + 2);
    wav->rate = lk_load_u32(f + 4);
    wav->n_sample_bytes = bits / 8;
    const uint32_t block = lk_load_u16(f + 12);
    if (block != wav->n_channels * wav->n_sample_bytes) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(offset + 12, "fmt"),
                       "byte %" PRIu64 ": %" PRIu32 " bytes for %" PRIu32 " channels of %" PRIu32
                       " bits",
                       offset + 12, block, wav->n_channels, bits);
    }
    return LK_OK;
}

/* The end of the RIFF chunk, which has to be that of the file; a last byte of padding may be
 * missing, or be there uncounted. */
static lk_status check_riff(const uint8_t *bytes, size_t n_bytes, uint64_t *end, lk_error *err) {
    if (n_bytes < 12 || memcmp(bytes, "RIFF", 4) != 0 || memcmp(bytes + 8, "WAVE", 4) != 0) {
        return no_wav(bytes, n_bytes, err);
    }
    const uint64_t said = (uint64_t)lk_load_u32(bytes + 4) + 8;
    if (said > (uint64_t)n_bytes + 1 || said + 1 < n_bytes) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(4, "RIFF"),
                       "byte 4: the header says %" PRIu64 " bytes; the file has %zu", said,
                       n_bytes);
    }
    *end = said < n_bytes ? said : n_bytes;
    return LK_OK;
}

/* Walks the chunks. data_offset is that of the chunk "data", n_data its length. */
static lk_status read_chunks(lk_wav *wav, uint64_t end, uint64_t *n_data, lk_error *err) {
    uint64_t at = 12;
    while (end - at >= 8) {
        const uint8_t *chunk = wav->bytes + at;
        const uint32_t n = lk_load_u32(chunk + 4);
        char name[5];
        if (n > end - at - 8) {
            return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(at + 4, "length"),
                           "byte %" PRIu64 ": the chunk \"%s\" says %" PRIu32
                           " bytes; the file has %" PRIu64 " more",
                           at + 4, chunk_name(chunk, name), n, end - at - 8);
        }
        if (memcmp(chunk, "fmt ", 4) == 0) {
            const lk_status status = read_format(wav, at + 8, n, err);
            if (status != LK_OK) {
                return status;
            }
        } else if (memcmp(chunk, "data", 4) == 0) {
            if (wav->data_offset != 0) {
                return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(at, "data"),
                               "byte %" PRIu64 ": a second chunk \"data\"", at);
            }
            wav->data_offset = at + 8;
            *n_data = n;
        }
        at += 8 + (uint64_t)n + (n & 1u);
        if (at >= end) {
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(at, "chunk"),
                   "byte %" PRIu64 ": a chunk's name and length take 8 bytes; %" PRIu64 " are left",
                   at, end - at);
}

lk_status lk_wav_read(const void *bytes, size_t n_bytes, lk_wav *wav, lk_error *err) {
    *wav = (lk_wav){.bytes = bytes, .n_bytes = n_bytes};
    uint64_t end = 0;
    uint64_t n_data = 0;
    lk_status status = check_riff(bytes, n_bytes, &end, err);
    if (status == LK_OK && end > 12) {
        status = read_chunks(wav, end, &n_data, err);
    }
    if (status != LK_OK) {
        return status;
    }
    if (wav->fmt_offset == 0 || wav->data_offset == 0) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(end, "chunk"),
                       "byte %" PRIu64 ": the file ends without a chunk \"%s\"", end,
                       wav->fmt_offset == 0 ? "fmt " : "data");
    }
    const uint64_t block = (uint64_t)wav->n_channels * wav->n_sample_bytes;
    if (block == 0) {
        return LK_OK; /* no channels: the caller's check says so */
    }
    if (n_data == 0 || n_data % block != 0) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(wav->data_offset - 4, "data"),
                       "byte %" PRIu64 ": %" PRIu64 " bytes of samples; expected a multiple of "
                       "%" PRIu64 ", and one at least",
                       wav->data_offset - 4, n_data, block);
    }
    wav->n_samples = n_data / block;
    return LK_OK;
}

/* ITU-T G.711. Both laws: a sign, three bits of exponent, four of mantissa. */
static double mulaw(uint8_t code) {
    const uint32_t c = (uint8_t)~code;
    const int32_t magnitude = (int32_t)((((c & 0x0fu) << 3) + 0x84u) << ((c >> 4) & 7u)) - 0x84;
    return (double)((c & 0x80u) != 0 ? -magnitude : magnitude) * 0x1p-15;
}

static double alaw(uint8_t code) {
    const uint32_t c = code ^ 0x55u;
    const uint32_t exponent = (c >> 4) & 7u;
    const uint32_t mantissa = ((c & 0x0fu) << 4) + 8u;
    const int32_t magnitude =
        (int32_t)(exponent == 0 ? mantissa : (mantissa + 0x100u) << (exponent - 1));
    return (double)((c & 0x80u) != 0 ? magnitude : -magnitude) * 0x1p-15;
}

static double sample_at(const lk_wav *wav, const uint8_t *p) {
    if (wav->coding == LK_WAV_MULAW) {
        return mulaw(*p);
    }
    if (wav->coding == LK_WAV_ALAW) {
        return alaw(*p);
    }
    if (wav->coding == LK_WAV_FLOAT) {
        return wav->n_sample_bytes == 8 ? lk_f64_from_bits(lk_load_u64(p))
                                        : (double)lk_f32_from_bits(lk_load_u32(p));
    }
    switch (wav->n_sample_bytes) {
    case 1:
        return (double)(*p - 128) * 0x1p-7;
    case 2:
        return (double)(int16_t)lk_load_u16(p) * 0x1p-15;
    case 3: {
        const uint32_t u = ((uint32_t)p[0] << 8) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 24);
        return (double)(int32_t)u * 0x1p-31;
    }
    default:
        return (double)(int32_t)lk_load_u32(p) * 0x1p-31;
    }
}

lk_status lk_wav_samples(const lk_wav *wav, float *mono, lk_error *err) {
    const uint8_t *p = wav->bytes + wav->data_offset;
    for (uint64_t i = 0; i < wav->n_samples; i++) {
        double sum = 0.0;
        for (uint32_t c = 0; c < wav->n_channels; c++) {
            sum = sum + sample_at(wav, p + c * wav->n_sample_bytes);
        }
        mono[i] = (float)(sum / (double)wav->n_channels);
        if (!isfinite(mono[i])) {
            const uint64_t offset = (uint64_t)(p - wav->bytes);
            return lk_fail(err, LK_E_NONFINITE, LK_AT_OFFSET(offset, "data"),
                           "byte %" PRIu64 ": sample %" PRIu64
                           " is infinite, NaN or beyond binary32",
                           offset, i);
        }
        p += (size_t)wav->n_channels * wav->n_sample_bytes;
    }
    return LK_OK;
}
