/* peak_avx2.c - see peak.h. A dot product of int8 is three instructions here: products of pairs in
 * 16 bits, sums of pairs in 32 bits, addition. */
#include "backend/cpu/kern/peak.h"

#include <immintrin.h>

enum { N_CHAINS = 6 };

int32_t lk_peak_int8_avx2(uint32_t n_rounds, const int8_t in[64]) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)in);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i step = _mm256_set1_epi8(1);
    __m256i b[N_CHAINS]; /* all different: equal products would be made once */
    __m256i acc[N_CHAINS];
    for (int i = 0; i < N_CHAINS; i++) {
        b[i] = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)(in + 32)),
                                _mm256_set1_epi8((char)i));
        acc[i] = _mm256_setzero_si256();
    }
    for (uint32_t k = 0; k < n_rounds; k++) {
        a = _mm256_add_epi8(a, step); /* so that nothing moves out of the loop */
        for (int i = 0; i < N_CHAINS; i++) {
            acc[i] =
                _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b[i]), ones));
        }
    }
    int32_t lanes[8];
    int32_t sum = 0;
    for (int i = 0; i < N_CHAINS; i++) {
        _mm256_storeu_si256((__m256i *)(void *)lanes, acc[i]);
        sum ^= lanes[i];
    }
    return sum;
}

int32_t lk_peak_float_avx2(uint32_t n_rounds, const int8_t in[64]) {
    enum { N_SUMS = 12 };
    const __m256 a = _mm256_set1_ps(0.5f);
    const __m256 b = _mm256_set1_ps((float)in[0]);
    __m256 acc[N_SUMS];
    for (int i = 0; i < N_SUMS; i++) {
        acc[i] = _mm256_set1_ps((float)i);
    }
    for (uint32_t k = 0; k < n_rounds; k++) {
        for (int i = 0; i < N_SUMS; i++) {
            acc[i] = _mm256_fmadd_ps(acc[i], a, b);
        }
    }
    for (int i = 1; i < N_SUMS; i++) {
        acc[0] = _mm256_add_ps(acc[0], acc[i]);
    }
    return _mm256_cvtsi256_si32(_mm256_cvtps_epi32(acc[0]));
}

int64_t lk_peak_read_avx2(const void *memory, size_t n_bytes) {
    const char *p = (const char *)memory;
    __m256i acc[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                      _mm256_setzero_si256()};
    for (size_t at = 0; at < n_bytes; at += 128) {
        for (int i = 0; i < 4; i++) {
            const __m256i x = _mm256_load_si256((const __m256i *)(const void *)(p + at + 32 * i));
            acc[i] = _mm256_add_epi64(acc[i], x);
        }
    }
    int64_t lanes[4];
    _mm256_storeu_si256(
        (__m256i *)(void *)lanes,
        _mm256_add_epi64(_mm256_add_epi64(acc[0], acc[1]), _mm256_add_epi64(acc[2], acc[3])));
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}
