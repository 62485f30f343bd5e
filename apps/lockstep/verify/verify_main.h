/* verify_main.h - the whole of `lockstep verify` after its command line. */
#ifndef LK_VERIFY_MAIN_H
#define LK_VERIFY_MAIN_H

#include "verify.h"

/* The parts of it. `open` finds the target (verify_target_open_named; tests put faults around what
 * it opens). False, with the reason printed, when it could not begin; verify_end in either case. */
bool verify_begin(verify *v, const verify_options *options, verify_opener *open);
void verify_experiments(verify *v);
void verify_end(verify *v);

/* Exit status: 0 all equal, 1 something differs, 2 it could not run. */
int verify_main(const verify_options *options);

#endif
