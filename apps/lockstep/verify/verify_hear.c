/* verify_hear.c - the recording of a stream, on engines whose encoder is in the process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify_steps.h"

void verify_heard_deinit(verify_heard *heard) {
    free(heard->vectors);
    free(heard->stages);
    *heard = (verify_heard){.vectors = NULL};
}

verify_status verify_hear(const verify_engine_ops *ops, void *engine, const verify_point *p,
                          const verify_clip *clip, verify_heard *heard, verify_output *output,
                          char why[VERIFY_WHY]) {
    const verify_status status = ops->hear(engine, p, clip, heard, why);
    if (status != VERIFY_RAN) {
        return status;
    }
    free(output->stages);
    output->n_stages = heard->n_stages;
    output->stages = calloc((size_t)heard->n_stages + 1, sizeof output->stages[0]);
    if (output->stages == NULL) {
        output->n_stages = 0;
        (void)snprintf(why, VERIFY_WHY, "out of memory");
        return VERIFY_BROKEN;
    }
    memcpy(output->stages, heard->stages, (size_t)heard->n_stages * sizeof output->stages[0]);
    return VERIFY_RAN;
}
