/* cudakern.c - see cudakern.h. */
#include "cudakern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *cu_host(size_t bytes) {
    void *const p = calloc(1, bytes == 0 ? 1 : bytes);
    if (p == NULL) {
        (void)fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

lk_cuda_flags cu_flags(uint32_t n_rows) {
    /* Rows of the step in reverse, so that a kernel that forgets the table is caught. */
    uint32_t *const clean = cu_host(n_rows * sizeof *clean);
    uint32_t *const step_row = cu_host(n_rows * sizeof *step_row);
    for (uint32_t r = 0; r < n_rows; r++) {
        clean[r] = (uint32_t)LK_CUDA_CLEAN;
        step_row[r] = n_rows - 1 - r;
    }
    const lk_cuda_flags flags = {.bad = kd_put(clean, n_rows * sizeof *clean, 0),
                                 .step_row = kd_put(step_row, n_rows * sizeof *step_row, 0),
                                 .node = CU_NODE};
    free(clean);
    free(step_row);
    return flags;
}

void cu_finish_flags(const float *want, uint32_t *want_flags, uint32_t n_rows, uint32_t width) {
    for (uint32_t r = 0; r < n_rows; r++) {
        want_flags[r] |= lk_check_finite_ref(want + (size_t)r * width, width);
    }
}

void cu_compare(ck_run *run, const char *what, const float *got, const float *want,
                const uint32_t *want_flags, const lk_cuda_flags *flags, uint32_t n_rows,
                uint32_t width) {
    const size_t n = (size_t)n_rows * width;
    float *const y = cu_host(n * sizeof *y);
    uint32_t *const bad = cu_host(n_rows * sizeof *bad);
    kd_get(y, got, n * sizeof *y);
    kd_get(bad, flags->bad, n_rows * sizeof *bad);
    for (uint32_t r = 0; r < n_rows; r++) {
        const uint32_t flag = bad[n_rows - 1 - r];
        if (flag != (uint32_t)LK_CUDA_CLEAN && flag != CU_NODE) {
            ck_fail(run, "row %u: the node that flagged it is %u", r, flag);
        }
        if (ck_same_flags(run, flag != (uint32_t)LK_CUDA_CLEAN, want_flags[r])) {
            ck_same_f32(run, what, y + (size_t)r * width, want + (size_t)r * width, width);
        }
    }
    free(y);
    free(bad);
    kd_free_all();
}
