/* fpenv.h - the floating-point mode that the numeric definition needs (rule N1): round to nearest
 * even, subnormals kept, no trap. Every public call that computes, and every worker thread, enters
 * it and restores what it found. */
#ifndef LK_BASE_FPENV_H
#define LK_BASE_FPENV_H

#include <stdint.h>

typedef struct lk_fpenv {
    uint64_t saved; /* MXCSR on x86-64, FPCR on AArch64 */
} lk_fpenv;

lk_fpenv lk_fpenv_enter(void);
void lk_fpenv_leave(lk_fpenv env);

#endif
