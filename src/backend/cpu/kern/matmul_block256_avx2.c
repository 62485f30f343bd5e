/* matmul_block256_avx2.c - the matrix product of the 256-element formats with AVX2; see
 * matmul_formats.h. */
#include "backend/cpu/kern/kern_avx2.h"
#include "backend/cpu/kern/matmul_formats.h"

LK_DEFINE_ROWS_PRODUCT(lk_matmul_block256_avx2, LK_BLOCK256_FORMATS)
