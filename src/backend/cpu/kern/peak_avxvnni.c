/* peak_avxvnni.c - see peak.h. */
#include "backend/cpu/kern/peak.h"

#include <immintrin.h>

enum { N_CHAINS = 12 };

int32_t lk_peak_int8_avxvnni(uint32_t n_rounds, const int8_t in[64]) {
    const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)in);
    const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(in + 32));
    __m256i acc[N_CHAINS];
    for (int i = 0; i < N_CHAINS; i++) { /* all different: equal ones would be made once */
        acc[i] = _mm256_set1_epi32(i);
    }
    for (uint32_t k = 0; k < n_rounds; k++) {
        for (int i = 0; i < N_CHAINS; i++) {
            acc[i] = _mm256_dpbusd_avx_epi32(acc[i], a, b);
        }
    }
    int32_t lanes[8];
    for (int i = 1; i < N_CHAINS; i++) {
        acc[0] = _mm256_add_epi32(acc[0], acc[i]);
    }
    _mm256_storeu_si256((__m256i *)(void *)lanes, acc[0]);
    return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3] ^ lanes[4] ^ lanes[5] ^ lanes[6] ^ lanes[7];
}
