/* kernels.h - the CPU backend's table of kernels. lk_cpu_kernels_init fills it with the scalar
 * twins, then each instruction set that the processor has and the mask allows overwrites its slots,
 * cheapest first. */
#ifndef LK_BACKEND_CPU_KERNELS_H
#define LK_BACKEND_CPU_KERNELS_H

#include "ops/ops.h"

/* Instruction sets, as bits of a mask. */
enum {
#define LK_ISA(NAME, name, processor, bit, needs) LK_ISA_##NAME = (bit),
#include "backend/cpu/isas.def"
#undef LK_ISA
    LK_ISA_ALL = 0x7fffffff
};

/* Positions in formats.def, as lk_format_at counts them, and their number. */
enum {
#define LK_FORMAT(NAME, ...) LK_FORMAT_SLOT_##NAME,
#define LK_FORMAT_KNOWN(...)
#include "quant/formats.def"
#undef LK_FORMAT
#undef LK_FORMAT_KNOWN
    LK_N_FORMATS
};

typedef struct lk_cpu_kernels {
    uint32_t isa; /* the sets in use */
#define LK_OP(name) lk_##name##_fn *name;
#define LK_OP_MATMUL_FLOAT(format) lk_matmul_float_fn *matmul_##format;
#include "ops/ops.def"
#undef LK_OP
#undef LK_OP_MATMUL_FLOAT
    /* One slot per format, by its position in formats.def (lk_format_at): the generic matmul_quant
     * twin where an instruction set has nothing better; NULL for unquantised formats. */
    lk_matmul_quant_fn *matmul_format[LK_N_FORMATS];
    lk_matmul_strip_fn *matmul_strips[LK_N_FORMATS]; /* the same, from strips */
} lk_cpu_kernels;

/* What this processor has (operating-system support included). */
uint32_t lk_cpu_detect(void);
/* `mask`: sets that may be used; those that the processor lacks are ignored. */
void lk_cpu_kernels_init(lk_cpu_kernels *kernels, uint32_t mask);

/* One per instruction set, in kern/init_<name>.c: overwrites the slots that it has. */
#define LK_ISA(NAME, name, processor, bit, needs)                                                  \
    void lk_cpu_kernels_init_##name(lk_cpu_kernels *kernels);
#include "backend/cpu/isas.def"
#undef LK_ISA

#endif
