/* verify_target.h - what is verified: an engine behind one interface. A target is a file
 * target_<name>.c with one line in targets.def.
 *
 * Two ways to be a target:
 *
 *  1. Of steps: an engine in the process whose calls take rows of several sequences. It defines
 *     verify_engine_ops (below), the primitive calls, and lets verify_steps_run follow schedules:
 *     this is what `self` does, and `lib:` can. It sees token ids and logits bits.
 *  2. Of requests: an engine that takes whole prompts, over HTTP for instance. It defines `run`
 *     itself: verify_schedule_arrivals says when each stream begins. Steps are then up to the
 *     engine. It sees ids, or pieces of text, with or without log probabilities, no bits.
 *
 * What a target cannot do it declines, in one of three ways, and the verifier reports "not possible
 * with this target" with the reason, never a pass:
 *  - a capability that it lacks: an experiment that needs it is not started;
 *  - a factor that it lacks (verify_target.factors): never asked for with another value than base;
 *  - VERIFY_NOT_POSSIBLE from open or run, with the reason in `why` (a value that it does not have,
 *    such as an instruction set).
 * What a target *fails* at is something else: a call that should work and returns an error is
 * VERIFY_FAILED for the whole run, or `failure` of an output where it concerns one stream. An
 * engine that answers a request with an error, or an empty text, has failed at that stream.
 *
 * Thread rule: the verifier calls a target from one thread. */
#ifndef LK_VERIFY_TARGET_H
#define LK_VERIFY_TARGET_H

#include "verify_point.h"
#include "verify_schedule.h"

/* Capabilities. */
enum {
    VERIFY_CAN_STEPS = 1 << 0,    /* composes steps as the schedule says */
    VERIFY_CAN_BITS = 1 << 1,     /* digests of the logits */
    VERIFY_CAN_IDS = 1 << 2,      /* ids are the vocabulary's. Without it, ids number the pieces of
                                     text that the target saw: equal pieces have equal ids */
    VERIFY_CAN_LOGPROBS = 1 << 3, /* of the chosen tokens */
    VERIFY_CAN_TEXT = 1 << 4,     /* the text as the target gave it */
    VERIFY_CAN_FORK = 1 << 5,
    VERIFY_CAN_TRUNCATE = 1 << 6,
    VERIFY_CAN_RESTART = 1 << 7, /* saves sequences to files and loads them in a new context */
    VERIFY_CAN_CANCEL = 1 << 8,  /* a call in another thread stops a step */
    VERIFY_CAN_REFUSE = 1 << 9, /* says of a wrong position that it is wrong, and changes nothing */
    VERIFY_CAN_SAMPLE = 1 << 10, /* draws with a seed (else: greedy only) */
    VERIFY_CAN_OVERLAP = 1 << 11,
    VERIFY_CAN_MODELS = 1 << 12,  /* can be opened with another model file */
    VERIFY_CAN_PROMPTS = 1 << 13, /* takes prompts as ids: verify_stream.text may be NULL */
    VERIFY_NEEDS_TEXT = 1 << 14,  /* takes prompts as text: ids are not looked at */
    VERIFY_CAN_HEAR = 1 << 15,    /* takes recordings (verify_stream.clip) */
    VERIFY_CAN_VECTORS = 1 << 16, /* takes vectors in the place of tokens ... */
    VERIFY_CAN_MIX = 1 << 17      /* ... in one call with tokens */
};

typedef enum verify_status {
    VERIFY_RAN,
    VERIFY_NOT_POSSIBLE, /* the target does not have this: reported as such */
    VERIFY_FAILED,       /* the target has it, and failed: a finding */
    VERIFY_BROKEN        /* the verifier or the machine failed (memory, a file): exit status 2 */
} verify_status;

enum { VERIFY_WHY = 400 };

/* One position of a stream, as it was computed. */
typedef struct verify_row {
    uint8_t digest[16]; /* of the logits of this position */
    bool has_digest;
    int32_t i_step; /* which call ... */
    int32_t i_row;  /* ... and which row of it computed this position; -1: not known */
} verify_row;

/* What a recording was at one stage of the way from samples to vectors. */
typedef struct verify_stage {
    char name[24];
    uint8_t digest[16];
} verify_stage;

/* What became of a stream. Memory is the result's. */
typedef struct verify_output {
    int32_t n_tokens;     /* chosen so far, at most the stream's n */
    int32_t *ids;         /* [n] */
    float *logprobs;      /* [n] natural logarithms; NaN where not known */
    size_t n_rows;        /* n_prompt + n; 0 without VERIFY_CAN_BITS */
    verify_row *rows;     /* [n_rows] */
    verify_stage *stages; /* [n_stages] of its recording; NULL without one, or not seen */
    int32_t n_stages;
    char *text;        /* zero-terminated; NULL without VERIFY_CAN_TEXT */
    bool is_cut_off;   /* the schedule cleared it before its end, or the target ended it at an end
                          token: what came until then is compared */
    int64_t conflict;  /* first position whose second computation gave other logits or another token
                          than the first one; -1: none */
    int64_t nonfinite; /* position whose logits, given with success, hold Inf or NaN; -1: none */
    int32_t refused_layer; /* where the target refused this stream as not finite: the layer ... */
    char refused[64];      /* ... and operator or reason; "": it did not */
    char failure[VERIFY_WHY]; /* "": none */
} verify_output;

typedef struct verify_result {
    int32_t n_streams;
    verify_output outputs[VERIFY_MAX_STREAMS];
    int32_t n_steps; /* calls made; 0: not known */
    double seconds;
    int64_t n_cached;         /* prompt tokens that a cache gave; -1: not known */
    char failure[VERIFY_WHY]; /* of no single stream: "" or what the target got wrong */
} verify_result;

/* Room for the streams of a schedule; with_rows: for digests too. False: no memory. */
bool verify_result_init(verify_result *r, const verify_schedule *s, bool with_rows);
void verify_result_deinit(verify_result *r);

typedef struct verify_overlap {
    int64_t n_tried;   /* calls of a second thread while a first one was inside */
    int64_t n_refused; /* of these, refused because another thread is inside */
    int64_t n_entered; /* of these, let in while the first one was inside for certain */
    bool is_harmed;    /* the first thread's results differ from those without the second one */
} verify_overlap;

typedef struct verify_target verify_target;

typedef struct verify_target_ops {
    /* Follows a schedule at a point's TARGET factors; `result` was initialised for it. */
    verify_status (*run)(verify_target *target, const verify_schedule *s, const verify_point *p,
                         verify_result *result, char why[VERIFY_WHY]);
    /* Two threads in one context. NULL without VERIFY_CAN_OVERLAP. */
    verify_status (*overlap)(verify_target *target, const verify_schedule *s, const verify_point *p,
                             verify_overlap *out, char why[VERIFY_WHY]);
    void (*close)(verify_target *target); /* accepts what open made, frees it */
} verify_target_ops;

/* The first member of a target's own struct. */
struct verify_target {
    const verify_target_ops *ops;
    uint32_t can;           /* VERIFY_CAN_... */
    verify_factors factors; /* TARGET factors that it can set */
    /* Factors that may change its results by design (the KV type, for instance): a solo run is
     * compared at the same values of these. */
    verify_factors defining;
    bool is_exact;         /* it promises bits: any difference is a difference. Else a difference of
                              log probabilities within what float noise gives is called noise */
    int32_t n_vocab;       /* 0: not known */
    int64_t n_ctx;         /* positions that one sequence may have; 0: not known */
    int32_t max_slots;     /* 1 .. VERIFY_MAX_SLOTS */
    char name[256];        /* "self", "lib:/usr/lib/libllama.so", ...: as given */
    char description[512]; /* version, commit, backend, processor: for the report */
};

/* What opening needs. */
typedef struct verify_source {
    const char *where;  /* what follows the prefix of the target's name; "" for self */
    const char *model;  /* path of the GGUF file; for targets of requests the name of the model to
                           ask for, or NULL */
    const char *mmproj; /* path of the audio encoder's file, or NULL */
    const verify_clip *clip;  /* a recording that will be asked about, or NULL: is it taken? */
    const char *api_key;      /* NULL: none */
    int64_t max_requests;     /* 0: no limit. When it is used up, run returns VERIFY_NOT_POSSIBLE */
    double max_seconds;       /* 0: no limit. Likewise */
    const verify_point *base; /* the values that most runs will have */
} verify_source;

/* On VERIFY_RAN *out is the caller's (ops->close). */
typedef verify_status verify_target_open(const verify_source *source, verify_target **out,
                                         char why[VERIFY_WHY]);

/* VERIFY_TARGET(name, prefix, meaning): target_<name>.c defines verify_open_<name>. */
#define VERIFY_TARGET_LINE(name, prefix, meaning) verify_target_open verify_open_##name;
#include "targets.def"
#undef VERIFY_TARGET_LINE

/* Opens the target that `name` names ("self", "lib:PATH", "http://..."). */
verify_status verify_target_open_named(const char *name, const verify_source *source,
                                       verify_target **out, char why[VERIFY_WHY]);
/* Why a target cannot follow a schedule at a point: false, and the reason. `base`: values that
 * every target has. */
bool verify_target_can(const verify_target *target, const verify_schedule *s, const verify_point *p,
                       char why[VERIFY_WHY]);
/* What a target without that capability lacks: "it has no forks". */
const char *verify_capability_name(uint32_t capability);

#endif
