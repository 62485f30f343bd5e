/* seeds_wav.c - writes the first seeds of fuzz_wav into the folder given: a small file of each
 * coding, and files with one thing unusual or wrong each. */
#include <stdio.h>

#include "wav_bytes.h"

static const char *folder;

static void save(const wav_file *f, const char *name) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(f->bytes, 1, f->n, file) != f->n || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static const char samples[] = "\x10\xf0\x20\x3f\x80\x01\x7f\x3e\x00\x00\x80\x3f\x12\x34\x56\xbf";

static void write_codings(void) {
    static const struct {
        const char *name;
        uint32_t tag;
        uint32_t channels;
        uint32_t rate;
        uint32_t bits;
    } codings[] = {
        {"pcm8", 1, 1, 16000, 8},        {"pcm16", 1, 2, 44100, 16},
        {"pcm24", 1, 1, 48000, 24},      {"pcm32", 1, 4, 22050, 32},
        {"float32", 3, 1, 8000, 32},     {"float64", 3, 2, 16000, 64},
        {"alaw", 6, 1, 11025, 8},        {"mulaw", 7, 8, 8000, 8},
        {"odd_rate", 1, 1, 44101, 8},    {"low_rate", 1, 1, 1000, 8},
        {"high_rate", 1, 1, 384000, 8},  {"rate_1", 1, 1, 1, 8},
        {"rate_10M", 1, 1, 10000000, 8}, {"no_channel", 1, 0, 16000, 8},
    };
    for (size_t i = 0; i < sizeof codings / sizeof codings[0]; i++) {
        wav_file f;
        const size_t n = codings[i].bits == 24 ? 15 : 16;
        wav_simple(&f, codings[i].tag, codings[i].channels, codings[i].rate, codings[i].bits,
                   samples, n);
        save(&f, codings[i].name);
    }
}

static void write_layouts(void) {
    wav_file f;
    wav_begin(&f);
    wav_put_chunk(&f, "LIST", "abc", 3);
    wav_put_chunk(&f, "data", samples, 3);
    wav_put_format(&f, 1, 1, 16000, 8);
    wav_end(&f);
    save(&f, "format_last");
    wav_begin(&f);
    wav_put_extensible(&f, 24, 20, 1);
    wav_put_chunk(&f, "data", samples, 15);
    wav_end(&f);
    save(&f, "extensible");
    f.n--;
    save(&f, "no_padding");
    f.n -= 9;
    save(&f, "cut_off");
    wav_simple(&f, 1, 1, 16000, 8, "", 0);
    save(&f, "empty");
    wav_simple(&f, 1, 1, 16000, 8, samples, 16);
    wav_set_u32(&f, 40, 0xffffffffu);
    save(&f, "huge_data");
    wav_set_u32(&f, 4, 0xffffffffu);
    save(&f, "huge_riff");
    wav_simple(&f, 3, 1, 16000, 32, "\0\0\x80\x7f\0\0\xc0\x7f", 8);
    save(&f, "not_finite");
    wav_simple(&f, 3, 1, 8000, 32, "\xff\xff\x7f\x7f\xff\xff\x7f\x7f", 8);
    save(&f, "loud");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    write_codings();
    write_layouts();
    return 0;
}
