/* fpenv.c - see fpenv.h. The only file that touches the floating-point control register. */
#include "base/fpenv.h"

#if defined(__x86_64__)
#include <immintrin.h>

lk_fpenv lk_fpenv_enter(void) {
    const lk_fpenv env = {_mm_getcsr()};
    _mm_setcsr(0x1f80u); /* all exceptions masked, nearest even, no FTZ, no DAZ */
    return env;
}

void lk_fpenv_leave(lk_fpenv env) {
    _mm_setcsr((unsigned)env.saved);
}

#elif defined(__aarch64__)

lk_fpenv lk_fpenv_enter(void) {
    lk_fpenv env;
    __asm__ volatile("mrs %0, fpcr" : "=r"(env.saved));
    const uint64_t mode = 0;
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
    return env;
}

void lk_fpenv_leave(lk_fpenv env) {
    __asm__ volatile("msr fpcr, %0" : : "r"(env.saved));
}

#else
#error "lk_fpenv needs a port to this processor: rule N1 of docs/numerics.md"
#endif
