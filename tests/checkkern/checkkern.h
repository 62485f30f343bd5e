/* checkkern.h - what the checks of tests/checkkern share: the run (table under test, seed, counts),
 * guarded memory, kinds of input, comparison, and the clock of --bench.
 *
 * For each operator of ops.def there is one function ck_check_<name>, which calls the table's slot
 * and the scalar twin with the same input and compares outputs bit by bit, and one ck_bench_<name>.
 * test_checkkern.c finds them by name, so an operator without them does not link. */
#ifndef LK_CHECKKERN_H
#define LK_CHECKKERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/kernels.h"
#include "ops/ops.h"

typedef struct ck_run {
    const lk_cpu_kernels *kernels; /* under test */
    const char *isa;
    const char *only; /* a part of "operator.format", or NULL */
    bool is_quiet;    /* counts failures, prints none: planted faults */
    uint64_t rng;
    uint64_t n_calls; /* calls compared */
    uint64_t n_failures;
    char where[192]; /* the case at hand */
} ck_run;

/* ---- memory ---- */

/* Buffers of CK_BUFFER_BYTES, one for each role in a call; pages that cannot be touched lie before
 * and after each, so a kernel that reads or writes too far is stopped, and the case is named. */
typedef enum ck_role {
    CK_IN0,
    CK_IN1,
    CK_IN2,
    CK_IN3,
    CK_WEIGHTS,
    CK_OUT0,
    CK_OUT1,
    CK_OUT2,
    CK_WANT0,
    CK_WANT1,
    CK_WANT2,
    CK_N_ROLES
} ck_role;
enum { CK_BUFFER_BYTES = 8 << 20, CK_GUARD_BYTES = 512 };

void ck_memory_init(void);
/* The run that a fault is reported for. */
void ck_memory_watch(const ck_run *run);
/* `size` bytes that end `gap` bytes before the untouchable page, with guard bytes on both sides.
 * The same role's earlier memory is gone. */
void *ck_place(ck_role role, size_t size, size_t gap);
float *ck_place_f32(ck_role role, size_t n, size_t gap_elems);
/* Fails when a guard byte around the role's memory has changed. */
void ck_check_guard(ck_run *run, ck_role role);

/* ---- input ---- */

typedef enum ck_kind {
    CK_NORMAL,    /* about -4 .. 4 */
    CK_WIDE,      /* any finite bit pattern */
    CK_SUBNORMAL, /* below 2^-126, zeros of both signs */
    CK_ZERO,
    CK_HUGE,      /* 2^125 and more, and ones */
    CK_TIES,      /* halves of integers up to 127, scaled by a power of two */
    CK_THRESHOLD, /* around one of 2^-100, 2^-60, 2^62, 2^64, 2^111, 2^120, 2^127 */
    CK_BAD,       /* normal, but for one infinity or NaN */
    CK_N_KINDS
} ck_kind;
const char *ck_kind_name(ck_kind kind);
uint64_t ck_random(ck_run *run);
/* 0 .. n-1 */
size_t ck_below(ck_run *run, size_t n);
void ck_fill(ck_run *run, float *x, size_t n, ck_kind kind);

/* ---- comparison ---- */

void ck_at(ck_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ck_fail(ck_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool ck_wanted(const ck_run *run, const char *name);
/* Equal bits; any NaN equals any NaN. */
void ck_same_f32(ck_run *run, const char *what, const float *got, const float *want, size_t n);
void ck_same_bytes(ck_run *run, const char *what, const void *got, const void *want, size_t n);
/* Counts the call and compares flags; true when the outputs are to be compared (none flagged). */
bool ck_same_flags(ck_run *run, uint32_t got, uint32_t want);

/* Sizes of a row: 1 .. 70, and what models use. */
extern const size_t ck_row_sizes[];
extern const size_t ck_n_row_sizes;

/* ---- --bench ---- */

typedef void ck_bench_fn(void *arg);
/* Times fn and prints a line: name, instruction set, ns per call, GB/s, 1e9 operations/s. */
void ck_bench(const ck_run *run, const char *name, ck_bench_fn *fn, void *arg, double bytes,
              double ops);

/* ---- one of each per operator ---- */

#define LK_OP(name)                                                                                \
    void ck_check_##name(ck_run *run);                                                             \
    void ck_bench_##name(ck_run *run);
#define LK_OP_MATMUL_FLOAT(format)                                                                 \
    void ck_check_matmul_##format(ck_run *run);                                                    \
    void ck_bench_matmul_##format(ck_run *run);
#include "ops/ops.def"
#undef LK_OP
#undef LK_OP_MATMUL_FLOAT

#endif
