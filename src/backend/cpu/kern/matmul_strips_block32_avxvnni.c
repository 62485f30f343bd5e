/* matmul_strips_block32_avxvnni.c - the matrix product of the 32-element formats from strips with
 * AVX-VNNI; see matmul_formats.h. */
#include "backend/cpu/kern/kern_avxvnni.h"
#include "backend/cpu/kern/matmul_formats.h"

LK_DEFINE_STRIPS_PRODUCT(lk_matmul_strips_block32_avxvnni, LK_BLOCK32_FORMATS)
