/* filewrite.c - POSIX implementation of filewrite.h.
 * Invariant: the target path holds either what it held before or all bytes that were appended. */
#include "base/filewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    MAX_NAME_TRIES = 100,
    SUFFIX_BYTES = 40 /* ".<process>-<number>.tmp" and the end */
};

struct lk_filewrite {
    const lk_allocator *allocator;
    char *path;
    char *temporary;
    size_t path_size; /* allocated, end included; temporary has SUFFIX_BYTES more */
    uint64_t size;
    int fd; /* -1 when closed */
    bool failed;
};

static lk_status fail_io(lk_error *err, const char *what, const char *path) {
    return lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "cannot %s %s: %s", what, path,
                   strerror(errno));
}

static void release(lk_filewrite *file) {
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    const lk_allocator *a = file->allocator;
    lk_free(a, file->temporary, file->path_size + SUFFIX_BYTES);
    lk_free(a, file->path, file->path_size);
    lk_free(a, file, sizeof *file);
}

static lk_status open_temporary(lk_filewrite *file, lk_error *err) {
    for (int i = 0; i < MAX_NAME_TRIES; i++) {
        (void)snprintf(file->temporary, file->path_size + SUFFIX_BYTES, "%s.%ld-%d.tmp", file->path,
                       (long)getpid(), i);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0) {
            return LK_OK;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return fail_io(err, "create", file->temporary);
}

lk_status lk_filewrite_create(const char *path, const lk_allocator *a, lk_filewrite **out,
                              lk_error *err) {
    *out = NULL;
    a = lk_allocator_or_default(a);
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "%s exists and is not a regular file",
                       path);
    }
    lk_filewrite *file = lk_alloc_zero(a, sizeof *file);
    if (file == NULL) {
        return lk_fail_nomem(err, "a file to write", sizeof *file);
    }
    file->allocator = a;
    file->fd = -1;
    file->path_size = strlen(path) + 1;
    file->path = lk_dup_string(a, path, file->path_size - 1);
    file->temporary = lk_alloc(a, file->path_size + SUFFIX_BYTES);
    lk_status status = LK_OK;
    if (file->path == NULL || file->temporary == NULL) {
        status = lk_fail_nomem(err, "a path", file->path_size + SUFFIX_BYTES);
    } else {
        status = open_temporary(file, err);
    }
    if (status != LK_OK) {
        release(file);
        return status;
    }
    *out = file;
    return LK_OK;
}

/* At `offset`, all n_bytes. */
static lk_status write_all(lk_filewrite *file, uint64_t offset, const void *data, size_t n_bytes,
                           lk_error *err) {
    const uint8_t *p = data;
    if (file->failed) {
        return lk_fail(err, LK_E_IO, LK_AT_SUBJECT(file->path),
                       "an earlier write to %s failed; nothing more is written", file->temporary);
    }
    while (n_bytes != 0) {
        const ssize_t n = pwrite(file->fd, p, n_bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            file->failed = true;
            return lk_fail(err, LK_E_IO, LK_AT_OFFSET(offset, file->path),
                           "cannot write %s at byte %llu: %s", file->temporary,
                           (unsigned long long)offset,
                           n == 0 ? "nothing written" : strerror(errno));
        }
        p += n;
        offset += (uint64_t)n;
        n_bytes -= (size_t)n;
    }
    return LK_OK;
}

lk_status lk_filewrite_append(lk_filewrite *file, const void *data, size_t n_bytes, lk_error *err) {
    const lk_status status = write_all(file, file->size, data, n_bytes, err);
    if (status == LK_OK) {
        file->size += n_bytes;
    }
    return status;
}

uint64_t lk_filewrite_size(const lk_filewrite *file) {
    return file->size;
}

const char *lk_filewrite_temporary(const lk_filewrite *file) {
    return file->temporary;
}

/* So that the rename itself survives a power failure. Uses file->temporary as scratch. */
static lk_status sync_folder(lk_filewrite *file, lk_error *err) {
    char *folder = file->temporary;
    memcpy(folder, file->path, file->path_size);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        memcpy(folder, ".", 2);
    } else if (slash == folder) {
        slash[1] = '\0';
    } else {
        *slash = '\0';
    }
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0;
    if (fd >= 0) {
        /* EINVAL: a file system that cannot sync folders. */
        failed = fsync(fd) != 0 && errno != EINVAL;
        (void)close(fd);
    }
    return failed ? fail_io(err, "(the new file is in place) sync the folder", folder) : LK_OK;
}

lk_status lk_filewrite_commit(lk_filewrite *file, lk_error *err) {
    lk_status status = write_all(file, file->size, NULL, 0, err);
    if (status == LK_OK && fsync(file->fd) != 0) {
        status = fail_io(err, "sync", file->temporary);
    }
    if (status == LK_OK) {
        const int fd = file->fd;
        file->fd = -1;
        if (close(fd) != 0) {
            status = fail_io(err, "close", file->temporary);
        }
    }
    if (status == LK_OK && rename(file->temporary, file->path) != 0) {
        status = fail_io(err, "rename the temporary file to", file->path);
    }
    if (status != LK_OK) {
        lk_filewrite_abort(file);
        return status;
    }
    status = sync_folder(file, err);
    release(file);
    return status;
}

void lk_filewrite_abort(lk_filewrite *file) {
    if (file != NULL) {
        (void)unlink(file->temporary);
        release(file);
    }
}
