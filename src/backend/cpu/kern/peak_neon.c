/* peak_neon.c - see peak.h. */
#include "backend/cpu/kern/peak.h"

#include <arm_neon.h>

enum { N_CHAINS = 16 };

int32_t lk_peak_int8_neon(uint32_t n_rounds, const int8_t in[64]) {
    const int8x16_t a = vld1q_s8(in);
    const int8x16_t b = vld1q_s8(in + 16);
    int32x4_t acc[N_CHAINS];
    for (int i = 0; i < N_CHAINS; i++) { /* all different: equal ones would be made once */
        acc[i] = vdupq_n_s32(i);
    }
    for (uint32_t k = 0; k < n_rounds; k++) {
        for (int i = 0; i < N_CHAINS; i++) {
            acc[i] = vdotq_s32(acc[i], a, b);
        }
    }
    for (int i = 1; i < N_CHAINS; i++) {
        acc[0] = vaddq_s32(acc[0], acc[i]);
    }
    return vaddvq_s32(acc[0]);
}

int32_t lk_peak_float_neon(uint32_t n_rounds, const int8_t in[64]) {
    const float32x4_t a = vdupq_n_f32(0.5f);
    float32x4_t acc[N_CHAINS];
    for (int i = 0; i < N_CHAINS; i++) {
        acc[i] = vdupq_n_f32((float)(in[i] + i));
    }
    for (uint32_t k = 0; k < n_rounds; k++) {
        for (int i = 0; i < N_CHAINS; i++) {
            acc[i] = vfmaq_f32(a, acc[i], a);
        }
    }
    for (int i = 1; i < N_CHAINS; i++) {
        acc[0] = vaddq_f32(acc[0], acc[i]);
    }
    return vaddvq_s32(vcvtq_s32_f32(acc[0]));
}
