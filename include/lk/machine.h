/* lk/machine.h - what the machine could do at most, so that a measured speed can be given as a part
 * of that. The figures are those of the moment: other programs, other virtual machines on the same
 * host and the processor's clock move them. */
#ifndef LK_MACHINE_H
#define LK_MACHINE_H

#include "lk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lk_machine_speed {
    size_t struct_size;
    /* Bytes read per second by all threads together, from memory larger than the caches, in huge
     * pages where the system gives them. Bounds the generation of a single sequence. */
    double read_bytes_per_s;
    /* Operations of int8 dot products (a multiply and an add count as two) per second by all
     * threads together, from registers, with the widest instruction set that has a measure: the
     * vector units, without matrix units. Bounds prompts and large batches. 0: not measured on
     * this processor. */
    double int8_ops_per_s;
    uint32_t n_threads;
    uint32_t isa; /* the set of int8_ops_per_s (LK_CPU_...), 0: none */
    /* The same of the matrix units (AMX); 0 where there are none, or not in isa_mask. */
    double matrix_ops_per_s;
    /* The same of binary32 fused multiply-adds, with the set of int8_ops_per_s: bounds products
     * with F32, F16 and BF16 weights. */
    double float_ops_per_s;
} lk_machine_speed;
#define LK_MACHINE_SPEED_INIT ((lk_machine_speed){.struct_size = sizeof(lk_machine_speed)})

/* Measures for two to three seconds, with 512 MiB of memory; the best of several runs counts.
 * n_threads 0: one per processor; isa_mask as in lk_context_params. LK_E_ARG, LK_E_NOMEM. */
LK_API lk_status lk_machine_measure(uint32_t n_threads, uint32_t isa_mask,
                                    const lk_allocator *allocator, lk_machine_speed *speed,
                                    lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
