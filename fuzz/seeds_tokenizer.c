/* seeds_tokenizer.c - writes the first seeds of fuzz_tokenizer into the folder given: small
 * vocabularies of both kinds with texts that reach every splitter, and small files. */
#include <stdio.h>

#include "gguf_bytes.h"

static const char *folder;

/* Writes the bytes to <folder>/<name> and empties them. */
static void save(bytes *b, const char *name) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(b->data, 1, b->size, file) != b->size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    bytes_free(b);
}

static const char text[] =
    "Once  upon a time coil fox cocoon ruff's <s>x</s> I'LL 12345\n\n  \xC3\x89l\xC3\xA9ve "
    "e\xCC\x81\xCC\xB4 \xE4\xB8\xAD\xE3\x83\xBB"
    "\xE3\x81\x82 ABCdef \xE2\x96\x81\xE2\x96\x81 "
    "\xF0\x9F\x98\x80\r\n!?/\t\xFF\xE2\x82 \xED\xA0\x80 aaaaaaaaaaaa";

static void put_token(bytes *b, uint8_t type, uint8_t score, const char *token) {
    put_uint(b, type, 1);
    put_uint(b, score, 1);
    put_uint(b, strlen(token), 1);
    put_bytes(b, token, strlen(token));
}

/* The short form: tokens, merges of some of the bytes, the text `n` times. */
static void put_vocabulary(bytes *b, uint8_t form, uint8_t flags, size_t n) {
    put_uint(b, form, 1);
    put_uint(b, flags, 1);
    put_uint(b, 12, 1);
    put_uint(b, form & 1 ? 0 : 20, 1);
    put_token(b, 2, 0, "<unk>");
    put_token(b, 3, 0, "<s>");
    put_token(b, 3, 0, "</s>");
    put_token(b, 4, 0, "time");
    put_token(b, 1, 9, "a");
    put_token(b, 1, 1, "aa");
    put_token(b, 1, 2, "aaaa");
    put_token(b, 1, 8, "\xE2\x96\x81");
    put_token(b, 1, 3,
              "\xE2\x96\x81"
              "a");
    put_token(b, 5, 4, "on");
    put_token(b, 1, 7, "o");
    put_token(b, 1, 7, "n");
    for (unsigned i = 0; i < (form & 1 ? 0u : 20u); i++) {
        put_uint(b, 32 + i % 9, 1); /* every third letter: c, f, i, l, o, ... */
        put_uint(b, 32 + (i / 2 + 5) % 9, 1);
    }
    for (size_t i = 0; i < n; i++) {
        put_bytes(b, text, sizeof text - 1);
    }
}

static void put_file(bytes *b, const char *kind, uint64_t n_merges) {
    static const char *const tokens[] = {"<unk>", "<s>", "</s>",         "a",
                                         "b",     "ab",  "\xE2\x96\x81", "\xC4\xA0"};
    put_header(b, 3, 0, 9);
    put_text(b, "tokenizer.ggml.model", kind);
    put_text(b, "tokenizer.ggml.pre", "qwen2");
    put_array(b, "tokenizer.ggml.tokens", 8, 8);
    for (size_t i = 0; i < 8; i++) {
        put_string(b, tokens[i]);
    }
    put_array(b, "tokenizer.ggml.scores", 6, 8);
    for (uint32_t i = 0; i < 8; i++) {
        put_u32(b, 0xC0000000u + i);
    }
    put_array(b, "tokenizer.ggml.token_type", 5, 8);
    for (uint32_t i = 0; i < 8; i++) {
        put_u32(b, i == 0 ? 2 : i < 3 ? 3 : 1);
    }
    put_array(b, "tokenizer.ggml.merges", 8, n_merges);
    for (uint64_t i = 0; i < n_merges; i++) {
        put_string(b, "a b");
    }
    put_scalar(b, "tokenizer.ggml.bos_token_id", 4, 1, 4);
    put_scalar(b, "tokenizer.ggml.unknown_token_id", 4, 0, 4);
    put_scalar(b, "tokenizer.ggml.add_bos_token", 7, 1, 1);
}

int main(int argc, char **argv) {
    bytes b = {0};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: seeds_tokenizer FOLDER\n");
        return 2;
    }
    folder = argv[1];
    for (unsigned pre = 0; pre < 8; pre++) {
        char name[32];
        (void)snprintf(name, sizeof name, "bytes_%u", pre);
        put_vocabulary(&b, (uint8_t)(2 | 8 | pre << 5), (uint8_t)(pre % 3), 1);
        save(&b, name);
    }
    put_vocabulary(&b, 2, 2, 30); /* long enough for the cache of words */
    save(&b, "bytes_long");
    put_vocabulary(&b, 4, 0, 1);
    save(&b, "few_bytes");
    put_vocabulary(&b, 1 | 4 | 8 | 16, 1 | 64, 1);
    save(&b, "spm_unknown");
    put_vocabulary(&b, 1 | 2, 2 | 128, 1);
    save(&b, "spm_bytes");
    put_vocabulary(&b, 1 | 4, 4, 30);
    save(&b, "spm_long");
    put_file(&b, "gpt2", 2);
    save(&b, "file_gpt2");
    put_file(&b, "llama", 0);
    save(&b, "file_llama");
    return 0;
}
