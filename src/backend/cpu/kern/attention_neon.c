/* attention_neon.c - attention with NEON; attention.h says how. One copy of the code for each
 * format of the values. */
#include "backend/cpu/kern/attention.h"
#include "backend/cpu/kern/kern_neon.h"

static void values_f32(const lk_attn_args *args) {
    lk_attn_all_chunks(LK_KV_FORMAT_F32, args);
}

static void values_f16(const lk_attn_args *args) {
    lk_attn_all_chunks(LK_KV_FORMAT_F16, args);
}

static void values_q8_0(const lk_attn_args *args) {
    lk_attn_all_chunks(LK_KV_FORMAT_Q8_0, args);
}

void lk_attention_neon(const lk_attn_args *args) {
    switch (args->v_format) {
    case LK_KV_FORMAT_F32:
        values_f32(args);
        break;
    case LK_KV_FORMAT_F16:
        values_f16(args);
        break;
    case LK_KV_FORMAT_Q8_0:
        values_q8_0(args);
        break;
    }
}

void lk_attention_join_neon(const lk_attn_parts *parts) {
    lk_attn_join(parts);
}
