/* test_tokenizer_refs.c - token ids and texts against the models' own tokenizers: every row of the
 * shared references where that folder is present, and always a sample of them in tests/data. Says
 * for each tokenizer how many rows agree. */
#include <jansson.h>
#include <stdbool.h>
#include <time.h>

#include "lk/tokenizer.h"
#include "lk_test.h"
#include "test_folder.h"
#include "text/unicode/normalize.h"

static double now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static const char *row_string(const json_t *row, const char *key, size_t *n) {
    const json_t *value = json_object_get(row, key);
    *n = value != NULL ? json_string_length(value) : 0;
    return value != NULL ? json_string_value(value) : NULL;
}

static int base64_digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* Decodes into `out`, which has room for 3 bytes for every 4 characters. */
static size_t base64_decode(const char *text, size_t n, char *out) {
    size_t n_out = 0;
    unsigned bits = 0, value = 0;
    for (size_t i = 0; i < n && base64_digit(text[i]) >= 0; i++) {
        value = value << 6 | (unsigned)base64_digit(text[i]);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[n_out++] = (char)(value >> bits & 0xFF);
        }
    }
    return n_out;
}

static int ids_equal(const json_t *expected, const int32_t *ids, size_t n) {
    if (json_array_size(expected) != n) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (json_integer_value(json_array_get(expected, i)) != ids[i]) {
            return 0;
        }
    }
    return 1;
}

static int encodes_to(const lk_tokenizer *t, const char *text, size_t n, uint32_t flags,
                      const json_t *expected) {
    const size_t capacity = LK_IDS_BOUND(n);
    int32_t *ids = malloc(capacity * sizeof *ids);
    size_t n_ids = 0;
    lk_error err = {0};
    const lk_status status = lk_tokenizer_encode(t, text, n, flags, ids, capacity, &n_ids, &err);
    const int equal = status == LK_OK && ids_equal(expected, ids, n_ids);
    if (status != LK_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
    } else if (!equal && getenv("LK_VERBOSE") != NULL) {
        (void)fprintf(stderr, "got:");
        for (size_t i = 0; i < n_ids; i++) {
            (void)fprintf(stderr, " %d", (int)ids[i]);
        }
        char *wanted = json_dumps(expected, JSON_COMPACT);
        (void)fprintf(stderr, "\nexpected: %s\n", wanted);
        free(wanted);
    }
    free(ids);
    return equal;
}

/* A row of strings: ids, ids_plain, ids_with_special, of the text and of its bytes where they
 * differ. */
static int check_row(const lk_tokenizer *t, const char *name, size_t i_row, const json_t *row) {
    size_t n = 0, n_base64 = 0;
    const char *text = row_string(row, "text", &n);
    const char *base64 = row_string(row, "b64", &n_base64);
    char *raw = malloc(n_base64 + 1);
    const size_t n_raw = base64 != NULL ? base64_decode(base64, n_base64, raw) : 0;
    static const struct {
        const char *key;
        uint32_t flags;
    } modes[] = {{"ids", 0},
                 {"ids_plain", LK_TOKENIZE_PLAIN},
                 {"ids_with_special", LK_TOKENIZE_PARSE_SPECIAL}};
    int agrees = 1;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const json_t *expected = json_object_get(row, modes[i].key);
        const int equal = encodes_to(t, text, n, modes[i].flags, expected) &&
                          (base64 == NULL || encodes_to(t, raw, n_raw, modes[i].flags, expected));
        CHECK_MSG(equal, "%s row %zu, %s: %.80s", name, i_row, modes[i].key, text);
        agrees = agrees && equal;
    }
    free(raw);
    return agrees;
}

static char *decode_ids(const lk_tokenizer *t, const json_t *ids, uint32_t flags, size_t *n) {
    int32_t list[4096];
    const size_t n_ids = json_array_size(ids);
    lk_error err = {0};
    for (size_t i = 0; i < n_ids && i < 4096; i++) {
        list[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    }
    size_t needed = 0;
    if (n_ids == 0 || n_ids > 4096) {
        lk_test_fail(__FILE__, __LINE__, "a row of %zu ids", n_ids);
        exit(1);
    }
    /* Room first asked for by a call without any. */
    lk_error room = {0};
    (void)lk_tokenizer_decode(t, list, n_ids, flags, NULL, 0, n, &room);
    for (needed = 64; needed < n_ids * 1024; needed *= 2) {
    }
    char *bytes = malloc(needed);
    REQUIRE_OK(lk_tokenizer_decode(t, list, n_ids, flags, bytes, needed, n, &err), err);
    return bytes;
}

/* A row of ids: their bytes. Where those are well-formed, also the text of the model's own decoder.
 */
static int check_decode_row(const lk_tokenizer *t, const char *name, size_t i, const json_t *row) {
    const json_t *ids = json_object_get(row, "ids");
    size_t n = 0, n_base64 = 0, n_text = 0, n_whole = 0;
    const char *base64 = row_string(row, "bytes_b64", &n_base64);
    const char *text = row_string(row, "text_keep_special", &n_text);
    char *expected = malloc(n_base64 + 1);
    const size_t n_expected = base64_decode(base64, n_base64, expected);
    char *bytes = decode_ids(t, ids, LK_DETOKENIZE_SPECIAL | LK_DETOKENIZE_KEEP_SPACE, &n);
    int agrees = n == n_expected && memcmp(bytes, expected, n) == 0;
    CHECK_MSG(agrees, "%s decode row %zu: bytes of %s", name, i, base64);
    char *whole = decode_ids(t, ids, LK_DETOKENIZE_SPECIAL, &n_whole);
    if (lk_utf8_is_valid((const uint8_t *)bytes, n)) {
        const int equal = n_whole == n_text && memcmp(whole, text, n_text) == 0;
        CHECK_MSG(equal, "%s decode row %zu: text %s", name, i, text);
        agrees = agrees && equal;
    }
    free(whole);
    free(bytes);
    free(expected);
    return agrees;
}

typedef struct counts {
    size_t rows, agree;
} counts;

/* Checks every line of a .jsonl file. */
typedef int (*check_fn)(const lk_tokenizer *t, const char *name, size_t i, const json_t *row);

static counts check_file(const lk_tokenizer *t, const char *name, const char *path,
                         check_fn check) {
    size_t size = 0;
    counts c = {0, 0};
    char *data = (char *)lk_test_read(path, &size);
    for (char *line = data; line < data + size;) {
        const char *end = strchr(line, '\n');
        const size_t n = end != NULL ? (size_t)(end - line) : strlen(line);
        json_error_t error;
        json_t *row = json_loadb(line, n, JSON_ALLOW_NUL, &error);
        if (row == NULL) {
            lk_test_fail(__FILE__, __LINE__, "%s: %s", path, error.text);
        } else {
            c.agree += (size_t)check(t, name, c.rows++, row);
        }
        json_decref(row);
        line += n + 1;
    }
    free(data);
    return c;
}

/* Opens a vocabulary, from a temporary file when it is compressed. */
static lk_tokenizer *open_vocab(const char *path, double *ms) {
    static const char *const names[] = {"vocab.gguf", NULL};
    const bool is_compressed = strstr(path, ".gz") != NULL;
    if (is_compressed) {
        char command[2048];
        test_folder_make();
        const char *plain = test_folder_path(names[0]);
        (void)snprintf(command, sizeof command, "gunzip -c '%s' > '%s'", path, plain);
        CHECK(system(command) == 0);
        path = plain;
    }
    lk_tokenizer *t = NULL;
    lk_error err = {0};
    const double start = now_ms();
    REQUIRE_OK(lk_tokenizer_open(path, NULL, &t, &err), err);
    *ms = now_ms() - start;
    if (is_compressed) {
        test_folder_remove(names);
    }
    return t;
}

/* A model's case: ids with all added tokens recognised, and the text that they decode to. */
static int check_case(const lk_tokenizer *t, const char *name, size_t i, const json_t *row) {
    size_t n = 0, n_decoded = 0, n_bytes = 0;
    const char *text = row_string(row, "text", &n);
    const char *decoded = row_string(row, "decoded", &n_decoded);
    const json_t *ids = json_object_get(row, "ids");
    int agrees = encodes_to(t, text, n, LK_TOKENIZE_PARSE_SPECIAL, ids);
    CHECK_MSG(agrees, "%s case %zu: %.80s", name, i, text);
    if (json_array_size(ids) != 0) {
        char *bytes = decode_ids(t, ids, LK_DETOKENIZE_SPECIAL, &n_bytes);
        const int equal = n_bytes == n_decoded && memcmp(bytes, decoded, n_bytes) == 0;
        CHECK_MSG(equal, "%s case %zu: decoding to %.80s", name, i, decoded);
        agrees = agrees && equal;
        free(bytes);
    }
    return agrees;
}

static void check_model(const char *name, const char *path, const char *index) {
    double ms = 0.0;
    json_error_t error;
    json_t *root = json_load_file(index, JSON_ALLOW_NUL, &error);
    const json_t *cases = json_object_get(root, "tokenizer_cases");
    lk_tokenizer *t = open_vocab(path, &ms);
    size_t n_agree = 0;
    const size_t n = json_array_size(cases);
    for (size_t i = 0; i < n; i++) {
        n_agree += (size_t)check_case(t, name, i, json_array_get(cases, i));
    }
    CHECK_MSG(n == 24, "%s has %zu cases", index, n);
    (void)printf("%-12s %zu of %zu cases\n", name, n_agree, n);
    lk_tokenizer_close(t);
    json_decref(root);
}

static void check_reference(const char *name, const char *vocab, int has_decode) {
    char path[256];
    double ms = 0.0;
    (void)snprintf(path, sizeof path, "refs/tokenizers/%s", vocab);
    if (lk_test_shared(path) == NULL) {
        lk_test_fail(__FILE__, __LINE__, "%s is missing", path);
        return;
    }
    lk_tokenizer *t = open_vocab(lk_test_shared(path), &ms);
    (void)snprintf(path, sizeof path, "refs/tokenizers/%s.jsonl", name);
    const counts c = check_file(t, name, lk_test_shared(path), check_row);
    counts d = {0, 0};
    if (has_decode) {
        (void)snprintf(path, sizeof path, "refs/tokenizers/%s.decode.jsonl", name);
        d = check_file(t, name, lk_test_shared(path), check_decode_row);
    }
    (void)printf("%-12s %zu of %zu rows, decoding %zu of %zu, opened in %.0f ms\n", name, c.agree,
                 c.rows, d.agree, d.rows, ms);
    CHECK_MSG(c.rows == 750 && (d.rows > 150 || !has_decode), "%s: too few rows", name);
    lk_tokenizer_close(t);
}

LK_TEST(shared_references) {
    if (lk_test_shared("refs/tokenizers/index.json") == NULL) {
        (void)printf("the shared references are absent: the sample stands for them\n");
        return;
    }
    check_reference("gpt2", "gpt2.vocab.gguf", 1);
    check_reference("qwen3", "qwen3.vocab.gguf", 1);
    check_reference("llama3", "llama3.vocab.gguf", 1);
    check_reference("deepseek_v3", "deepseek_v3.vocab.gguf", 1);
    check_reference("gptoss", "gptoss.vocab.gguf.gz", 1);
    check_reference("llama2", "llama2.vocab.gguf", 1);
    check_reference("gemma3", "gemma3.vocab.gguf", 1);
    check_reference("tok512", "../llama2c/stories260K.f32.gguf", 0);
}

LK_TEST(sample_references) {
    double ms = 0.0;
    lk_tokenizer *t = open_vocab(lk_test_data("tokenizers/tok512.vocab.gguf"), &ms);
    const counts c =
        check_file(t, "tok512", lk_test_data("tokenizers/tok512.sample.jsonl"), check_row);
    lk_tokenizer_close(t);
    t = open_vocab(lk_test_data("models/tiny-q4_k_m.gguf"), &ms);
    const counts d = check_file(t, "tiny", lk_test_data("tokenizers/tiny.cases.jsonl"), check_case);
    lk_tokenizer_close(t);
    (void)printf("sample       %zu of %zu rows, %zu of %zu cases\n", c.agree, c.rows, d.agree,
                 d.rows);
    CHECK(c.rows == 195 && d.rows == 24);
}

LK_TEST(shipped_models) {
    const char *tiny = lk_test_shared("models/refs/tiny/index.json");
    const char *small = lk_test_shared("models/refs/small/index.json");
    if (tiny == NULL || small == NULL) {
        (void)printf("the shared references are absent: the sample stands for them\n");
        return;
    }
    check_model("tiny", lk_test_data("models/tiny-q4_k_m.gguf"), tiny);
    check_model("small", LK_SOURCE_DIR "/models/small-q4_k_m.gguf", small);
}

LK_TEST_MAIN(LK_RUN(sample_references), LK_RUN(shipped_models), LK_RUN(shared_references))
