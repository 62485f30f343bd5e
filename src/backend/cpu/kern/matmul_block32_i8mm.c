/* matmul_block32_i8mm.c - the matrix product of the 32-element formats with I8MM; see
 * matmul_formats.h. */
#include "backend/cpu/kern/kern_i8mm.h"
#include "backend/cpu/kern/matmul_formats.h"

LK_DEFINE_ROWS_PRODUCT(lk_matmul_block32_i8mm, LK_BLOCK32_FORMATS)
