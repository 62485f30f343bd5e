/* seeds_gguf.c - writes the first seeds of fuzz_gguf into the folder given: small right files of
 * both versions, split models, and files with one thing wrong each. */
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

static void put_metadata(bytes *b) {
    put_scalar(b, "u8", 0, 1, 1);
    put_scalar(b, "i8", 1, 255, 1);
    put_scalar(b, "u16", 2, 2, 2);
    put_scalar(b, "i16", 3, 3, 2);
    put_scalar(b, "u32", 4, 4, 4);
    put_scalar(b, "i32", 5, 5, 4);
    put_scalar(b, "f32", 6, 0x3f800000u, 4);
    put_scalar(b, "bool", 7, 1, 1);
    put_text(b, "string", "text");
    put_array(b, "words", 8, 3);
    put_string(b, "a");
    put_string(b, "");
    put_string(b, "ccc");
    put_array(b, "bools", 7, 2);
    put_uint(b, 0x100, 2);
    put_array(b, "floats", 6, 2);
    put_u64(b, 0);
    put_scalar(b, "u64", 10, 6, 8);
    put_scalar(b, "i64", 11, 7, 8);
    put_scalar(b, "f64", 12, 8, 8);
    put_scalar(b, "general.alignment", 4, 32, 4);
}

static void put_all(bytes *b, uint32_t version) {
    put_header(b, version, 4, 16);
    put_metadata(b);
    put_tensor(b, "f32", 1, (const uint64_t[]){4}, 0, 0);
    put_tensor(b, "q4_k", 2, (const uint64_t[]){256, 1}, 12, 32);
    put_tensor(b, "q8_0", 3, (const uint64_t[]){32, 1, 1}, 8, 192);
    put_tensor(b, "i8", 4, (const uint64_t[]){2, 2, 2, 2}, 24, 256);
    put_padding(b, 32);
    put_fill(b, 1, 272);
}

static void put_split_file(bytes *b, uint32_t number, uint32_t n_tensors) {
    put_header(b, 3, 1, 3);
    put_scalar(b, "split.no", 2, number, 2);
    put_scalar(b, "split.count", 2, 2, 2);
    put_scalar(b, "split.tensors.count", 5, n_tensors, 4);
    put_tensor(b, number == 0 ? "a" : "b", 1, (const uint64_t[]){1}, 0, 0);
    put_padding(b, 32);
    put_fill(b, 2, 4);
}

static void put_split(bytes *b, uint32_t n_tensors) {
    bytes first = {0};
    put_split_file(&first, 0, n_tensors);
    put_bytes(b, "SPLT", 4);
    put_u32(b, first.size);
    put_bytes(b, first.data, first.size);
    put_split_file(b, 1, n_tensors);
    bytes_free(&first);
}

static void write_right_files(void) {
    bytes b = {0};
    put_header(&b, 3, 0, 0);
    save(&b, "empty");
    put_all(&b, 2);
    save(&b, "all_v2");
    put_all(&b, 3);
    save(&b, "all_v3");
    put_split(&b, 2);
    save(&b, "split");
    put_header(&b, 3, 1, 1);
    put_scalar(&b, "general.alignment", 4, 8, 4);
    put_tensor(&b, "t", 1, (const uint64_t[]){3}, 24, 8);
    put_padding(&b, 8);
    put_fill(&b, 3, 11);
    save(&b, "alignment_8");
}

static void write_wrong_files(void) {
    bytes b = {0};
    put_all(&b, 3);
    b.size -= 1;
    save(&b, "cut_data");
    put_all(&b, 3);
    b.size = 200;
    save(&b, "cut_metadata");
    put_split(&b, 3);
    save(&b, "split_wrong_count");
    put_header(&b, 3, UINT64_MAX, UINT64_MAX);
    put_fill(&b, 0, 19);
    save(&b, "huge_counts");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 8, UINT64_MAX / 8);
    put_fill(&b, 0, 16);
    save(&b, "huge_array");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 9, 1);
    put_u32(&b, 4);
    put_u64(&b, 0);
    save(&b, "nested_array");
    put_header(&b, 3, 0, 2);
    put_scalar(&b, "k", 0, 1, 1);
    put_scalar(&b, "k", 0, 1, 1);
    save(&b, "duplicate_key");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "t", 1, (const uint64_t[]){9}, 0, 0);
    put_tensor(&b, "u", 1, (const uint64_t[]){1}, 0, 32);
    put_padding(&b, 32);
    put_fill(&b, 0, 64);
    save(&b, "overlap");
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "t", 4, (const uint64_t[]){1u << 31, 1u << 31, 1u << 31, 2}, 0, 0);
    put_fill(&b, 0, 64);
    save(&b, "overflow");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    write_right_files();
    write_wrong_files();
    return 0;
}
