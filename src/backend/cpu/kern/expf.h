/* expf.h - lk_expf (ops/math.h) lane by lane: the same steps in the same order, so the same bits.
 */
#ifndef LK_BACKEND_CPU_KERN_EXPF_H
#define LK_BACKEND_CPU_KERN_EXPF_H

#include "backend/cpu/kern/vec.h"
#include "ops/math.h"

LK_INLINE lk_vf lk_vf_exp(lk_vf x) {
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
    y = lk_vf_add(y, r);
    y = lk_vf_add(y, lk_vf_set(1.0f));
    const lk_vi power = lk_vi_add32(lk_vi_shl32(lk_vi_bits(t), 23), lk_vi_set32(0x3f800000));
    y = lk_vf_mul(y, lk_vf_bits(power));
    y = lk_vf_if_less(x, lk_vf_set(LK_EXPF_MIN), lk_vf_zero(), y);
    return lk_vf_if_less(lk_vf_set(LK_EXPF_MAX), x, lk_vf_bits(lk_vi_set32(0x7f800000)), y);
}

#endif
