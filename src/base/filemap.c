/* filemap.c - POSIX file mapping. */
#if defined(__linux__)
#define _GNU_SOURCE /* madvise */
#endif
#include "base/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

lk_status lk_filemap_open(const char *path, lk_filemap *out, lk_error *err) {
    out->data = NULL;
    out->size = 0;
    lk_status status = LK_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "cannot open %s: %s", path,
                       strerror(errno));
    }
    struct stat info;
    if (fstat(fd, &info) != 0) {
        status =
            lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "cannot stat %s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "%s is not a regular file", path);
    } else if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            status = lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "cannot map %s (%lld bytes): %s",
                             path, (long long)info.st_size, strerror(errno));
        } else {
            out->data = data;
            out->size = (size_t)info.st_size;
        }
    }
    (void)close(fd);
    return status;
}

bool lk_filemap_is_same(const char *path, const char *other) {
    struct stat a;
    struct stat b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

void lk_filemap_forget(const lk_filemap *map, const void *p, size_t n) {
#if defined(__linux__)
    const long page_bytes = sysconf(_SC_PAGESIZE);
    const uint8_t *begin = p;
    if (page_bytes <= 0 || begin < map->data || n > map->size ||
        (size_t)(begin - map->data) > map->size - n) {
        return;
    }
    const size_t page = (size_t)page_bytes;
    const size_t first = ((size_t)(begin - map->data) + page - 1) / page * page;
    const size_t end = ((size_t)(begin - map->data) + n) / page * page;
    if (first < end) {
        uint8_t *data;
        memcpy(&data, &map->data, sizeof data);
        (void)madvise(data + first, end - first, MADV_DONTNEED);
    }
#else
    (void)map;
    (void)p;
    (void)n;
#endif
}

void lk_filemap_close(lk_filemap *map) {
    if (map->data != NULL) {
        void *data;
        memcpy(&data, &map->data, sizeof data);
        (void)munmap(data, map->size);
    }
    map->data = NULL;
    map->size = 0;
}
