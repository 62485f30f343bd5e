/* peak.h - loops that do nothing but keep the processor's int8 or binary32 units, or its loads,
 * busy: what kernels are measured against. Their results mean nothing, but must be used. */
#ifndef LK_BACKEND_CPU_KERN_PEAK_H
#define LK_BACKEND_CPU_KERN_PEAK_H

#include <stddef.h>
#include <stdint.h>

/* Operations of one round of each loop. */
enum {
    LK_PEAK_INT8_AVX2_OPS = 6 * 32 * 2,
    LK_PEAK_INT8_AVXVNNI_OPS = 12 * 32 * 2,
    LK_PEAK_INT8_AVX512_OPS = 16 * 64 * 2,
    LK_PEAK_INT8_AMX_OPS = 4 * 16 * 16 * 64 * 2,
    LK_PEAK_INT8_NEON_OPS = 16 * 16 * 2,
    LK_PEAK_INT8_I8MM_OPS = 16 * 32 * 2,
    LK_PEAK_FLOAT_AVX2_OPS = 12 * 8 * 2,
    LK_PEAK_FLOAT_AVX512_OPS = 16 * 16 * 2,
    LK_PEAK_FLOAT_NEON_OPS = 16 * 4 * 2
};
int32_t lk_peak_int8_avx2(uint32_t n_rounds, const int8_t in[64]);
int32_t lk_peak_int8_avxvnni(uint32_t n_rounds, const int8_t in[64]);
int32_t lk_peak_int8_avx512(uint32_t n_rounds, const int8_t in[64]);
int32_t lk_peak_int8_amx(uint32_t n_rounds, const int8_t in[64]);
int32_t lk_peak_int8_neon(uint32_t n_rounds, const int8_t in[64]);
int32_t lk_peak_int8_i8mm(uint32_t n_rounds, const int8_t in[64]);
/* Fused multiply-adds of binary32. */
int32_t lk_peak_float_avx2(uint32_t n_rounds, const int8_t in[64]);
int32_t lk_peak_float_avx512(uint32_t n_rounds, const int8_t in[64]);
int32_t lk_peak_float_neon(uint32_t n_rounds, const int8_t in[64]);

/* Reads n_bytes, a multiple of 4096, at a 64-byte boundary. */
int64_t lk_peak_read_avx2(const void *memory, size_t n_bytes);
int64_t lk_peak_read_avx512(const void *memory, size_t n_bytes);

#endif
