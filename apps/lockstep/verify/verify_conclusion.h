/* verify_conclusion.h - what all cases together say: for the end of the table and the page. */
#ifndef LK_VERIFY_CONCLUSION_H
#define LK_VERIFY_CONCLUSION_H

#include <stdio.h>

#include "verify.h"

typedef struct verify_conclusion {
    int32_t counts[VERIFY_N_VERDICTS];
    int64_t n_runs;
    verify_verdict verdict; /* the worst; VERDICT_UNABLE: nothing could be judged */
    char text[96];          /* one sentence, without its full stop */
} verify_conclusion;

verify_conclusion verify_conclude(const verify *v);

#endif
