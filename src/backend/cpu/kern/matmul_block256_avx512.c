/* matmul_block256_avx512.c - the matrix product of the 256-element formats with AVX-512; see
 * matmul_formats.h. */
#include "backend/cpu/kern/kern_avx512.h"
#include "backend/cpu/kern/matmul_formats.h"

LK_DEFINE_ROWS_PRODUCT(lk_matmul_block256_avx512, LK_BLOCK256_FORMATS)
