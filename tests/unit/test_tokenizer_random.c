/* test_tokenizer_random.c - the tokenizers on random vocabularies and texts against the plain
 * definition of BPE (look for the best pair, join it, begin anew), and what must hold for any text:
 * the same ids from every thread and with any capacity, no leak when memory runs short, time in
 * proportion to the text. */
#include <pthread.h>
#include <time.h>

#include "lk/tokenizer.h"
#include "lk_test.h"
#include "text/unicode/normalize.h"
#include "toy_vocab.h"

enum { MAX_TEXT = 6000 };

/* --- byte level ---------------------------------------------------------------------------------
 */

/* 256 bytes and `n` merges of random tokens; texts stay short enough. */
static toy *random_byte_level(uint64_t *seed, size_t n) {
    toy *y = toy_new("gpt2", "gpt-2");
    toy_add_bytes(y);
    while (n > 0) {
        const size_t n_tokens = (size_t)y->source.n_tokens;
        const size_t n_new = n_tokens - 256;
        const char *half[2];
        for (size_t i = 0; i < 2; i++) {
            const uint64_t r = lk_test_random(seed);
            half[i] = y->tokens[n_new != 0 && r % 2 ? 256 + (r >> 8) % n_new : 'a' + (r >> 8) % 3];
        }
        char joined[128], merge[128];
        if (strlen(half[0]) + strlen(half[1]) > 40) {
            continue;
        }
        (void)snprintf(joined, sizeof joined, "%s%s", half[0], half[1]);
        (void)snprintf(merge, sizeof merge, "%s %s", half[0], half[1]);
        int exists = 0;
        for (size_t i = 0; i < n_tokens; i++) {
            exists = exists || strcmp(y->tokens[i], joined) == 0;
        }
        if (!exists) {
            (void)toy_token(y, joined, LK_TOKEN_NORMAL, 0.0F);
        }
        toy_merge(y, merge);
        n--;
    }
    return y;
}

static size_t find_token(const toy *y, const char *text) {
    for (size_t i = 0; i < y->source.n_tokens; i++) {
        if (strcmp(y->tokens[i], text) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Ids of the joined pairs: best[left * n + right] = rank, result likewise; UINT32_MAX: no merge. */
typedef struct pairs {
    uint32_t *rank, *result;
    size_t n;
} pairs;

static pairs make_pairs(const toy *y) {
    pairs p = {NULL, NULL, (size_t)y->source.n_tokens};
    p.rank = malloc(p.n * p.n * sizeof *p.rank);
    p.result = malloc(p.n * p.n * sizeof *p.result);
    memset(p.rank, 0xFF, p.n * p.n * sizeof *p.rank);
    for (uint32_t i = 0; i < y->source.n_merges; i++) {
        char text[128], joined[128];
        (void)snprintf(text, sizeof text, "%s", y->merges[i]);
        char *right = strchr(text, ' ');
        *right++ = '\0';
        (void)snprintf(joined, sizeof joined, "%s%s", text, right);
        const size_t at = find_token(y, text) * p.n + find_token(y, right);
        p.rank[at] = i;
        p.result[at] = (uint32_t)find_token(y, joined);
    }
    return p;
}

/* The definition, for one word. Returns the number of ids. */
static size_t plain_bpe(const pairs *p, const char *word, size_t n, int32_t *ids) {
    for (size_t i = 0; i < n; i++) {
        ids[i] = (uint8_t)word[i];
    }
    for (;;) {
        size_t best = SIZE_MAX;
        uint32_t best_rank = UINT32_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            const uint32_t rank = p->rank[(size_t)ids[i] * p->n + (size_t)ids[i + 1]];
            if (rank < best_rank) {
                best_rank = rank;
                best = i;
            }
        }
        if (best == SIZE_MAX) {
            return n;
        }
        ids[best] = (int32_t)p->result[(size_t)ids[best] * p->n + (size_t)ids[best + 1]];
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof *ids);
        n--;
    }
}

/* Words of letters that all begin with `prefix`, each but the first with its space before it, as
 * GPT-2 cuts them. */
static size_t random_words(uint64_t *seed, const char *prefix, size_t max_word, size_t max_text,
                           char *text) {
    size_t n = 0;
    const size_t n_prefix = strlen(prefix);
    while (n + n_prefix + max_word + 1 < max_text) {
        if (n > 0) {
            text[n++] = ' ';
        }
        memcpy(text + n, prefix, n_prefix);
        n += n_prefix;
        const size_t length = 1 + lk_test_random(seed) % max_word;
        for (size_t i = 0; i < length; i++) {
            text[n++] = (char)('a' + lk_test_random(seed) % 3);
        }
        if (lk_test_random(seed) % 16 == 0 && max_text < 1000) {
            break;
        }
    }
    return n;
}

static void check_byte_level(const lk_tokenizer *t, const pairs *p, const char *text, size_t n) {
    static int32_t expected[MAX_TEXT], got[MAX_TEXT];
    size_t n_expected = 0, n_got = 0;
    lk_error err = {0};
    for (size_t pos = 0; pos < n;) {
        size_t end = pos + 1;
        while (end < n && text[end] != ' ') {
            end++;
        }
        n_expected += plain_bpe(p, text + pos, end - pos, expected + n_expected);
        pos = end;
    }
    REQUIRE_OK(lk_tokenizer_encode(t, text, n, 0, got, MAX_TEXT, &n_got, &err), err);
    CHECK_MSG(n_got == n_expected && memcmp(got, expected, n_got * sizeof got[0]) == 0,
              "%zu bytes, %zu ids, expected %zu: %.100s", n, n_got, n_expected, text);
}

LK_TEST(byte_level_is_plain_bpe) {
    uint64_t seed = lk_test_seed(20261130);
    const size_t n_rounds = lk_test_size(5, 40, 400);
    static char text[MAX_TEXT];
    for (size_t round = 0; round < n_rounds; round++) {
        toy *y = random_byte_level(&seed, 5 + lk_test_random(&seed) % 150);
        const pairs p = make_pairs(y);
        lk_tokenizer *t = toy_open(y, NULL);
        for (size_t i = 0; i < 60; i++) { /* words below and above what is merged in place */
            const size_t n = random_words(&seed, "", i % 3 == 0 ? 200 : 20, 600, text);
            check_byte_level(t, &p, text, n);
        }
        /* Long enough for the cache of words, with words that come again. */
        check_byte_level(t, &p, text, random_words(&seed, "", 4, MAX_TEXT, text));
        check_byte_level(t, &p, text, random_words(&seed, "abcabca", 8, MAX_TEXT, text));
        lk_tokenizer_close(t);
        free(p.rank);
        free(p.result);
        free(y);
    }
}

/* --- SentencePiece ------------------------------------------------------------------------------
 */

static const char *const spm_chars[] = {"\xE2\x96\x81", "a", "b", "c", "\xC3\xA9", "\xE4\xB8\xAD"};

static toy *random_spm(uint64_t *seed, size_t n) {
    toy *y = toy_new("llama", NULL);
    (void)toy_token(y, "<unk>", LK_TOKEN_UNKNOWN, 0.0F);
    for (size_t i = 0; i < 6; i++) {
        (void)toy_token(y, spm_chars[i], LK_TOKEN_NORMAL, -100.0F);
    }
    y->source.unknown = 0;
    y->source.add_space_prefix = (int)(lk_test_random(seed) % 2);
    while (n > 0) {
        char joined[160] = "";
        size_t length = 0;
        const size_t parts = 2 + lk_test_random(seed) % 2;
        for (size_t i = 0; i < parts; i++) {
            const char *part = y->tokens[1 + lk_test_random(seed) % (y->source.n_tokens - 1)];
            if (length + strlen(part) < 30) {
                memcpy(joined + length, part, strlen(part) + 1);
                length += strlen(part);
            }
        }
        if (find_token(y, joined) == SIZE_MAX) {
            const float score = -(float)(lk_test_random(seed) % 40) / 4.0F; /* with many ties */
            (void)toy_token(y, joined, LK_TOKEN_NORMAL, score);
        }
        n--;
    }
    return y;
}

/* The definition: starts[] are where the symbols begin in `text`. */
static size_t plain_spm(const toy *y, const char *text, size_t n, int32_t *ids) {
    static size_t starts[MAX_TEXT];
    size_t n_symbols = 0;
    for (size_t i = 0; i < n; i++) {
        if (((uint8_t)text[i] & 0xC0u) != 0x80) {
            starts[n_symbols++] = i;
        }
    }
    starts[n_symbols] = n;
    for (;;) {
        size_t best = SIZE_MAX;
        float best_score = -1e9F;
        for (size_t i = 0; i + 1 < n_symbols; i++) {
            char joined[64];
            const size_t length = starts[i + 2] - starts[i];
            if (length >= sizeof joined) {
                continue;
            }
            memcpy(joined, text + starts[i], length);
            joined[length] = '\0';
            const size_t id = find_token(y, joined);
            const float score =
                id != SIZE_MAX ? lk_f32_from_bits(lk_load_u32(y->scores + 4 * id)) : -1e9F;
            if (id != SIZE_MAX && score > best_score) {
                best_score = score;
                best = i;
            }
        }
        if (best == SIZE_MAX) {
            break;
        }
        memmove(starts + best + 1, starts + best + 2, (n_symbols - best - 1) * sizeof starts[0]);
        n_symbols--;
    }
    for (size_t i = 0; i < n_symbols; i++) {
        char symbol[64];
        memcpy(symbol, text + starts[i], starts[i + 1] - starts[i]);
        symbol[starts[i + 1] - starts[i]] = '\0';
        ids[i] = (int32_t)find_token(y, symbol);
    }
    return n_symbols;
}

LK_TEST(spm_is_plain_bpe) {
    uint64_t seed = lk_test_seed(20261130);
    const size_t n_rounds = lk_test_size(3, 20, 200);
    static char text[MAX_TEXT];
    static int32_t expected[MAX_TEXT], got[MAX_TEXT];
    for (size_t round = 0; round < n_rounds; round++) {
        toy *y = random_spm(&seed, 5 + lk_test_random(&seed) % 60);
        lk_tokenizer *t = toy_open(y, NULL);
        for (size_t i = 0; i < 40; i++) {
            const size_t prefix = y->source.add_space_prefix ? 3 : 0;
            memcpy(text, spm_chars[0], 3);
            size_t n = prefix;
            const size_t n_chars = 1 + lk_test_random(&seed) % 120;
            for (size_t k = 0; k < n_chars; k++) {
                const char *c = spm_chars[lk_test_random(&seed) % 6];
                memcpy(text + n, c, strlen(c));
                n += strlen(c);
            }
            size_t n_got = 0;
            lk_error err = {0};
            const size_t n_expected = plain_spm(y, text, n, expected);
            REQUIRE_OK(
                lk_tokenizer_encode(t, text + prefix, n - prefix, 0, got, MAX_TEXT, &n_got, &err),
                err);
            CHECK_MSG(n_got == n_expected && memcmp(got, expected, n_got * sizeof got[0]) == 0,
                      "%zu ids, expected %zu: %.*s", n_got, n_expected, (int)n, text);
        }
        lk_tokenizer_close(t);
        free(y);
    }
}

/* --- any text -----------------------------------------------------------------------------------
 */

/* A long text of all kinds of things, ill-formed ones too. */
static size_t mixed_text(uint64_t *seed, char *text, size_t size) {
    static const char *const parts[] = {"Once upon a time ",
                                        "the the ",
                                        "\n\n",
                                        "  ",
                                        "e\xCC\x81",
                                        "\xE4\xB8\xAD\xE6\x96\x87",
                                        "<|im_end|>",
                                        "1234",
                                        "\xFF",
                                        "\xE2\x82",
                                        "<think>",
                                        "\xF0\x9F\x98\x80",
                                        "'s",
                                        "?!"};
    size_t n = 0;
    while (n + 20 < size) {
        const char *part = parts[lk_test_random(seed) % (sizeof parts / sizeof parts[0])];
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

static lk_tokenizer *open_file(const char *name, const lk_allocator *allocator) {
    lk_tokenizer *t = NULL;
    lk_error err = {0};
    REQUIRE_OK(lk_tokenizer_open(lk_test_data(name), allocator, &t, &err), err);
    return t;
}

static const char *const files[] = {"tokenizers/tok512.vocab.gguf", "models/tiny-q4_k_m.gguf"};

LK_TEST(capacity_changes_no_id) {
    uint64_t seed = lk_test_seed(20261130);
    static char text[20000];
    const size_t n = mixed_text(&seed, text, sizeof text);
    int32_t *whole = malloc(LK_IDS_BOUND(n) * sizeof *whole);
    int32_t *part = malloc(LK_IDS_BOUND(n) * sizeof *part);
    for (size_t f = 0; f < 2; f++) {
        lk_tokenizer *t = open_file(files[f], NULL);
        size_t n_whole = 0, n_part = 0;
        lk_error err = {0};
        REQUIRE_OK(lk_tokenizer_encode(t, text, n, 2, whole, LK_IDS_BOUND(n), &n_whole, &err), err);
        for (size_t capacity = 0; capacity < n_whole; capacity += 1 + n_whole / 7) {
            part[capacity] = -5;
            CHECK_STATUS(LK_E_LIMIT,
                         lk_tokenizer_encode(t, text, n, 2, part, capacity, &n_part, &err));
            CHECK(n_part == n_whole && memcmp(part, whole, capacity * sizeof *part) == 0);
            CHECK(part[capacity] == -5);
        }
        /* What comes back from decoding is the repaired text, in NFC for this model. */
        char *bytes = malloc(8 * n);
        size_t n_bytes = 0;
        lk_text_buffer repaired, normal;
        lk_text_buffer_init(&repaired, &lk_allocator_default);
        lk_text_buffer_init(&normal, &lk_allocator_default);
        CHECK(lk_utf8_repair((const uint8_t *)text, n, &repaired));
        CHECK(lk_nfc(repaired.data, repaired.n, &normal));
        REQUIRE_OK(lk_tokenizer_decode(t, whole, n_whole, LK_DETOKENIZE_SPECIAL, bytes, 8 * n,
                                       &n_bytes, &err),
                   err);
        const lk_text_buffer *expected = f == 0 ? &repaired : &normal;
        CHECK(n_bytes == expected->n && memcmp(bytes, expected->data, n_bytes) == 0);
        lk_text_buffer_deinit(&repaired);
        lk_text_buffer_deinit(&normal);
        free(bytes);
        lk_tokenizer_close(t);
    }
    free(whole);
    free(part);
}

LK_TEST(short_memory) {
    uint64_t seed = lk_test_seed(20261130);
    static char text[6000];
    static int32_t whole[LK_IDS_BOUND(6000)], ids[LK_IDS_BOUND(6000)];
    size_t n = mixed_text(&seed, text, sizeof text - 1000);
    memset(text + n, 'a', 900); /* a long word */
    n += 900;
    for (size_t f = 0; f < 2; f++) {
        lk_tokenizer *plain = open_file(files[f], NULL);
        size_t n_whole = 0, n_ids = 0;
        lk_error err = {0};
        REQUIRE_OK(lk_tokenizer_encode(plain, text, n, 2, whole, LK_IDS_BOUND(n), &n_whole, &err),
                   err);
        lk_tokenizer_close(plain);
        size_t n_refused = 0;
        for (uint64_t at = 1;; at++) {
            lk_test_allocator a;
            lk_test_allocator_init(&a);
            a.fail_at = at;
            lk_tokenizer *t = NULL;
            lk_status status = lk_tokenizer_open(lk_test_data(files[f]), &a.base, &t, &err);
            CHECK((status == LK_OK) == (t != NULL));
            if (status == LK_OK) {
                status = lk_tokenizer_encode(t, text, n, 2, ids, LK_IDS_BOUND(n), &n_ids, &err);
            }
            CHECK(status == LK_OK || (status == LK_E_NOMEM && a.n_failed == 1));
            CHECK(status != LK_OK ||
                  (n_ids == n_whole && memcmp(ids, whole, n_ids * sizeof ids[0]) == 0));
            n_refused += status != LK_OK;
            lk_tokenizer_close(t);
            CHECK_MSG(a.n_live == 0 && a.live_bytes == 0, "allocation %llu leaks",
                      (unsigned long long)at);
            if (a.n_failed == 0) {
                break;
            }
        }
        CHECK_MSG(n_refused > 10, "only %zu allocations", n_refused);
    }
}

typedef struct worker {
    const lk_tokenizer *t;
    const char *text;
    size_t n, n_ids;
    int32_t *ids;
    lk_status status;
} worker;

static void *work(void *arg) {
    worker *w = arg;
    for (int i = 0; i < 20 && w->status == LK_OK; i++) {
        w->status = lk_tokenizer_encode(w->t, w->text, w->n, 2, w->ids, LK_IDS_BOUND(w->n),
                                        &w->n_ids, NULL);
    }
    return NULL;
}

LK_TEST(threads_share_a_tokenizer) {
    uint64_t seed = lk_test_seed(20261130);
    static char text[8000];
    const size_t n = mixed_text(&seed, text, sizeof text);
    lk_tokenizer *t = open_file(files[1], NULL);
    worker workers[4];
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        workers[i] = (worker){t, text, n, 0, malloc(LK_IDS_BOUND(n) * sizeof(int32_t)), LK_OK};
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(workers[i].status == LK_OK && workers[i].n_ids == workers[0].n_ids);
        CHECK(memcmp(workers[i].ids, workers[0].ids, workers[0].n_ids * sizeof(int32_t)) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        free(workers[i].ids);
    }
    lk_tokenizer_close(t);
}

/* Quadratic work on these would take minutes. */
LK_TEST(no_text_is_slow) {
    const size_t n = lk_test_size(100000, 1000000, 4000000);
    static const char *const patterns[] = {"a",
                                           " ",
                                           "\n",
                                           " \n",
                                           "<",
                                           "<|im_",
                                           "'",
                                           "\t",
                                           "\xCC\x81",
                                           "\xFF",
                                           "\xE4\xB8\xAD",
                                           "1",
                                           "ab",
                                           "\xCC\xB4\xCC\x81",
                                           "A",
                                           "A\xCC\x81",
                                           "\xE1\x84\x80",
                                           "",
                                           "!\n"};
    char *text = malloc(n + 8);
    int32_t *ids = malloc(LK_IDS_BOUND(n) * sizeof *ids);
    for (size_t f = 0; f < 2; f++) {
        lk_tokenizer *t = open_file(files[f], NULL);
        for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
            size_t length = strlen(patterns[i]);
            length += length == 0; /* a NUL */
            for (size_t k = 0; k < n; k += length) {
                memcpy(text + k, patterns[i], length);
            }
            size_t n_ids = 0;
            lk_error err = {0};
            const clock_t start = clock();
            REQUIRE_OK(lk_tokenizer_encode(t, text, n, 2, ids, LK_IDS_BOUND(n), &n_ids, &err), err);
            const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            CHECK_MSG(seconds < 20.0, "%s: %zu bytes of \"%s\" take %.1f s", files[f], n,
                      patterns[i], seconds);
        }
        lk_tokenizer_close(t);
    }
    free(text);
    free(ids);
}

LK_TEST_MAIN(LK_RUN(byte_level_is_plain_bpe), LK_RUN(spm_is_plain_bpe),
             LK_RUN(capacity_changes_no_id), LK_RUN(short_memory),
             LK_RUN(threads_share_a_tokenizer), LK_RUN(no_text_is_slow))
