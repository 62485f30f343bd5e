/* verify_load.c - see verify_load.h. */
#include "verify_load.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N_KINDS = 4,
    MAX_THREADS = 256,
    VECTOR_FLOATS = 4096,
    MEMORY_BYTES = 32 << 20, /* of each thread, twice */
    FILE_BYTES = 8 << 20,
    PIECE_BYTES = 1 << 20
};

typedef struct stressor {
    verify_load *load;
    int kind; /* bit number */
    pthread_t thread;
} stressor;

struct verify_load {
    atomic_bool stop;
    _Atomic uint64_t sink; /* so that nothing is optimised away */
    size_t n;
    stressor threads[MAX_THREADS];
};

static void stress_integers(verify_load *load) {
    uint64_t x = 88172645463325252u;
    while (!atomic_load_explicit(&load->stop, memory_order_relaxed)) {
        for (int i = 0; i < 1 << 16; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
    }
    atomic_fetch_add(&load->sink, x);
}

static void stress_vectors(verify_load *load) {
    static const float start = 1.0f;
    float values[VECTOR_FLOATS];
    for (int i = 0; i < VECTOR_FLOATS; i++) {
        values[i] = start + (float)i;
    }
    while (!atomic_load_explicit(&load->stop, memory_order_relaxed)) {
        for (int again = 0; again < 64; again++) {
            for (int i = 0; i < VECTOR_FLOATS; i++) {
                values[i] = values[i] * 0.999f + 0.5f;
            }
        }
    }
    atomic_fetch_add(&load->sink, (uint64_t)values[VECTOR_FLOATS / 2]);
}

static void stress_memory(verify_load *load) {
    char *a = calloc(2, MEMORY_BYTES);
    char *b = a != NULL ? a + MEMORY_BYTES : NULL;
    while (a != NULL && !atomic_load_explicit(&load->stop, memory_order_relaxed)) {
        for (size_t at = 0; at < MEMORY_BYTES; at += PIECE_BYTES) {
            memcpy(b + at, a + at, PIECE_BYTES);
            a[at]++;
        }
        char *t = a;
        a = b;
        b = t;
    }
    free(a < b ? a : b);
}

/* Writes and reads a file that the system then forgets, again and again. */
static void stress_files(verify_load *load) {
    char path[320];
    const char *folder = getenv("TMPDIR");
    (void)snprintf(path, sizeof path, "%.250s/lockstep-load-XXXXXX",
                   folder != NULL ? folder : "/tmp");
    const int file = mkstemp(path);
    char *piece = calloc(1, PIECE_BYTES);
    if (file >= 0) {
        (void)unlink(path);
    }
    while (file >= 0 && piece != NULL && !atomic_load_explicit(&load->stop, memory_order_relaxed)) {
        for (off_t at = 0; at < FILE_BYTES; at += PIECE_BYTES) {
            if (pwrite(file, piece, PIECE_BYTES, at) != PIECE_BYTES ||
                pread(file, piece, PIECE_BYTES, at) != PIECE_BYTES) {
                break;
            }
        }
        (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    }
    free(piece);
    if (file >= 0) {
        (void)close(file);
    }
}

static void *run_stressor(void *arg) {
    static void (*const kinds[N_KINDS])(verify_load *) = {stress_integers, stress_vectors,
                                                          stress_memory, stress_files};
    stressor *s = arg;
    kinds[s->kind](s->load);
    return NULL;
}

verify_load *verify_load_start(int64_t kinds) {
    verify_load *load = calloc(1, sizeof *load);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (load == NULL) {
        return NULL;
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (long i = 0; (kinds >> kind & 1) != 0 && i < n && load->n < MAX_THREADS; i++) {
            stressor *s = &load->threads[load->n];
            *s = (stressor){.load = load, .kind = kind};
            if (pthread_create(&s->thread, NULL, run_stressor, s) != 0) {
                verify_load_stop(load);
                return NULL;
            }
            load->n++;
        }
    }
    return load;
}

void verify_load_stop(verify_load *load) {
    if (load == NULL) {
        return;
    }
    atomic_store(&load->stop, true);
    for (size_t i = 0; i < load->n; i++) {
        (void)pthread_join(load->threads[i].thread, NULL);
    }
    free(load);
}
