/* verify_main.h - the whole of `lockstep verify` after its command line. */
#ifndef LK_VERIFY_MAIN_H
#define LK_VERIFY_MAIN_H

#include "verify.h"

/* Exit status: 0 all equal, 1 something differs, 2 it could not run. */
int verify_main(const verify_options *options);

#endif
