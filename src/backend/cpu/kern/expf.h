/* expf.h - lk_expf, lk_tanhf and lk_gelu_erff (ops/math.h) lane by lane: the same steps in the same
 * order, so the same bits. */
#ifndef LK_BACKEND_CPU_KERN_EXPF_H
#define LK_BACKEND_CPU_KERN_EXPF_H

#include "backend/cpu/kern/vec.h"
#include "ops/math.h"

/* 2^n * e^r = e^x: the sum y before 1 is added, and 2^n. */
LK_INLINE lk_vf lk_vf_exp_parts(lk_vf x, lk_vf *power) {
    const lk_vf magic = lk_vf_set(LK_EXPF_MAGIC);
    const lk_vf t = lk_vf_add(lk_vf_mul(x, lk_vf_set(LK_EXPF_LOG2E)), magic);
    const lk_vf n = lk_vf_sub(t, magic);
    lk_vf r = lk_vf_sub(x, lk_vf_mul(n, lk_vf_set(LK_EXPF_LN2_HI)));
    r = lk_vf_sub(r, lk_vf_mul(n, lk_vf_set(LK_EXPF_LN2_LO)));
    lk_vf y = lk_vf_set(LK_EXPF_C4);
    y = lk_vf_add(lk_vf_mul(y, r), lk_vf_set(LK_EXPF_C3));
    y = lk_vf_add(lk_vf_mul(y, r), lk_vf_set(LK_EXPF_C2));
    y = lk_vf_add(lk_vf_mul(y, r), lk_vf_set(LK_EXPF_C1));
    y = lk_vf_add(lk_vf_mul(y, r), lk_vf_set(LK_EXPF_C0));
    y = lk_vf_mul(y, lk_vf_mul(r, r));
    *power = lk_vf_bits(lk_vi_add32(lk_vi_shl32(lk_vi_bits(t), 23), lk_vi_set32(0x3f800000)));
    return lk_vf_add(y, r);
}

LK_INLINE lk_vf lk_vf_exp(lk_vf x) {
    lk_vf power;
    lk_vf y = lk_vf_exp_parts(x, &power);
    y = lk_vf_mul(lk_vf_add(y, lk_vf_set(1.0f)), power);
    y = lk_vf_if_less(x, lk_vf_set(LK_EXPF_MIN), lk_vf_zero(), y);
    return lk_vf_if_less(lk_vf_set(LK_EXPF_MAX), x, lk_vf_bits(lk_vi_set32(0x7f800000)), y);
}

LK_INLINE lk_vf lk_vf_tanh(lk_vf x) {
    const lk_vi sign = lk_vi_and(lk_vi_bits(x), lk_vi_set32((int32_t)0x80000000u));
    const lk_vf two = lk_vf_set(2.0f);
    const lk_vf max = lk_vf_set(LK_TANHF_MAX);
    lk_vf z = lk_vf_mul(lk_vf_bits(lk_vi_and(lk_vi_bits(x), lk_vi_set32(0x7fffffff))), two);
    z = lk_vf_if_less(max, z, max, z);
    lk_vf power;
    const lk_vf y = lk_vf_exp_parts(z, &power);
    const lk_vf e = lk_vf_add(lk_vf_mul(y, power), lk_vf_sub(power, lk_vf_set(1.0f)));
    return lk_vf_bits(lk_vi_or(lk_vi_bits(lk_vf_div(e, lk_vf_add(e, two))), sign));
}

LK_INLINE lk_vf lk_vf_gelu_erf(lk_vf x) {
    const lk_vf one = lk_vf_set(1.0f);
    const lk_vf t = lk_vf_bits(lk_vi_and(lk_vi_bits(x), lk_vi_set32(0x7fffffff)));
    const lk_vf u = lk_vf_div(one, lk_vf_add(one, lk_vf_mul(lk_vf_set(LK_GELU_ERF_SLOPE), t)));
    lk_vf p = lk_vf_set(LK_GELU_ERF_C7);
    p = lk_vf_add(lk_vf_mul(p, u), lk_vf_set(LK_GELU_ERF_C6));
    p = lk_vf_add(lk_vf_mul(p, u), lk_vf_set(LK_GELU_ERF_C5));
    p = lk_vf_add(lk_vf_mul(p, u), lk_vf_set(LK_GELU_ERF_C4));
    p = lk_vf_add(lk_vf_mul(p, u), lk_vf_set(LK_GELU_ERF_C3));
    p = lk_vf_add(lk_vf_mul(p, u), lk_vf_set(LK_GELU_ERF_C2));
    p = lk_vf_add(lk_vf_mul(p, u), lk_vf_set(LK_GELU_ERF_C1));
    p = lk_vf_add(lk_vf_mul(p, u), lk_vf_set(LK_GELU_ERF_C0));
    p = lk_vf_mul(p, u);
    const lk_vf half_square = lk_vf_mul(lk_vf_mul(t, t), lk_vf_set(0.5f));
    const lk_vf q = lk_vf_mul(p, lk_vf_exp(lk_vf_neg(half_square)));
    return lk_vf_mul(x, lk_vf_if_less(x, lk_vf_zero(), q, lk_vf_sub(one, q)));
}

#endif
