/* verify_poison.c - see verify_poison.h. A NaN goes into a norm in the middle of the model: a value
 * in binary32, which every row of every sequence meets. */
#include "verify_poison.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TYPE_F32 = 0, PIECE_BYTES = 1 << 20 };

/* The tensor in binary32 that is nearest to the middle of the file; norms are spread over it. */
static bool find_tensor(const lk_gguf *gguf, lk_gguf_tensor *found) {
    const uint64_t middle = lk_gguf_file_bytes(gguf) / 2;
    uint64_t best = UINT64_MAX;
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        lk_gguf_tensor t;
        if (lk_gguf_tensor_at(gguf, i, &t, NULL) != LK_OK || t.type != TYPE_F32 ||
            strstr(t.name, "norm") == NULL) {
            continue;
        }
        const uint64_t distance = t.offset > middle ? t.offset - middle : middle - t.offset;
        if (distance < best) {
            best = distance;
            *found = t;
        }
    }
    return best != UINT64_MAX;
}

static bool copy(const char *path, int to, uint64_t nan_offset, char why[VERIFY_WHY]) {
    static const uint8_t nan_bytes[4] = {0, 0, 0xc0, 0x7f};
    char *piece = malloc(PIECE_BYTES);
    const int from = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = piece != NULL && from >= 0;
    ssize_t n = 0;
    while (ok && (n = read(from, piece, PIECE_BYTES)) > 0) {
        for (ssize_t at = 0; ok && at < n;) {
            const ssize_t written = write(to, piece + at, (size_t)(n - at));
            ok = written > 0;
            at += written > 0 ? written : 0;
        }
    }
    ok = ok && n == 0 &&
         pwrite(to, nan_bytes, sizeof nan_bytes, (off_t)nan_offset) == (ssize_t)sizeof nan_bytes;
    if (!ok) {
        (void)snprintf(why, VERIFY_WHY, "the poisoned copy could not be written: %s",
                       strerror(errno));
    }
    if (from >= 0) {
        (void)close(from);
    }
    free(piece);
    return ok;
}

char *verify_poison(const verify *v, uint64_t max_bytes, char tensor[128], verify_status *status,
                    char why[VERIFY_WHY]) {
    const lk_gguf *gguf = lk_model_gguf(v->model);
    const char *folder = getenv("TMPDIR");
    lk_gguf_tensor found = {.name = NULL};
    *status = VERIFY_NOT_POSSIBLE;
    if (lk_gguf_n_files(gguf) != 1) {
        (void)snprintf(why, VERIFY_WHY, "the model is split into several files");
        return NULL;
    }
    if (lk_gguf_file_bytes(gguf) > max_bytes) {
        (void)snprintf(why, VERIFY_WHY, "a copy of %llu MiB would be needed; --suite full makes it",
                       (unsigned long long)(lk_gguf_file_bytes(gguf) >> 20));
        return NULL;
    }
    if (!find_tensor(gguf, &found)) {
        (void)snprintf(why, VERIFY_WHY, "the model has no norm in binary32 to poison");
        return NULL;
    }
    (void)snprintf(tensor, 128, "%.127s", found.name);
    *status = VERIFY_BROKEN;
    const size_t size = 300;
    char *path = malloc(size);
    if (path == NULL) {
        (void)snprintf(why, VERIFY_WHY, "out of memory");
        return NULL;
    }
    (void)snprintf(path, size, "%.250s/lockstep-poisoned-XXXXXX", folder != NULL ? folder : "/tmp");
    const int to = mkstemp(path);
    bool ok = to >= 0;
    if (!ok) {
        (void)snprintf(why, VERIFY_WHY, "no temporary file in %.200s: %s",
                       folder != NULL ? folder : "/tmp", strerror(errno));
    } else {
        ok = copy(v->options->model, to, found.offset, why);
        ok = close(to) == 0 && ok;
        if (!ok) {
            (void)unlink(path);
        }
    }
    if (!ok) {
        free(path);
        return NULL;
    }
    *status = VERIFY_RAN;
    return path;
}
