/* kernels.c - fills the table of kernels: scalar twins first, then what each instruction set has.
 * It holds no kernel. Invariant: after lk_cpu_kernels_init every slot can be called, but for
 * matmul_format of unquantised formats, which stay NULL. */
#include "backend/cpu/kernels.h"

static void init_twins(lk_cpu_kernels *kernels) {
    *kernels = (lk_cpu_kernels){
#define LK_OP(name) .name = lk_##name##_ref,
#define LK_OP_MATMUL_FLOAT(format) .matmul_##format = lk_matmul_##format##_ref,
#include "ops/ops.def"
#undef LK_OP
#undef LK_OP_MATMUL_FLOAT
    };
    for (size_t i = 0; i < lk_format_count() && i < LK_MAX_FORMATS; i++) {
        if (lk_format_at(i)->block_dot != NULL) {
            kernels->matmul_format[i] = lk_matmul_quant_ref;
        }
    }
}

void lk_cpu_kernels_init(lk_cpu_kernels *kernels, uint32_t mask) {
    init_twins(kernels);
    uint32_t isa = lk_cpu_detect() & mask;
    if ((isa & LK_ISA_AVX2) == 0) {
        isa = 0; /* the others stand on it */
    }
    kernels->isa = isa;
#if defined(__x86_64__)
    if ((isa & LK_ISA_AVX2) != 0) {
        lk_cpu_kernels_init_avx2(kernels);
    }
    if ((isa & LK_ISA_AVX512) != 0) {
        lk_cpu_kernels_init_avx512(kernels);
    }
#endif
}
