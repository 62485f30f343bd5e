/* test_verify_faults.c - the teeth of `lockstep verify`: faults of other engines, put one at a time
 * around this one's calls (verify_faults.h). Each must be found by the experiment that is there for
 * it, and the matrix must name the factor. With no fault planted the same experiments are silent.
 *
 * LK_REPORT=FOLDER: the page of each fault. LK_FULL=1: every fault under the whole quick suite, and
 * how many runs it took.
 */
#include <inttypes.h>
#include <string.h>

#include "lk_test.h"
#include "verify_faults.h"
#include "verify_main.h"
#include "verify_report.h"

/* What the first line that differs says. */
typedef struct finding {
    const char *experiment; /* NULL: none */
    int32_t n_runs;         /* until then, that line's too */
    verify_cell smallest;
    int32_t n_ops;    /* of a shrunk schedule */
    char detail[256]; /* of the first sequence that differs */
} finding;

static finding find(const verify *v) {
    finding f = {.experiment = NULL};
    for (size_t i = 0; i < v->n_lines; i++) {
        const verify_line *line = v->lines[i];
        f.n_runs += line->n_runs;
        if (line->verdict != VERDICT_EQUAL && line->verdict != VERDICT_UNABLE) {
            f.experiment = line->experiment;
            f.smallest = line->smallest;
            for (int32_t k = 0; k < line->n_traces && f.detail[0] == '\0'; k++) {
                (void)snprintf(f.detail, sizeof f.detail, "%s", line->traces[k].detail);
            }
            for (const char *c = line->schedule; c != NULL && *c != '\0'; c++) {
                f.n_ops += *c == ';';
            }
            f.n_ops += line->schedule != NULL;
            return f;
        }
    }
    return f;
}

static finding run(verify_fault fault, const char *only) {
    verify v;
    finding f = {.experiment = NULL};
    verify_options o = {.model = lk_test_data("models/tiny-q4_k_m.gguf"),
                        .target = "self",
                        .suite = VERIFY_QUICK,
                        .only = only,
                        .seed = 20261130,
                        .n_schedules = 40,
                        .n_repetitions = fault == FAULT_LOAD ? 0 : 1,
                        .program = LK_TOOL_PATH,
                        .is_quiet = true,
                        .n_given = true};
    const bool is_heard = only != NULL && strcmp(only, "audio") == 0;
    if (is_heard) {
        o.model = lk_test_data("omni/tiny-omni-Q4_K_M.gguf");
        o.mmproj = lk_test_data("omni/mmproj-tiny-omni-Q8_0.gguf");
        o.audio = lk_test_data("omni/clips/ref0.wav");
    }
    verify_point_init(&o.base);
    o.base.value[VERIFY_N] = is_heard ? 6 : 12;
    verify_fault_plant(fault);
    if (verify_begin(&v, &o, verify_fault_open)) {
        verify_experiments(&v);
        CHECK(!v.is_broken);
        if (getenv("LK_REPORT") != NULL) {
            char path[512];
            (void)snprintf(path, sizeof path, "%.400s/fault-%d.html", getenv("LK_REPORT"), fault);
            CHECK(verify_report_html(&v, path));
        }
        f = find(&v);
    } else {
        CHECK_MSG(0, "it did not begin");
    }
    verify_end(&v);
    return f;
}

/* Where on the way of a recording the report has to say that the fault is; NULL: none. */
static const char *stage_of(verify_fault fault) {
    switch (fault) {
    case FAULT_HEAR_LOAD:
        return "'layer 2'";
    case FAULT_HEAR_WINDOWS:
        return "'layer 0'";
    case FAULT_HEAR_BEFORE:
    case FAULT_HEAR_CUT:
        return "all stages of the encoder are equal";
    default:
        return NULL;
    }
}

static void check(verify_fault fault, const char *experiment, const char *factor) {
    const finding f = run(fault, experiment);
    CHECK_MSG(f.experiment != NULL && strcmp(f.experiment, experiment) == 0, "%s: not found by %s",
              verify_fault_name(fault), experiment);
    const char *named = f.smallest.n_runs > 0 ? verify_factor_name(f.smallest.factor) : "";
    CHECK_MSG(strcmp(named, factor) == 0, "%s: the matrix names '%s', expected '%s'",
              verify_fault_name(fault), named, factor);
    (void)printf("%-22s found by %-10s in %2d runs, named %s%s\n", verify_fault_name(fault),
                 experiment, f.n_runs, factor[0] != '\0' ? factor : "-",
                 strcmp(experiment, "schedules") == 0 ? ", shrunk" : "");
    const char *stage = stage_of(fault);
    CHECK_MSG(stage == NULL || strstr(f.detail, stage) != NULL, "%s: '%s' does not say '%s'",
              verify_fault_name(fault), f.detail, stage);
    if (strcmp(experiment, "schedules") == 0) {
        CHECK_MSG(f.n_ops > 0 && f.n_ops <= 6, "shrunk to %d operations", f.n_ops);
    }
}

LK_TEST(each_fault_is_found_and_named) {
#define VERIFY_FAULT(id, name, experiment, factor, meaning) check(FAULT_##id, experiment, factor);
#include "verify_faults.def"
#undef VERIFY_FAULT
}

LK_TEST(without_a_fault_all_is_silent) {
    const finding f = run(FAULT_NONE, NULL);
    CHECK_MSG(f.experiment == NULL, "%s differs", f.experiment != NULL ? f.experiment : "");
    if (lk_test_size(0, 0, 1) != 0) { /* else unit.tool_verify does this */
        const finding heard = run(FAULT_NONE, "audio");
        CHECK_MSG(heard.experiment == NULL, "audio differs");
    }
}

LK_TEST(each_fault_under_the_whole_suite) {
    if (getenv("LK_FULL") == NULL) {
        return;
    }
    for (int fault = 1; fault < N_FAULTS; fault++) {
        const bool is_heard = stage_of((verify_fault)fault) != NULL;
        const finding f = run((verify_fault)fault, is_heard ? "audio" : NULL);
        CHECK_MSG(f.experiment != NULL, "%s: not found", verify_fault_name((verify_fault)fault));
        (void)printf("suite: %-22s first by %-10s after %2d runs, %s\n",
                     verify_fault_name((verify_fault)fault),
                     f.experiment != NULL ? f.experiment : "-", f.n_runs,
                     f.smallest.n_runs > 0 ? verify_factor_name(f.smallest.factor) : "-");
    }
}

LK_TEST_MAIN(LK_RUN(each_fault_is_found_and_named), LK_RUN(without_a_fault_all_is_silent),
             LK_RUN(each_fault_under_the_whole_suite))
