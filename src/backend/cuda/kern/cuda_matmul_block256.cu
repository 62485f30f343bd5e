/* cuda_matmul_block256.cu - the products of the formats with blocks of 256 (matmul_quant.h). */
#include "backend/cuda/kern/matmul_quant.h"

LK_KERNEL(matmul_q2_k, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q2_K, &step);
}
LK_KERNEL(matmul_q2_k_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q2_K, &terms);
}

LK_KERNEL(matmul_q3_k, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q3_K, &step);
}
LK_KERNEL(matmul_q3_k_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q3_K, &terms);
}

LK_KERNEL(matmul_q4_k, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q4_K, &step);
}
LK_KERNEL(matmul_q4_k_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q4_K, &terms);
}

LK_KERNEL(matmul_q5_k, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q5_K, &step);
}
LK_KERNEL(matmul_q5_k_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q5_K, &terms);
}

LK_KERNEL(matmul_q6_k, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_Q6_K, &step);
}
LK_KERNEL(matmul_q6_k_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_Q6_K, &terms);
}

LK_KERNEL(matmul_iq4_xs, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_step_tile step;
    lk_multiply_tile(&a, LK_FORMAT_IQ4_XS, &step);
}
LK_KERNEL(matmul_iq4_xs_few, lk_cuda_matmul_quant_args) {
    LK_SHARED lk_few_terms terms;
    lk_multiply_few(&a, LK_FORMAT_IQ4_XS, &terms);
}
