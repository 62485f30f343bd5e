/* device.h - the words that device code is written in, each in two variants. On the card (Clang's
 * CUDA mode, no SDK) they are the instructions of the machine. On the host, where C17 compilers
 * read the same files, a block's threads are fibers of one thread (tests/support/cuda_emulated), so
 * that barriers and exchanges inside a warp work and the tests need no card.
 *
 * A kernel is `LK_KERNEL(name, args_type) { ... }`: one parameter `a` by value, blocks of one
 * dimension, grids of three. Invariant: every function here gives the same bits in both variants;
 * sums and products are written as the definition has them, unfused, except lk_fma_exact, whose
 * product is exact. */
#ifndef LK_BACKEND_CUDA_KERN_DEVICE_H
#define LK_BACKEND_CUDA_KERN_DEVICE_H

#if defined(__CUDA__)
/* What the scalar definitions share is compiled for the card too. */
#pragma clang force_cuda_host_device begin
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/cuda/kern/launch.h"
#include "base/bytes.h"
#include "ops/math.h"
#include "ops/ops.h"
#include "ops/twin.h"
#if defined(__CUDA__)
#pragma clang force_cuda_host_device end
#endif

enum { LK_WARP = 32 };

/* Four words that are aligned to 16 bytes, read at once. */
typedef struct lk_words {
    uint32_t x;
    uint32_t y;
    uint32_t z;
    uint32_t w;
} __attribute__((aligned(16))) lk_words;

#if defined(__CUDA__)

#define LK_KERNEL(name, args_type)                                                                 \
    extern "C" __attribute__((global)) void lk_cuda_##name(const args_type a)
#define LK_DEVICE static __attribute__((device, always_inline)) inline
#define LK_SHARED static __attribute__((shared))
#define LK_DEVICE_TABLE static __attribute__((device)) const
#define LK_UNROLL _Pragma("unroll")
#define LK_UNROLL_BY_8 _Pragma("unroll 8")

LK_DEVICE uint32_t lk_thread(void) {
    return (uint32_t)__nvvm_read_ptx_sreg_tid_x();
}
LK_DEVICE uint32_t lk_n_threads(void) {
    return (uint32_t)__nvvm_read_ptx_sreg_ntid_x();
}
LK_DEVICE uint32_t lk_block_x(void) {
    return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x();
}
LK_DEVICE uint32_t lk_block_y(void) {
    return (uint32_t)__nvvm_read_ptx_sreg_ctaid_y();
}
LK_DEVICE uint32_t lk_block_z(void) {
    return (uint32_t)__nvvm_read_ptx_sreg_ctaid_z();
}
/* Not the compiler's own barrier: Clang 14 moves reads of shared memory across that one, because it
 * takes an array of a kernel for one that no other thread can write. */
LK_DEVICE void lk_barrier(void) {
    __asm__ volatile("bar.sync 0;" : : : "memory");
}
/* c + the sum of four products of signed bytes. */
LK_DEVICE int32_t lk_dp4a(uint32_t a, uint32_t b, int32_t c) {
    int32_t d;
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/* x * y + z where x * y is exact in binary32. */
LK_DEVICE float lk_fma_exact(float x, float y, float z) {
    float d;
    __asm__("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(x), "f"(y), "f"(z));
    return d;
}
LK_DEVICE float lk_sqrt(float x) {
    return __nvvm_sqrt_rn_f(x);
}
/* binary16 code -> binary32, exact. */
LK_DEVICE float lk_half(uint16_t h) {
    float d;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(h));
    return d;
}
/* x of the lane whose number differs in the bits of `mask`, all lanes of the warp together. */
LK_DEVICE uint32_t lk_exchange(uint32_t x, uint32_t mask) {
    return (uint32_t)__nvvm_shfl_sync_bfly_i32(0xffffffffu, (int)x, (int)mask, 31);
}
/* Byte i of the result is that byte of b:a (a: 0 .. 3) which nibble i of s, 0 .. 7, names. */
LK_DEVICE uint32_t lk_permute(uint32_t a, uint32_t b, uint32_t s) {
    uint32_t d;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(s));
    return d;
}
/* Four bytes that are aligned to 1, 2 or 4. */
LK_DEVICE uint32_t lk_load4(const uint8_t *p, uint32_t align) {
    if (align % 4 == 0) {
        return *(const uint32_t *)p;
    }
    if (align % 2 == 0) {
        const uint16_t *h = (const uint16_t *)p;
        return (uint32_t)h[0] | (uint32_t)h[1] << 16;
    }
    return lk_load_u32(p);
}
LK_DEVICE void lk_atomic_min(uint32_t *p, uint32_t v) {
    __nvvm_atom_min_gen_ui(p, v);
}
LK_DEVICE uint32_t lk_atomic_add(uint32_t *p, uint32_t v) {
    return (uint32_t)__nvvm_atom_add_gen_i((int *)p, (int)v);
}

#else

#include <math.h>

#include "backend/cuda/kern/fibers.h"

#define LK_KERNEL(name, args_type)                                                                 \
    void lk_cuda_##name(args_type a);                                                              \
    void lk_cuda_##name(args_type a)
#define LK_DEVICE static inline
#define LK_SHARED static _Thread_local
#define LK_DEVICE_TABLE static const
#define LK_UNROLL
#define LK_UNROLL_BY_8

LK_DEVICE uint32_t lk_thread(void) {
    return lk_fiber_place.thread;
}
LK_DEVICE uint32_t lk_n_threads(void) {
    return lk_fiber_place.n_threads;
}
LK_DEVICE uint32_t lk_block_x(void) {
    return lk_fiber_place.block[0];
}
LK_DEVICE uint32_t lk_block_y(void) {
    return lk_fiber_place.block[1];
}
LK_DEVICE uint32_t lk_block_z(void) {
    return lk_fiber_place.block[2];
}
LK_DEVICE void lk_barrier(void) {
    lk_fiber_barrier();
}
LK_DEVICE int32_t lk_dp4a(uint32_t a, uint32_t b, int32_t c) {
    for (uint32_t i = 0; i < 32; i += 8) {
        c += (int8_t)(uint8_t)(a >> i) * (int8_t)(uint8_t)(b >> i);
    }
    return c;
}
LK_DEVICE float lk_fma_exact(float x, float y, float z) {
    return x * y + z;
}
LK_DEVICE float lk_sqrt(float x) {
    return sqrtf(x);
}
LK_DEVICE float lk_half(uint16_t h) {
    return lk_f16_to_f32(h);
}
LK_DEVICE uint32_t lk_exchange(uint32_t x, uint32_t mask) {
    return lk_fiber_exchange(x, mask);
}
LK_DEVICE uint32_t lk_permute(uint32_t a, uint32_t b, uint32_t s) {
    const uint64_t both = a | (uint64_t)b << 32;
    uint32_t d = 0;
    for (uint32_t i = 0; i < 4; i++) {
        d |= (uint32_t)(both >> (8 * ((s >> (4 * i)) & 7u)) & 0xffu) << (8 * i);
    }
    return d;
}
LK_DEVICE uint32_t lk_load4(const uint8_t *p, uint32_t align) {
    (void)align;
    return lk_load_u32(p);
}
LK_DEVICE void lk_atomic_min(uint32_t *p, uint32_t v) {
    *p = v < *p ? v : *p;
}
LK_DEVICE uint32_t lk_atomic_add(uint32_t *p, uint32_t v) {
    const uint32_t old = *p;
    *p = old + v;
    return old;
}

#endif

/* x of the lane whose number differs in the bits of `mask`. */
LK_DEVICE float lk_exchange_float(float x, uint32_t mask) {
    return lk_f32_from_bits(lk_exchange(lk_f32_bits(x), mask));
}

/* p: aligned to 16 bytes. */
LK_DEVICE lk_words lk_read_words(const uint32_t *p) {
    return *(const lk_words *)(const void *)p;
}

/* Likewise four numbers. */
typedef struct lk_floats {
    float x;
    float y;
    float z;
    float w;
} __attribute__((aligned(16))) lk_floats;
LK_DEVICE lk_floats lk_read_floats(const float *p) {
    return *(const lk_floats *)(const void *)p;
}

#endif
