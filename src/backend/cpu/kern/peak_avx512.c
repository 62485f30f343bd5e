/* peak_avx512.c - see peak.h. */
#include "backend/cpu/kern/peak.h"

#include <immintrin.h>

enum { N_CHAINS = 16 };

int32_t lk_peak_int8_avx512(uint32_t n_rounds, const int8_t in[64]) {
    const __m512i a = _mm512_loadu_si512(in);
    const __m512i b = _mm512_xor_si512(a, _mm512_set1_epi8(1));
    __m512i acc[N_CHAINS];
    for (int i = 0; i < N_CHAINS; i++) {
        acc[i] = _mm512_setzero_si512();
    }
    for (uint32_t k = 0; k < n_rounds; k++) {
        for (int i = 0; i < N_CHAINS; i++) {
            acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
        }
    }
    for (int i = 1; i < N_CHAINS; i++) {
        acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    }
    return _mm512_reduce_add_epi32(acc[0]);
}

int32_t lk_peak_float_avx512(uint32_t n_rounds, const int8_t in[64]) {
    const __m512 a = _mm512_set1_ps(0.5f);
    const __m512 b = _mm512_set1_ps((float)in[0]);
    __m512 acc[N_CHAINS];
    for (int i = 0; i < N_CHAINS; i++) {
        acc[i] = _mm512_set1_ps((float)i);
    }
    for (uint32_t k = 0; k < n_rounds; k++) {
        for (int i = 0; i < N_CHAINS; i++) {
            acc[i] = _mm512_fmadd_ps(acc[i], a, b);
        }
    }
    for (int i = 1; i < N_CHAINS; i++) {
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    }
    return _mm512_reduce_add_epi32(_mm512_cvtps_epi32(acc[0]));
}

int64_t lk_peak_read_avx512(const void *memory, size_t n_bytes) {
    const char *p = (const char *)memory;
    __m512i acc[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                      _mm512_setzero_si512()};
    for (size_t at = 0; at < n_bytes; at += 256) {
        for (int i = 0; i < 4; i++) {
            acc[i] = _mm512_add_epi64(acc[i], _mm512_load_si512(p + at + 64 * i));
        }
    }
    return _mm512_reduce_add_epi64(
        _mm512_add_epi64(_mm512_add_epi64(acc[0], acc[1]), _mm512_add_epi64(acc[2], acc[3])));
}
