/* verify_faults.h - faults around the calls of the target `self`. */
#ifndef LK_VERIFY_FAULTS_H
#define LK_VERIFY_FAULTS_H

#include "verify.h"

typedef enum verify_fault {
    FAULT_NONE,
#define VERIFY_FAULT(id, name, experiment, factor, meaning) FAULT_##id,
#include "verify_faults.def"
#undef VERIFY_FAULT
    N_FAULTS
} verify_fault;

const char *verify_fault_name(verify_fault fault);
/* The fault of the targets that are opened from now on. */
void verify_fault_plant(verify_fault fault);
/* A verify_opener: opens the target and puts the fault around it. */
verify_status verify_fault_open(const char *name, const verify_source *source, verify_target **out,
                                char why[VERIFY_WHY]);

#endif
