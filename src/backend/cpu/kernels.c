/* kernels.c - fills the table of kernels: scalar twins first, then what each instruction set has.
 * It holds no kernel. Invariant: after lk_cpu_kernels_init every slot can be called, but for
 * matmul_format and matmul_strips of unquantised formats, which stay NULL. */
#include "backend/cpu/kernels.h"

#include <assert.h>

#include "lk/context.h"

static_assert((int)LK_CPU_AVX2 == (int)LK_ISA_AVX2 && (int)LK_CPU_AVX512 == (int)LK_ISA_AVX512 &&
                  (int)LK_CPU_AMX == (int)LK_ISA_AMX && (int)LK_CPU_NEON == (int)LK_ISA_NEON &&
                  (int)LK_CPU_AVXVNNI == (int)LK_ISA_AVXVNNI &&
                  (int)LK_CPU_I8MM == (int)LK_ISA_I8MM && (int)LK_CPU_ALL == (int)LK_ISA_ALL,
              "the masks of lk/context.h are those of isas.def");

static void init_twins(lk_cpu_kernels *kernels) {
    *kernels = (lk_cpu_kernels){
#define LK_OP(name) .name = lk_##name##_ref,
#define LK_OP_MATMUL_FLOAT(format) .matmul_##format = lk_matmul_##format##_ref,
#include "ops/ops.def"
#undef LK_OP
#undef LK_OP_MATMUL_FLOAT
    };
    for (size_t i = 0; i < LK_N_FORMATS; i++) {
        if (lk_format_at(i)->block_dot != NULL) {
            kernels->matmul_format[i] = lk_matmul_quant_ref;
            kernels->matmul_strips[i] = lk_matmul_strip_ref;
        }
    }
}

typedef struct isa_entry {
    uint32_t bit;
    uint32_t needs;
    void (*init)(lk_cpu_kernels *kernels);
} isa_entry;

/* Those of this processor's architecture; the entry without init ends the list. */
#if defined(__x86_64__)
#define ISA_ON_x86_64(name, bit, needs) {(bit), (needs), lk_cpu_kernels_init_##name},
#else
#define ISA_ON_x86_64(name, bit, needs)
#endif
#if defined(__aarch64__)
#define ISA_ON_aarch64(name, bit, needs) {(bit), (needs), lk_cpu_kernels_init_##name},
#else
#define ISA_ON_aarch64(name, bit, needs)
#endif
static const isa_entry isas[] = {
#define LK_ISA(NAME, name, processor, bit, needs) ISA_ON_##processor(name, bit, needs)
#include "backend/cpu/isas.def"
#undef LK_ISA
    {0, 0, NULL}};

void lk_cpu_kernels_init(lk_cpu_kernels *kernels, uint32_t mask) {
    const uint32_t usable = lk_cpu_detect() & mask;
    init_twins(kernels);
    kernels->isa = 0;
    for (const isa_entry *isa = isas; isa->init != NULL; isa++) {
        if ((usable & isa->bit) != 0 && (kernels->isa & isa->needs) == isa->needs) {
            isa->init(kernels);
            kernels->isa |= isa->bit;
        }
    }
}
