/* vec.h - the vectors of the instruction set that a kernel file is compiled for, so that code for
 * unpacking and tiling is written once. Included by kernel files only; everything is inlined, so no
 * symbol can be picked up by code for another processor. */
#ifndef LK_BACKEND_CPU_KERN_VEC_H
#define LK_BACKEND_CPU_KERN_VEC_H

#if defined(__AVX512F__)
#include "backend/cpu/kern/vec_avx512.h"
#elif defined(__AVX2__)
#include "backend/cpu/kern/vec_avx2.h"
#elif defined(__aarch64__)
#include "backend/cpu/kern/vec_neon.h"
#endif

#endif
