/* verify_options.h - the command line of `lockstep verify`. */
#ifndef LK_VERIFY_OPTIONS_H
#define LK_VERIFY_OPTIONS_H

#include "verify.h"

/* False: return *exit_status from the command. */
bool verify_options_parse(int argc, char **argv, verify_options *o, int *exit_status);
/* Whether --only takes in an experiment of that name. */
bool verify_options_has(const verify_options *o, const char *experiment);

#endif
