/* attention_avxvnni.c - attention with AVX-VNNI, which makes the integer dots of quantised keys;
 * attention.h says how. One copy of the code for each format of the values. */
#include "backend/cpu/kern/attention.h"
#include "backend/cpu/kern/kern_avxvnni.h"

static void values_f32(const lk_attn_args *args) {
    lk_attn_all_chunks(LK_KV_FORMAT_F32, args);
}

static void values_f16(const lk_attn_args *args) {
    lk_attn_all_chunks(LK_KV_FORMAT_F16, args);
}

static void values_q8_0(const lk_attn_args *args) {
    lk_attn_all_chunks(LK_KV_FORMAT_Q8_0, args);
}

void lk_attention_avxvnni(const lk_attn_args *args) {
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
