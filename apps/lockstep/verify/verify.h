/* verify.h - the parts of `lockstep verify`: what was asked for, the experiments, what they found.
 *
 * An experiment is a file experiment_<name>.c with one line in experiments.def. It makes cases: a
 * case runs a schedule on the target and holds every stream of it against the stream's solo run. A
 * case is one line of the report. When a line differs, the isolation matrix varies one factor at a
 * time from there (verify_matrix.c). */
#ifndef LK_VERIFY_H
#define LK_VERIFY_H

#include <stdio.h>

#include "lk/lk.h"
#include "shared/console.h"
#include "verify_target.h"

enum {
    VERIFY_MAX_LIST = 32,
    VERIFY_LABEL = 96,
    VERIFY_COMMAND = 1024,
    VERIFY_MAX_REPETITIONS = 1000
};

typedef enum verify_suite {
    VERIFY_QUICK = 1,
    VERIFY_FULL = 2,
    VERIFY_SOAK = 3,
    VERIFY_BY_NAME = 4 /* of an experiment that no suite has */
} verify_suite;

typedef struct verify_options {
    const char *model; /* NULL: none given */
    const char *target;
    verify_suite suite;
    const char *only; /* names with commas, or NULL */
    uint64_t seed;
    bool seed_given;
    const char *report; /* files, or NULL */
    const char *json;
    const char *junit;
    const char *mmproj;        /* the audio encoder's file, or NULL */
    const char *audio;         /* a recording, or NULL */
    const char *chat_template; /* of its question: a file or a name; NULL: the model's own */
    const char *api_key;
    const char *set;     /* factors of --only case */
    verify_factors keep; /* of these, what its solo run has too */
    const char *replay;
    const char *record;  /* write a receipt file */
    const char *across;  /* hold against one */
    const char *program; /* the tool, for a process of its own */
    int64_t max_requests;
    double max_seconds;
    int64_t n_repetitions; /* 0: the suite's */
    int64_t n_schedules;   /* 0: the suite's */
    int64_t joins[VERIFY_MAX_LIST];
    size_t n_joins;    /* 0: the suite's */
    bool n_given;      /* -n */
    bool with_prompts; /* texts in the reports */
    bool no_matrix;
    bool is_quiet;
    verify_point base; /* what -t, --kv-type, -ngl and others set */
} verify_options;

typedef enum verify_verdict {
    VERDICT_EQUAL,     /* every run */
    VERDICT_NOISE,     /* tokens are equal, or differ as float noise can make them */
    VERDICT_DIFFERENT, /* a token or a bit differs and should not */
    VERDICT_ERROR,     /* the target failed where it should not */
    VERDICT_UNABLE,    /* not possible with this target */
    VERIFY_N_VERDICTS
} verify_verdict;
const char *verify_verdict_name(verify_verdict verdict); /* "equal", ... */

/* A stream against its solo run. */
typedef struct verify_trace {
    char name[48];     /* "sequence 0 (generating)" */
    int32_t n;         /* tokens asked for */
    int32_t n_tokens;  /* tokens that came */
    int32_t first_div; /* first token that differs; n: none */
    int32_t maxrun;    /* longest run of one token */
    int32_t distinct;  /* different tokens */
    bool has_bits;
    int64_t first_bit_pos; /* first position whose logits differ; -1: none */
    int32_t i_step;        /* where that was */
    int32_t i_row;
    double
        logprob_gap; /* largest difference of log probabilities before first_div; NaN: not known */
    verify_verdict verdict;
    char detail[256];
    uint8_t *marks; /* [n] of each token: VERIFY_MARK_...; the line's memory */
} verify_trace;
enum { VERIFY_MARK_EQUAL = 0, VERIFY_MARK_BITS = 1, VERIFY_MARK_TOKEN = 2, VERIFY_MARK_NONE = 3 };

/* One cell of the isolation matrix: one factor moved away from the failing setting. */
typedef struct verify_cell {
    verify_factor factor;
    int64_t value;
    int32_t n_runs;
    int32_t n_differ;
    bool is_possible;
} verify_cell;

typedef struct verify_line {
    const char *experiment;
    char label[VERIFY_LABEL];
    verify_verdict verdict;
    int32_t n_runs;
    int32_t n_differ;
    int32_t n_traces; /* of the first run that differs, else of the first */
    verify_trace traces[VERIFY_MAX_STREAMS];
    char detail[VERIFY_WHY];
    char command[VERIFY_COMMAND];
    double seconds;
    verify_point point;
    verify_factors subject; /* at their base in the solo runs */
    int32_t n_cells;        /* the matrix, where one was made */
    verify_cell *cells;
    verify_cell smallest; /* n_runs 0: none found */
    char *schedule;       /* of a line that is not a point: its text, the line's memory */
} verify_line;

typedef struct verify_reference verify_reference;     /* kept solo runs: verify_solo.c */
typedef struct verify_kept_prompt verify_kept_prompt; /* verify_prompts.c */

typedef verify_status verify_opener(const char *name, const verify_source *source,
                                    verify_target **out, char why[VERIFY_WHY]);

typedef struct verify {
    const verify_options *options;
    verify_opener *open;
    verify_target *target;
    lk_model *model;               /* for tokens and digests; NULL: none */
    const lk_tokenizer *tokenizer; /* its */
    uint8_t model_digest[32];
    bool has_digest;
    verify_point base;
    verify_line **lines;
    size_t n_lines;
    verify_reference *references;
    verify_kept_prompt *prompts;
    verify_clip clips[VERIFY_N_CLIPS]; /* zeros without --audio */
    bool is_broken;                    /* something of the verifier's own failed: exit status 2 */
    int32_t i_experiment;
    int32_t n_experiments;
    const char *experiment; /* under way */
    char machine[256];
    double start;
} verify;

/* Experiments. `needs`: capabilities; `subject`: the factors that it varies, at their base in the
 * solo run. */
#define VERIFY_EXPERIMENT(name, suites, needs, meaning) void verify_experiment_##name(verify *v);
#include "experiments.def"
#undef VERIFY_EXPERIMENT

/* True when the suite (or -n, --seed, ... by hand) includes what only `suite` does. */
bool verify_is_full(const verify *v);
bool verify_is_soak(const verify *v);

/* Runs a point `n_runs` times (0: as often as the suite says), compares with the solo runs, in
 * which the factors of `subject` are at their base, and appends a line. Where the target cannot,
 * the line says so. */
void verify_case(verify *v, const verify_point *p, verify_factors subject, int32_t n_runs,
                 const char *label);

/* --- what cases are made of (verify_case.c, verify_shape.c, verify_compare.c) --- */

/* The schedule of a point's SHAPE factors. False: no memory. Free with verify_schedule_deinit; its
 * prompts live as long as v. */
bool verify_shape(const verify *v, const verify_point *p, verify_schedule *s);
/* Prompt number i (modulo VERIFY_N_PROMPTS): its text, and ids where a model is open. */
void verify_prompt(const verify *v, int64_t i, verify_stream *stream);
/* The prompt with the recording, or with it backwards; v has one. */
void verify_prompt_of_clip(const verify *v, bool backwards, verify_stream *stream);
enum { VERIFY_N_PROMPTS = 16, VERIFY_PROMPTS_VERSION = 1 };
bool verify_prompts_init(verify *v);
void verify_prompts_free(verify *v);

/* Holds an output against the solo run's. trace->name is kept; its marks are the caller's to free.
 * False: no memory. */
bool verify_compare(const verify *v, const verify_stream *stream, const verify_output *solo,
                    const verify_output *output, verify_trace *trace);
/* Runs a schedule once: load is started around it, and what the target cannot is asked first. */
verify_status verify_run(verify *v, const verify_schedule *s, const verify_point *p,
                         verify_result *result, char why[VERIFY_WHY]);
/* The solo run of a stream at p's TARGET factors, kept by v; NULL with the reason when there is
 * none. wants_all: digests of the prompt's rows too. */
const verify_output *verify_solo(verify *v, const verify_stream *stream, const verify_point *p,
                                 bool wants_all, verify_status *status, char why[VERIFY_WHY]);
void verify_references_free(verify *v);

/* A new line of the running experiment; NULL: no memory (v->is_broken). */
verify_line *verify_line_add(verify *v, const char *label);
/* The line cannot be made: the target has no such thing, or something broke. */
void verify_line_give_up(verify *v, verify_line *line, verify_status status, const char *why);
/* Completes a line that was made by hand, and prints it. */
void verify_line_done(verify *v, verify_line *line);
/* Runs a schedule n_runs times and fills the line; as verify_case, for an own schedule. */
void verify_run_line(verify *v, verify_line *line, const verify_schedule *s, const verify_point *p,
                     verify_factors subject, int32_t n_runs);
void verify_line_free(verify_line *line);
void verify_lines_free(verify *v);
/* Whether the matrix is to be made of a line; and making it. schedule: what was run where the point
 * alone does not say it, else NULL. */
bool verify_wants_matrix(const verify *v, const verify_line *line);
void verify_matrix(verify *v, verify_line *line, const verify_schedule *schedule,
                   verify_factors subject);
/* Prints the line that is done. */
void verify_table_line(const verify *v, const verify_line *line);
void verify_table_head(const verify *v);
void verify_table_end(const verify *v);
/* On a terminal: what is being done, on the line below the table. */
void verify_progress(const verify *v, const char *what);
void verify_progress_clear(void);
/* "lockstep verify MODEL --target ...", as far as all commands to repeat a line have it. */
void verify_command_start(const verify *v, char *text, size_t size);

#endif
