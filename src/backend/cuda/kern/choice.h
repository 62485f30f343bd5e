/* choice.h - the numbers of the kernels, and which of several does a product. */
#ifndef LK_BACKEND_CUDA_KERN_CHOICE_H
#define LK_BACKEND_CUDA_KERN_CHOICE_H

#include <stdbool.h>

#include "backend/cuda/kern/launch.h"
#include "quant/format.h"

typedef enum lk_cuda_kernel {
#define LK_CUDA_KERNEL(name, what) LK_CUDA_##name,
#include "backend/cuda/kern/kernels.def"
#undef LK_CUDA_KERNEL
    LK_CUDA_N_KERNELS
} lk_cuda_kernel;

typedef struct lk_cuda_choice {
    lk_cuda_kernel kernel; /* LK_CUDA_N_KERNELS: there is none */
    lk_cuda_shape shape;
} lk_cuda_choice;

/* Where a matrix has about this many rows or fewer, single outputs are faster than tiles. */
enum { LK_CUDA_FEW = 8 };

static inline bool lk_cuda_is_few(const lk_cuda_matrix *m, uint32_t n_rows) {
    return n_rows <= LK_CUDA_FEW || n_rows / LK_CUDA_FEW < m->n_matrices;
}

static inline lk_cuda_choice lk_cuda_choose_float(uint32_t type, const lk_cuda_matmul_args *a) {
    const bool few = lk_cuda_is_few(&a->m, a->n_rows);
    const lk_cuda_shape shape =
        few ? lk_cuda_shape_few_floats(&a->m, a->n_rows) : lk_cuda_shape_tiles(&a->m, a->n_rows);
    switch (type) {
    case LK_FORMAT_F32:
        return (lk_cuda_choice){few ? LK_CUDA_matmul_f32_few : LK_CUDA_matmul_f32, shape};
    case LK_FORMAT_F16:
        return (lk_cuda_choice){few ? LK_CUDA_matmul_f16_few : LK_CUDA_matmul_f16, shape};
    case LK_FORMAT_BF16:
        return (lk_cuda_choice){few ? LK_CUDA_matmul_bf16_few : LK_CUDA_matmul_bf16, shape};
    default:
        return (lk_cuda_choice){LK_CUDA_N_KERNELS, shape};
    }
}

static inline lk_cuda_choice lk_cuda_choose_quant(uint32_t type,
                                                  const lk_cuda_matmul_quant_args *a) {
    const bool few = lk_cuda_is_few(&a->m, a->n_rows);
    const lk_cuda_shape shape = few ? lk_cuda_shape_few(&a->m, a->n_rows) : lk_cuda_shape_quant(a);
    switch (type) {
#define LK_CUDA_QUANT(NAME, name)                                                                  \
    case LK_FORMAT_##NAME:                                                                         \
        return (lk_cuda_choice){few ? LK_CUDA_matmul_##name##_few : LK_CUDA_matmul_##name, shape};
#include "backend/cuda/kern/quant.def"
#undef LK_CUDA_QUANT
    default:
        return (lk_cuda_choice){LK_CUDA_N_KERNELS, shape};
    }
}

#endif
