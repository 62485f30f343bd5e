/* matmul_block256_avxvnni.c - the matrix product of the 256-element formats with AVX-VNNI; see
 * matmul_formats.h. */
#include "backend/cpu/kern/kern_avxvnni.h"
#include "backend/cpu/kern/matmul_formats.h"

LK_DEFINE_ROWS_PRODUCT(lk_matmul_block256_avxvnni, LK_BLOCK256_FORMATS)
