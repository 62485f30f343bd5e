/* matmul_strips_block256_i8mm.c - the matrix product of the 256-element formats from strips with
 * I8MM; see matmul_formats.h. */
#include "backend/cpu/kern/kern_i8mm.h"
#include "backend/cpu/kern/matmul_formats.h"

LK_DEFINE_STRIPS_PRODUCT(lk_matmul_strips_block256_i8mm, LK_BLOCK256_FORMATS)
