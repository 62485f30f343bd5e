/* guarded.c - the guarded memory of checkkern.h. Each role has its own pages, with pages that
 * cannot be touched around them; the handler of the fault names the case and ends the program. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkkern.h"

enum { GUARD_VALUE = 0xA5 };

typedef struct region {
    uint8_t *begin;
    uint8_t *end;
    uint8_t *data;
    size_t size;
} region;

static region regions[CK_N_ROLES];
static const ck_run *watched;

static void say(const char *text) {
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static void on_fault(int signal_number) {
    (void)signal_number;
    say("FAILED: memory outside the buffers was touched: ");
    if (watched != NULL) {
        say(watched->isa);
        say(", ");
        say(watched->where);
    }
    say("\n");
    _exit(1);
}

void ck_memory_init(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t size = CK_BUFFER_BYTES + 2 * page;
    for (int role = 0; role < CK_N_ROLES; role++) {
        uint8_t *const map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED || mprotect(map + page, CK_BUFFER_BYTES, PROT_READ | PROT_WRITE)) {
            perror("mmap");
            exit(1);
        }
        regions[role].begin = map + page;
        regions[role].end = map + page + CK_BUFFER_BYTES;
        regions[role].data = regions[role].end;
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_fault;
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
}

void ck_memory_watch(const ck_run *run) {
    watched = run;
}

void *ck_place(ck_role role, size_t size, size_t gap) {
    region *const r = &regions[role];
    if (size + gap + CK_GUARD_BYTES > CK_BUFFER_BYTES || gap > CK_GUARD_BYTES) {
        (void)fprintf(stderr, "a buffer of %zu bytes is too large\n", size);
        exit(1);
    }
    r->data = r->end - gap - size;
    r->size = size;
    memset(r->data - CK_GUARD_BYTES, GUARD_VALUE, CK_GUARD_BYTES + size + gap);
    return r->data;
}

float *ck_place_f32(ck_role role, size_t n, size_t gap_elems) {
    return ck_place(role, n * sizeof(float), gap_elems * sizeof(float));
}

void ck_check_guard(ck_run *run, ck_role role) {
    const region *const r = &regions[role];
    for (const uint8_t *p = r->data - CK_GUARD_BYTES; p < r->end; p++) {
        if (p == r->data) {
            p += r->size;
            if (p == r->end) {
                break;
            }
        }
        if (*p != GUARD_VALUE) {
            ck_fail(run, "byte %td of an output of %zu bytes was written", p - r->data, r->size);
            return;
        }
    }
}
