/* step_check.h - what the engine promises about a step, checked by every backend before it computes
 * one: pages, positions and row numbers become addresses. */
#ifndef LK_BACKEND_STEP_CHECK_H
#define LK_BACKEND_STEP_CHECK_H

#include "backend/backend.h"

/* LK_E_INTERNAL for a step that is not consistent, LK_E_ARG for a token that the model does not
 * have. */
lk_status lk_step_check(const lk_graph *graph, const lk_backend_params *params, const lk_step *step,
                        lk_error *err);

#endif
