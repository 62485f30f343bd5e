/* experiment_audio.c - a recording and a question, greedy: idle, under load, after other requests,
 * beside other slots, cut, and by the encoder in other ways. The solo run is idle and alone; each
 * stage from features to logits has a digest, so that a difference says where it begins. */
#include "verify.h"
#include "verify_load.h"

enum { MAX_SET = 5, ALL_LOADS = 15 };

typedef struct audio_case {
    const char *label;
    int32_t n_quick; /* runs: of a suite; 0: not in it */
    int32_t n_full;
    uint32_t needs;
    struct {
        verify_factor factor;
        int64_t value;
    } set[MAX_SET]; /* up to one of zeros */
} audio_case;

#define STEPS VERIFY_CAN_STEPS
static const audio_case cases[] = {
    {"again, alone", 2, 5, 0, {{VERIFY_CLIP, 1}}},
    {"after a text, cleared", 1, 3, 0, {{VERIFY_BEFORE, 1}}},
    {"after another recording, cleared", 1, 3, 0, {{VERIFY_CLIP, 2}, {VERIFY_BEFORE, 1}}},
    {"after itself, cleared", 1, 3, 0, {{VERIFY_BEFORE, 2}}},
    {"beside 3 texts", 1, 3, 0, {{VERIFY_NEIGHBOURS, 3}}},
    {"beside 3 other recordings", 1, 3, 0, {{VERIFY_CLIP, 2}, {VERIFY_NEIGHBOURS, 3}}},
    {"4 times at once", 1, 3, 0, {{VERIFY_NEIGHBOURS, 3}, {VERIFY_EQUAL, 1}}},
    {"another recording joins",
     1,
     3,
     0,
     {{VERIFY_CLIP, 2}, {VERIFY_NEIGHBOURS, 1}, {VERIFY_JOIN, 4}}},
    {"prompt in calls of 1", 1, 3, STEPS, {{VERIFY_CUT, 1}}},
    {"prompt in calls of 7", 1, 3, STEPS, {{VERIFY_CUT, 7}}},
    {"the same beside another one",
     1,
     3,
     STEPS,
     {{VERIFY_CLIP, 2}, {VERIFY_CUT, 7}, {VERIFY_NEIGHBOURS, 1}}},
    {"prompt in calls of 64", 0, 3, STEPS, {{VERIFY_CUT, 64}}},
    {"micro-batches of 7", 1, 3, STEPS, {{VERIFY_ROWS, 7}}},
    {"micro-batches of 64", 0, 3, STEPS, {{VERIFY_ROWS, 64}}},
    {"sequence id 7", 1, 3, STEPS, {{VERIFY_SLOT, 7}}},
    {"forked from a longer one", 1, 3, STEPS, {{VERIFY_FORK, 1}}},
    {"15 rows back and again", 1, 3, STEPS, {{VERIFY_BACK, 15}}},
    {"saved, restarted, restored", 1, 3, STEPS, {{VERIFY_RESTART, 1}}},
    {"encoder: one window at once", 1, 3, STEPS, {{VERIFY_WINDOWS, 1}}},
    {"encoder: 16 windows at once", 1, 3, STEPS, {{VERIFY_WINDOWS, 16}}},
    {"encoder on a device", 1, 3, STEPS, {{VERIFY_PROJECTOR, 1}}},
    {"2 threads", 1, 3, STEPS, {{VERIFY_THREADS, 2}}},
    {"3 threads", 1, 3, STEPS, {{VERIFY_THREADS, 3}}},
    {"AVX2", 1, 3, STEPS, {{VERIFY_ISA, LK_CPU_AVX2}}},
    {"weights as in the file", 1, 3, STEPS, {{VERIFY_REPACK, 0}}},
    {"as a request, after another one",
     1,
     3,
     0,
     {{VERIFY_CLIP, 2}, {VERIFY_ENGINE, 1}, {VERIFY_BEFORE, 1}}},
    {"the same, with a cache",
     1,
     3,
     0,
     {{VERIFY_CLIP, 2}, {VERIFY_ENGINE, 1}, {VERIFY_CACHE, 1}, {VERIFY_BEFORE, 1}}},
    {"it was asked before, with a cache",
     1,
     3,
     0,
     {{VERIFY_ENGINE, 1}, {VERIFY_CACHE, 1}, {VERIFY_BEFORE, 2}, {VERIFY_NEIGHBOURS, 3}}},
    {"all processors busy", 20, 20, 0, {{VERIFY_LOAD, ALL_LOADS}}},
    {"the same, neighbours join",
     3,
     20,
     0,
     {{VERIFY_LOAD, ALL_LOADS}, {VERIFY_NEIGHBOURS, 2}, {VERIFY_JOIN, 4}}},
    {"the same, they hear it backwards",
     3,
     20,
     0,
     {{VERIFY_CLIP, 2}, {VERIFY_LOAD, ALL_LOADS}, {VERIFY_NEIGHBOURS, 2}}},
};
#undef STEPS

static void run(verify *v, const audio_case *c, int32_t n_runs) {
    verify_point p = v->base;
    verify_factors subject = 0;
    p.value[VERIFY_CLIP] = 1;
    for (size_t i = 0; i < MAX_SET; i++) {
        const verify_factor f = c->set[i].factor;
        if (f == VERIFY_CLIP && c->set[i].value == 0) {
            break;
        }
        /* A server is an engine anyway. */
        if (f != VERIFY_ENGINE || (v->target->factors & VERIFY_BIT(f)) != 0) {
            p.value[f] = c->set[i].value;
            subject |= VERIFY_BIT(f);
        }
    }
    verify_case(v, &p, subject, v->options->n_repetitions > 0 ? 0 : n_runs, c->label);
}

void verify_experiment_audio(verify *v) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const audio_case *c = &cases[i];
        const int32_t n_runs = verify_is_full(v) ? c->n_full : c->n_quick;
        if (n_runs > 0 && (c->needs & ~v->target->can) == 0) {
            run(v, c, n_runs);
        }
    }
}
