/* cuda_matmul_block32.cu - the products of the formats with blocks of 32 (matmul_quant.h). */
#include "backend/cuda/kern/matmul_quant.h"

LK_KERNEL(matmul_q4_0, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q4_0, &step);
}
LK_KERNEL(matmul_q4_0_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q4_0, &terms);
}

LK_KERNEL(matmul_q4_1, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q4_1, &step);
}
LK_KERNEL(matmul_q4_1_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q4_1, &terms);
}

LK_KERNEL(matmul_q5_0, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q5_0, &step);
}
LK_KERNEL(matmul_q5_0_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q5_0, &terms);
}

LK_KERNEL(matmul_q5_1, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q5_1, &step);
}
LK_KERNEL(matmul_q5_1_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q5_1, &terms);
}

LK_KERNEL(matmul_q8_0, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q8_0, &step);
}
LK_KERNEL(matmul_q8_0_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q8_0, &terms);
}

LK_KERNEL(matmul_iq4_nl, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_IQ4_NL, &step);
}
LK_KERNEL(matmul_iq4_nl_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_IQ4_NL, &terms);
}

LK_KERNEL(matmul_mxfp4, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_MXFP4, &step);
}
LK_KERNEL(matmul_mxfp4_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_MXFP4, &terms);
}
