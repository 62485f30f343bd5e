/* wav_bytes.h - builds WAV files in memory, right or deliberately wrong; independent of the reader.
 * Invariant: what is appended is exactly what the call says; a full file ends the program. */
#ifndef LK_TEST_WAV_BYTES_H
#define LK_TEST_WAV_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A file under construction. */
typedef struct wav_file {
    uint8_t bytes[4096];
    size_t n;
} wav_file;

static inline void wav_put(wav_file *f, const void *data, size_t n) {
    if (n > sizeof f->bytes - f->n) {
        exit(1);
    }
    memcpy(f->bytes + f->n, data, n);
    f->n += n;
}

static inline void wav_put_number(wav_file *f, uint64_t value, int n) {
    for (int i = 0; i < n; i++) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));
        wav_put(f, &byte, 1);
    }
}

static inline void wav_set_u32(wav_file *f, size_t at, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        f->bytes[at + (size_t)i] = (uint8_t)(value >> (8 * i));
    }
}

static inline void wav_begin(wav_file *f) {
    f->n = 0;
    wav_put(f, "RIFF\0\0\0\0WAVE", 12);
}

static inline void wav_put_format(wav_file *f, uint32_t tag, uint32_t channels, uint32_t rate,
                                  uint32_t bits) {
    wav_put(f, "fmt \x10\0\0\0", 8);
    wav_put_number(f, tag, 2);
    wav_put_number(f, channels, 2);
    wav_put_number(f, rate, 4);
    wav_put_number(f, (uint64_t)rate * channels * bits / 8, 4);
    wav_put_number(f, channels * bits / 8, 2);
    wav_put_number(f, bits, 2);
}

/* A chunk with its padding. */
static inline void wav_put_chunk(wav_file *f, const char *name, const void *data, size_t n) {
    wav_put(f, name, 4);
    wav_put_number(f, n, 4);
    wav_put(f, data, n);
    wav_put(f, "", n & 1u);
}

static inline void wav_end(wav_file *f) {
    wav_set_u32(f, 4, (uint32_t)f->n - 8);
}

static inline void wav_simple(wav_file *f, uint32_t tag, uint32_t channels, uint32_t rate,
                              uint32_t bits, const void *data, size_t n) {
    wav_begin(f);
    wav_put_format(f, tag, channels, rate, bits);
    wav_put_chunk(f, "data", data, n);
    wav_end(f);
}

static inline void wav_put_extensible(wav_file *f, uint32_t bits, uint32_t valid_bits,
                                      uint32_t tag) {
    wav_put(f, "fmt \x28\0\0\0\xfe\xff\x01\0", 12);
    wav_put_number(f, 16000, 4);
    wav_put_number(f, 16000 * bits / 8, 4);
    wav_put_number(f, bits / 8, 2);
    wav_put_number(f, bits, 2);
    wav_put_number(f, 22, 2);
    wav_put_number(f, valid_bits, 2);
    wav_put_number(f, 4, 4);
    wav_put_number(f, tag, 4);
    wav_put(f, "\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 12);
}

#endif
