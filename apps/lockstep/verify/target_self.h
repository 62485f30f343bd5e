/* target_self.h - the parts of the target `self`. */
#ifndef LK_TARGET_SELF_H
#define LK_TARGET_SELF_H

#include "lk/lk.h"
#include "verify_steps.h"

typedef struct verify_self {
    verify_target target;
    const char *path;
    lk_model *models[2];         /* computed from the file; repacked. Opened when first needed */
    uint32_t isa;                /* instruction sets in use */
    const char *mmproj;          /* of the encoder, or NULL */
    lk_projector *projectors[2]; /* as models */
    lk_encoder *encoder;         /* kept from one recording to the next at the same settings ... */
    verify_point encoder_point;  /* ... which are these */
    const verify_engine_ops *engine; /* verify_self_engine; the tests put faults around it */
} verify_self;

extern const verify_engine_ops verify_self_engine;

verify_status verify_self_model(verify_self *self, const verify_point *p, lk_model **model,
                                char why[VERIFY_WHY]);
uint32_t verify_self_isa(const verify_point *p);
/* An error that says what this machine has not: a setting out of range, a device. */
bool verify_self_cannot(const verify_point *p, const lk_error *err);

/* Recordings: opens and checks the encoder's file; encodes (verify_engine_ops.hear). */
bool verify_self_can_hear(verify_self *self, const lk_model *model, char why[VERIFY_WHY]);
verify_status verify_self_hear(void *engine, const verify_point *p, const verify_clip *clip,
                               verify_heard *heard, char why[VERIFY_WHY]);
void verify_self_deafen(verify_self *self);

/* The schedule's streams as requests to an lk_engine; `cache` decides on its prefix cache. */
verify_status verify_self_run_engine(verify_self *self, const verify_schedule *s,
                                     const verify_point *p, verify_result *result,
                                     char why[VERIFY_WHY]);
/* One thread follows the schedule while a second one calls into its context. */
verify_status verify_self_overlap(verify_target *target, const verify_schedule *s,
                                  const verify_point *p, verify_overlap *out, char why[VERIFY_WHY]);

#endif
