/* state.h - a sequence as a file: written whole or not at all, and checked whole before anything of
 * it is used. The layout stands in state.c. */
#ifndef LK_ENGINE_STATE_H
#define LK_ENGINE_STATE_H

#include "engine/context.h"

/* Bodies of lk_sequence_save and lk_sequence_load. `digest` is the model's (lk_model_digest). */
lk_status lk_state_save(lk_context *context, int32_t seq, const char *path,
                        const uint8_t digest[32], lk_error *err);
lk_status lk_state_load(lk_context *context, int32_t seq, const char *path,
                        const uint8_t digest[32], lk_error *err);

#endif
