/* cudakern.h - what the checks of the CUDA kernels share. Each draws input as checkkern does, runs
 * the kernel on a device, and compares with the scalar twins of src/ops: rows that the definition
 * flags have to be flagged, all others have to be equal bit by bit. */
#ifndef LK_CUDAKERN_H
#define LK_CUDAKERN_H

#include "checkkern.h"
#include "kern_device.h"

enum { CU_NODE = 7 }; /* the number of the node that the kernels are told */

/* Flags for n_rows rows on the device, all clean. */
lk_cuda_flags cu_flags(uint32_t n_rows);
/* Compares a value of the device with what is wanted: rows of `width` floats, want_flags[r] nonzero
 * where row r is to be flagged. Then frees what the device has. */
void cu_compare(ck_run *run, const char *what, const float *got, const float *want,
                const uint32_t *want_flags, const lk_cuda_flags *flags, uint32_t n_rows,
                uint32_t width);
/* The flags alone, also from the want values that are not finite. */
void cu_finish_flags(const float *want, uint32_t *want_flags, uint32_t n_rows, uint32_t width);
void *cu_host(size_t bytes); /* memory that ends the program when there is none */

void cu_check_row_wise(ck_run *run);
void cu_check_matmul(ck_run *run);
void cu_check_attention(ck_run *run);
void cu_check_experts(ck_run *run);
/* Times; a card only. */
void cu_bench(void);

#endif
