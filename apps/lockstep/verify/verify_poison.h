/* verify_poison.h - a copy of a model with one weight that is not finite. */
#ifndef LK_VERIFY_POISON_H
#define LK_VERIFY_POISON_H

#include "verify.h"

/* Writes the copy to a new temporary file, whose name the caller removes and frees; *tensor names
 * the weight. NULL with the reason: VERIFY_NOT_POSSIBLE (a split file, no tensor in binary32, more
 * than max_bytes) or VERIFY_BROKEN. */
char *verify_poison(const verify *v, uint64_t max_bytes, char tensor[128], verify_status *status,
                    char why[VERIFY_WHY]);

#endif
