/* cpu_detect.c - which instruction sets the processor and the operating system offer.
 * On x86-64 it asks CPUID for the instructions and XGETBV for the registers that the system saves,
 * on AArch64 the auxiliary vector; it knows nothing about kernels. Invariant: a set is reported
 * only when every instruction that the files of that name are compiled with is there. */
#include "backend/cpu/kernels.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Bits of CPUID leaf 1 ECX, leaf 7 EBX, ECX and EDX, leaf 7.1 EAX, and of XCR0. */
enum {
    ECX1_FMA = 1u << 12,
    ECX1_OSXSAVE = 1u << 27,
    ECX1_AVX = 1u << 28,
    ECX1_F16C = 1u << 29,
    EBX7_AVX2 = 1u << 5,
    EBX7_AVX512F = 1u << 16,
    EBX7_AVX512DQ = 1u << 17,
    EBX7_AVX512BW = 1u << 30,
    ECX7_AVX512VNNI = 1u << 11,
    EAX71_AVXVNNI = 1u << 4,
    EDX7_AMX_TILE = 1u << 24,
    EDX7_AMX_INT8 = 1u << 25,
    XCR0_YMM = 0x06,    /* XMM and upper halves of YMM */
    XCR0_ZMM = 0xe6,    /* and mask registers, upper halves of ZMM, ZMM16 .. ZMM31 */
    XCR0_TILE = 0x60000 /* tile configuration and data */
};
static const uint32_t ebx7_avx512vl = 1u << 31; /* no int holds it */

static uint32_t saved_registers(void) {
    uint32_t low = 0;
    uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Linux gives the state of tiles only to a process that asks; it stays given, and costs nothing
 * until a tile is used. */
static bool may_use_tiles(void) {
#if defined(__linux__)
    const long arch_prctl = 158;
    const long request = 0x1023; /* ARCH_REQ_XCOMP_PERM */
    const long tile_data = 18;   /* of XCR0 */
    long result = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(arch_prctl), "D"(request), "S"(tile_data)
                     : "rcx", "r11", "memory");
    return result == 0;
#else
    return false;
#endif
}

/* Leaf 7.1, which processors with n_subleaves of leaf 7 have. */
static bool has_avxvnni(uint32_t n_subleaves) {
    uint32_t eax = 0;
    uint32_t ebx = 0;
    uint32_t ecx = 0;
    uint32_t edx = 0;
    return n_subleaves >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
           (eax & EAX71_AVXVNNI) != 0;
}

uint32_t lk_cpu_detect(void) {
    uint32_t eax = 0;
    uint32_t ebx = 0;
    uint32_t ecx = 0;
    uint32_t edx = 0;
    const uint32_t need1 = ECX1_FMA | ECX1_OSXSAVE | ECX1_AVX | ECX1_F16C;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & need1) != need1) {
        return 0;
    }
    const uint32_t xcr0 = saved_registers();
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (ebx & EBX7_AVX2) == 0 ||
        (xcr0 & XCR0_YMM) != XCR0_YMM) {
        return 0;
    }
    uint32_t sets = LK_ISA_AVX2;
    if (has_avxvnni(eax)) {
        sets |= LK_ISA_AVXVNNI;
    }
    const uint32_t need7 = EBX7_AVX512F | EBX7_AVX512DQ | EBX7_AVX512BW | ebx7_avx512vl;
    if ((ebx & need7) != need7 || (ecx & ECX7_AVX512VNNI) == 0 || (xcr0 & XCR0_ZMM) != XCR0_ZMM) {
        return sets;
    }
    const uint32_t need_tiles = EDX7_AMX_TILE | EDX7_AMX_INT8;
    if ((edx & need_tiles) != need_tiles || (xcr0 & XCR0_TILE) != XCR0_TILE || !may_use_tiles()) {
        return sets | LK_ISA_AVX512;
    }
    return sets | LK_ISA_AVX512 | LK_ISA_AMX;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

uint32_t lk_cpu_detect(void) {
    const unsigned long dot_product = 1ul << 20;   /* HWCAP_ASIMDDP */
    const unsigned long int8_matrices = 1ul << 13; /* HWCAP2_I8MM */
    if ((getauxval(AT_HWCAP) & dot_product) == 0) {
        return 0;
    }
    const bool has_i8mm = (getauxval(AT_HWCAP2) & int8_matrices) != 0;
    return has_i8mm ? (uint32_t)LK_ISA_NEON | (uint32_t)LK_ISA_I8MM : (uint32_t)LK_ISA_NEON;
}

#else

uint32_t lk_cpu_detect(void) {
    return 0;
}

#endif
