/* matmul_block32_neon.c - the matrix product of the 32-element formats with NEON; see
 * matmul_formats.h. */
#include "backend/cpu/kern/kern_neon.h"
#include "backend/cpu/kern/matmul_formats.h"

LK_DEFINE_ROWS_PRODUCT(lk_matmul_block32_neon, LK_BLOCK32_FORMATS)
