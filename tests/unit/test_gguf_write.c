/* test_gguf_write.c - the GGUF writer: what is written is read back equal; wrong use is refused; no
 * file and no temporary file is left behind by a failure. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/filewrite.h"
#include "gguf/gguf_internal.h"
#include "gguf/gguf_writer.h"
#include "gguf_bytes.h"
#include "lk_test.h"
#include "test_folder.h"

static lk_gguf_writer *create(const char *path) {
    lk_gguf_writer *w = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_writer_create(path, NULL, &w, &err), err);
    return w;
}

/* A file of every kind of entry; steps stop at the first failure. */
static lk_status write_sample(lk_gguf_writer *w, lk_error *err) {
    static const char *const words[3] = {"alpha", "", "gamma\n"};
    static const size_t lengths[1] = {3};
    static const uint8_t u16s[6] = {1, 0, 2, 0, 0xff, 0xff};
    const uint8_t block[34] = {1, 2, 3};
    const float bias[3] = {1.0f, -2.5f, 0.0f};
    lk_status s = lk_gguf_writer_string(w, "general.architecture", "llama", 5, err);
#define STEP(call) s = s != LK_OK ? s : (call)
    STEP(lk_gguf_writer_int(w, "i.u8", LK_GGUF_U8, 255, err));
    STEP(lk_gguf_writer_int(w, "i.i8", LK_GGUF_I8, -128, err));
    STEP(lk_gguf_writer_int(w, "i.u16", LK_GGUF_U16, 65535, err));
    STEP(lk_gguf_writer_int(w, "i.i16", LK_GGUF_I16, -32768, err));
    STEP(lk_gguf_writer_int(w, "i.u32", LK_GGUF_U32, 4294967295, err));
    STEP(lk_gguf_writer_int(w, "i.i32", LK_GGUF_I32, INT32_MIN, err));
    STEP(lk_gguf_writer_int(w, "i.u64", LK_GGUF_U64, -1, err));
    STEP(lk_gguf_writer_int(w, "i.i64", LK_GGUF_I64, INT64_MIN, err));
    STEP(lk_gguf_writer_int(w, "i.bool", LK_GGUF_BOOL, 1, err));
    STEP(lk_gguf_writer_float(w, "f.f32", LK_GGUF_F32, 0.1, err));
    STEP(lk_gguf_writer_float(w, "f.f64", LK_GGUF_F64, 0.1, err));
    STEP(lk_gguf_writer_array(w, "a.u16", LK_GGUF_U16, u16s, 3, err));
    STEP(lk_gguf_writer_array(w, "a.empty", LK_GGUF_F32, NULL, 0, err));
    STEP(lk_gguf_writer_strings(w, "a.words", words, NULL, 3, err));
    STEP(lk_gguf_writer_strings(w, "a.pieces", words, lengths, 1, err));
    STEP(lk_gguf_writer_tensor(w, "q", 8, 2, (const uint64_t[]){32, 2}, err));
    STEP(lk_gguf_writer_tensor(w, "bias", 0, 1, (const uint64_t[]){3}, err));
    STEP(lk_gguf_writer_begin(w, err));
    STEP(lk_gguf_writer_data(w, block, 34, err));
    STEP(lk_gguf_writer_data(w, block, 20, err));
    STEP(lk_gguf_writer_data(w, block + 20, 14, err));
    STEP(lk_gguf_writer_data(w, bias, 0, err));
    STEP(lk_gguf_writer_data(w, bias, sizeof bias, err));
    STEP(lk_gguf_writer_finish(w, err));
#undef STEP
    return s;
}

static lk_gguf_value get(const lk_gguf *gguf, const char *key) {
    lk_gguf_value value;
    lk_error err;
    REQUIRE_OK(lk_gguf_find(gguf, key, &value, &err), err);
    return value;
}

static void check_sample(const lk_gguf *gguf) {
    CHECK(lk_gguf_version(gguf) == 3 && lk_gguf_n_meta(gguf) == 16);
    CHECK(get(gguf, "i.u8").i == 255 && get(gguf, "i.i8").i == -128);
    CHECK(get(gguf, "i.u16").i == 65535 && get(gguf, "i.i16").i == -32768);
    CHECK(get(gguf, "i.u32").i == 4294967295 && get(gguf, "i.i32").i == INT32_MIN);
    CHECK(get(gguf, "i.u64").i == -1 && get(gguf, "i.i64").i == INT64_MIN);
    CHECK(get(gguf, "i.bool").i == 1 && get(gguf, "i.bool").type == LK_GGUF_BOOL);
    CHECK(lk_f32_bits((float)get(gguf, "f.f32").f) == lk_f32_bits(0.1f));
    CHECK(lk_f64_bits(get(gguf, "f.f64").f) == lk_f64_bits(0.1));
    CHECK(get(gguf, "a.u16").n == 3 && lk_load_u16(get(gguf, "a.u16").arr) == 1);
    CHECK(get(gguf, "a.empty").n == 0 && get(gguf, "a.empty").elem_type == LK_GGUF_F32);
    const lk_gguf_value words = get(gguf, "a.words");
    const char *str;
    uint64_t n;
    CHECK(words.n == 3);
    CHECK_STATUS(LK_OK, lk_gguf_array_string(gguf, &words, 2, &str, &n, NULL));
    CHECK(n == 6 && memcmp(str, "gamma\n", 6) == 0);
    lk_gguf_tensor t;
    lk_error err;
    REQUIRE_OK(lk_gguf_tensor_at(gguf, 0, &t, &err), err);
    const uint8_t *q = t.data;
    CHECK(strcmp(t.name, "q") == 0 && t.n_bytes == 68 && q[0] == 1 && q[35] == 2 && q[67] == 0);
    REQUIRE_OK(lk_gguf_find_tensor(gguf, "bias", &t, &err), err);
    CHECK(lk_load_u32((const uint8_t *)t.data + 4) == lk_f32_bits(-2.5f));
    CHECK(lk_gguf_file_bytes(gguf) == t.offset + 32);
}

LK_TEST(round_trip) {
    test_folder_make();
    lk_gguf_writer *w = create(test_folder_path("a.gguf"));
    lk_error err;
    REQUIRE_OK(write_sample(w, &err), err);
    CHECK(test_folder_count() == 1);
    lk_gguf_writer_destroy(w);
    struct stat info;
    const mode_t mask = umask(022);
    (void)umask(mask);
    CHECK(stat(test_folder_path("a.gguf"), &info) == 0 && (info.st_mode & 0777) == (0666 & ~mask));
    lk_gguf *gguf = NULL;
    REQUIRE_OK(lk_gguf_open(test_folder_path("a.gguf"), NULL, &gguf, &err), err);
    check_sample(gguf);
    lk_gguf_close(gguf);
    (void)unlink(test_folder_path("a.gguf"));
    test_folder_remove(NULL);
}

/* Copies a real model entry by entry and tensor by tensor; everything must come back equal. */
LK_TEST(copy_of_a_model) {
    test_folder_make();
    lk_gguf *from = NULL;
    lk_gguf *to = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &from, &err), err);
    lk_gguf_writer *w = create(test_folder_path("copy.gguf"));
    uint64_t n_skipped = 0;
    for (uint64_t i = 0; i < lk_gguf_n_meta(from); i++) {
        const char *key;
        lk_gguf_value value;
        REQUIRE_OK(lk_gguf_meta(from, i, &key, &value, &err), err);
        if (lk_gguf_writer_skips(key)) {
            CHECK_STATUS(LK_E_ARG, lk_gguf_writer_copy(w, from, i, &err));
            n_skipped++;
        } else {
            REQUIRE_OK(lk_gguf_writer_copy(w, from, i, &err), err);
        }
    }
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_copy(w, from, lk_gguf_n_meta(from), &err));
    lk_gguf_tensor t;
    for (uint64_t i = 0; i < lk_gguf_n_tensors(from); i++) {
        REQUIRE_OK(lk_gguf_tensor_at(from, i, &t, &err), err);
        REQUIRE_OK(lk_gguf_writer_tensor(w, t.name, t.type, t.n_dims, t.ne, &err), err);
    }
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    for (uint64_t i = 0; i < lk_gguf_n_tensors(from); i++) {
        REQUIRE_OK(lk_gguf_tensor_at(from, i, &t, &err), err);
        for (uint64_t done = 0; done < t.n_bytes; done += 65536) {
            const uint64_t left = t.n_bytes - done;
            REQUIRE_OK(lk_gguf_writer_data(w, (const uint8_t *)t.data + done,
                                           left < 65536 ? left : 65536, &err),
                       err);
        }
    }
    REQUIRE_OK(lk_gguf_writer_finish(w, &err), err);
    lk_gguf_writer_destroy(w);
    REQUIRE_OK(lk_gguf_open(test_folder_path("copy.gguf"), NULL, &to, &err), err);
    CHECK(lk_gguf_n_meta(to) + n_skipped == lk_gguf_n_meta(from));
    for (uint64_t i = 0; i < lk_gguf_n_meta(to); i++) {
        const lk_gguf_entry *b = &to->parts[0].entries[i];
        const lk_gguf_entry *a = lk_gguf_part_find(&from->parts[0], b->key);
        CHECK(a != NULL && a->end_offset - a->type_offset == b->end_offset - b->type_offset &&
              memcmp(from->parts[0].data + a->type_offset, to->parts[0].data + b->type_offset,
                     b->end_offset - b->type_offset) == 0);
    }
    CHECK(lk_gguf_n_tensors(to) == lk_gguf_n_tensors(from));
    for (uint64_t i = 0; i < lk_gguf_n_tensors(to); i++) {
        const lk_gguf_tensor *a = &from->tensors[i].tensor;
        const lk_gguf_tensor *b = &to->tensors[i].tensor;
        CHECK(strcmp(a->name, b->name) == 0 && a->type == b->type && a->n_dims == b->n_dims &&
              memcmp(a->ne, b->ne, sizeof a->ne) == 0 && a->n_bytes == b->n_bytes &&
              memcmp(a->data, b->data, a->n_bytes) == 0);
    }
    lk_gguf_close(to);
    lk_gguf_close(from);
    (void)unlink(test_folder_path("copy.gguf"));
    test_folder_remove(NULL);
}

LK_TEST(wrong_use_changes_nothing) {
    test_folder_make();
    lk_gguf_writer *w = create(test_folder_path("a.gguf"));
    lk_error err;
    char long_key[LK_GGUF_MAX_KEY_BYTES + 2];
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    const uint8_t bad_bools[2] = {1, 2};
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "k", LK_GGUF_U8, 256, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "k", LK_GGUF_U32, -1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "k", LK_GGUF_BOOL, 2, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "k", LK_GGUF_F32, 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_float(w, "k", LK_GGUF_U32, 1.0, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "", LK_GGUF_U8, 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "a\tb", LK_GGUF_U8, 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, long_key, LK_GGUF_U8, 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "general.alignment", LK_GGUF_U32, 64, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_array(w, "k", LK_GGUF_STRING, bad_bools, 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_array(w, "k", LK_GGUF_BOOL, bad_bools, 2, &err));
    CHECK_STATUS(LK_E_LIMIT,
                 lk_gguf_writer_array(w, "k", LK_GGUF_U64, bad_bools, UINT64_MAX / 4, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "t", 8, 1, (const uint64_t[]){33}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "t", 0, 1, (const uint64_t[]){0}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "t", 0, 5, (const uint64_t[]){1}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "t", 99, 1, (const uint64_t[]){1}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "", 0, 1, (const uint64_t[]){1}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "\xff", 0, 1, (const uint64_t[]){1}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "t", 0, 2,
                                                 (const uint64_t[]){1ull << 40, 1ull << 40}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_data(w, "x", 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_finish(w, &err));
    CHECK(test_folder_count() == 0);
    REQUIRE_OK(lk_gguf_writer_tensor(w, "t", 24, 1, (const uint64_t[]){3}, &err), err);
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_begin(w, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_int(w, "k", LK_GGUF_U8, 1, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_tensor(w, "u", 24, 1, (const uint64_t[]){3}, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_data(w, "abcd", 4, &err));
    REQUIRE_OK(lk_gguf_writer_data(w, "ab", 2, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_finish(w, &err));
    REQUIRE_OK(lk_gguf_writer_data(w, "c", 1, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_data(w, "d", 1, &err));
    REQUIRE_OK(lk_gguf_writer_finish(w, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_finish(w, &err));
    lk_gguf_writer_destroy(w);
    lk_gguf *gguf = NULL;
    REQUIRE_OK(lk_gguf_open(test_folder_path("a.gguf"), NULL, &gguf, &err), err);
    CHECK(lk_gguf_n_meta(gguf) == 0 && memcmp(gguf->tensors[0].tensor.data, "abc", 3) == 0);
    lk_gguf_close(gguf);
    (void)unlink(test_folder_path("a.gguf"));
    test_folder_remove(NULL);
}

LK_TEST(names_given_twice) {
    test_folder_make();
    lk_error err;
    lk_gguf_writer *w = create(test_folder_path("a.gguf"));
    REQUIRE_OK(lk_gguf_writer_int(w, "k", LK_GGUF_U8, 1, &err), err);
    REQUIRE_OK(lk_gguf_writer_int(w, "kk", LK_GGUF_U8, 1, &err), err);
    REQUIRE_OK(lk_gguf_writer_int(w, "k", LK_GGUF_U8, 1, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_begin(w, &err));
    CHECK(strcmp(err.subject, "k") == 0);
    lk_gguf_writer_destroy(w);
    w = create(test_folder_path("a.gguf"));
    REQUIRE_OK(lk_gguf_writer_tensor(w, "t", 24, 1, (const uint64_t[]){3}, &err), err);
    REQUIRE_OK(lk_gguf_writer_tensor(w, "t", 24, 1, (const uint64_t[]){3}, &err), err);
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_begin(w, &err));
    CHECK(strcmp(err.subject, "t") == 0);
    lk_gguf_writer_destroy(w);
    test_folder_remove(NULL);
}

/* The target keeps its old content until finish; an abandoned writer leaves nothing. */
LK_TEST(target_is_replaced_at_the_end) {
    test_folder_make();
    lk_error err;
    FILE *old = fopen(test_folder_path("a.gguf"), "wb");
    CHECK(old != NULL && fputs("old", old) >= 0 && fclose(old) == 0);
    lk_gguf_writer *w = create(test_folder_path("a.gguf"));
    REQUIRE_OK(lk_gguf_writer_tensor(w, "t", 24, 1, (const uint64_t[]){3}, &err), err);
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    REQUIRE_OK(lk_gguf_writer_data(w, "ab", 2, &err), err);
    CHECK(test_folder_count() == 2);
    lk_gguf_writer_destroy(w);
    CHECK(test_folder_count() == 1);
    size_t size;
    uint8_t *data = lk_test_read(test_folder_path("a.gguf"), &size);
    CHECK(size == 3 && memcmp(data, "old", 3) == 0);
    free(data);
    w = create(test_folder_path("a.gguf"));
    REQUIRE_OK(write_sample(w, &err), err);
    lk_gguf_writer_destroy(w);
    lk_gguf *gguf = NULL;
    REQUIRE_OK(lk_gguf_open(test_folder_path("a.gguf"), NULL, &gguf, &err), err);
    check_sample(gguf);
    lk_gguf_close(gguf);
    (void)unlink(test_folder_path("a.gguf"));
    w = create(test_folder_path("no/such/folder.gguf"));
    CHECK_STATUS(LK_E_IO, lk_gguf_writer_begin(w, &err));
    CHECK(strstr(err.message, "no/such/folder.gguf") != NULL);
    lk_gguf_writer_destroy(w);
    w = create(test_folder_path("."));
    CHECK_STATUS(LK_E_IO, lk_gguf_writer_begin(w, &err));
    lk_gguf_writer_destroy(w);
    test_folder_remove(NULL);
}

LK_TEST(every_allocation_fails_once) {
    test_folder_make();
    for (uint64_t n = 1;; n++) {
        lk_test_allocator t;
        lk_test_allocator_init(&t);
        t.fail_at = n;
        lk_gguf_writer *w = NULL;
        lk_error err;
        lk_status status = lk_gguf_writer_create(test_folder_path("a.gguf"), &t.base, &w, &err);
        if (status == LK_OK) {
            status = write_sample(w, &err);
            lk_gguf_writer_destroy(w);
        }
        CHECK(t.n_live == 0 && t.live_bytes == 0);
        if (t.n_failed == 0) {
            CHECK(status == LK_OK && n > 10);
            break;
        }
        CHECK_MSG(status == LK_E_NOMEM, "allocation %llu: %s", (unsigned long long)n,
                  lk_status_name(status));
        CHECK(test_folder_count() == 0);
    }
    (void)unlink(test_folder_path("a.gguf"));
    test_folder_remove(NULL);
}

/* A call that failed for want of memory has changed nothing: repeated, it gives the right file. */
LK_TEST(failed_calls_can_be_repeated) {
    test_folder_make();
    lk_test_allocator t;
    lk_test_allocator_init(&t);
    lk_gguf_writer *w = NULL;
    lk_error err;
    REQUIRE_OK(lk_gguf_writer_create(test_folder_path("a.gguf"), &t.base, &w, &err), err);
    char key[32];
    int n_refused = 0;
    const uint8_t numbers[400] = {7};
    for (int i = 0; i < 400; i++) {
        (void)snprintf(key, sizeof key, "key.%d", i);
        t.fail_at = t.n_calls + 1; /* the next allocation, wherever in the call it falls */
        lk_status status = lk_gguf_writer_array(w, key, LK_GGUF_U8, numbers, 400, &err);
        t.fail_at = 0;
        if (status == LK_E_NOMEM) {
            n_refused++;
            status = lk_gguf_writer_array(w, key, LK_GGUF_U8, numbers, 400, &err);
        }
        CHECK(status == LK_OK);
    }
    CHECK(n_refused > 4);
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    REQUIRE_OK(lk_gguf_writer_finish(w, &err), err);
    lk_gguf_writer_destroy(w);
    CHECK(t.n_live == 0);
    lk_gguf *gguf = NULL;
    REQUIRE_OK(lk_gguf_open(test_folder_path("a.gguf"), NULL, &gguf, &err), err);
    CHECK(lk_gguf_n_meta(gguf) == 400 && get(gguf, "key.399").n == 400);
    lk_gguf_close(gguf);
    (void)unlink(test_folder_path("a.gguf"));
    test_folder_remove(NULL);
}

/* A full disk, played by a limit on file sizes: LK_E_IO with the place, and nothing stays behind.
 */
LK_TEST(disk_is_full) {
    test_folder_make();
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const struct rlimit small = {1000, before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    lk_gguf_writer *w = create(test_folder_path("a.gguf"));
    lk_error err;
    const uint8_t data[2000] = {0};
    REQUIRE_OK(lk_gguf_writer_tensor(w, "t", 24, 1, (const uint64_t[]){2000}, &err), err);
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    CHECK_STATUS(LK_E_IO, lk_gguf_writer_data(w, data, 2000, &err));
    CHECK(err.offset == 1000);
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_data(w, data, 2000, &err));
    CHECK_STATUS(LK_E_ARG, lk_gguf_writer_finish(w, &err));
    lk_gguf_writer_destroy(w);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(test_folder_count() == 0);
    test_folder_remove(NULL);
}

LK_TEST(file_appears_whole) {
    test_folder_make();
    lk_filewrite *file = NULL;
    lk_error err;
    REQUIRE_OK(lk_filewrite_create(test_folder_path("f"), NULL, &file, &err), err);
    REQUIRE_OK(lk_filewrite_append(file, "hello world", 11, &err), err);
    CHECK(lk_filewrite_size(file) == 11 && access(test_folder_path("f"), F_OK) != 0);
    REQUIRE_OK(lk_filewrite_commit(file, &err), err);
    size_t size;
    uint8_t *data = lk_test_read(test_folder_path("f"), &size);
    CHECK(size == 11 && memcmp(data, "hello world", 11) == 0);
    free(data);
    (void)unlink(test_folder_path("f"));
    test_folder_remove(NULL);
}

LK_TEST_MAIN(LK_RUN(round_trip), LK_RUN(copy_of_a_model), LK_RUN(wrong_use_changes_nothing),
             LK_RUN(names_given_twice), LK_RUN(target_is_replaced_at_the_end),
             LK_RUN(every_allocation_fails_once), LK_RUN(failed_calls_can_be_repeated),
             LK_RUN(disk_is_full), LK_RUN(file_appears_whole))
