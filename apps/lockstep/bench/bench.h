/* bench.h - `lockstep bench`: what is measured (a test), what came out (a result), and the pieces
 * of the command: cmd_bench.c reads the command line, bench_run.c measures, bench_limit.c says how
 * fast the machine could be at most, bench_report.c prints; bench_audio.c does all of it for the
 * encoder of recordings. */
#ifndef LK_BENCH_H
#define LK_BENCH_H

#include <stdbool.h>

#include "lk/lk.h"
#include "shared/options.h"

enum { BENCH_MAX_LIST = 16, BENCH_MAX_REPETITIONS = 100, BENCH_MAX_MODELS = LK_OPTION_LIST_MAX };

typedef struct bench_list {
    int64_t items[BENCH_MAX_LIST];
    size_t n;
} bench_list;

typedef struct bench_kv {
    lk_kv_type k;
    lk_kv_type v;
} bench_kv;

typedef struct bench_options {
    const char *models[BENCH_MAX_MODELS];
    size_t n_models;
    bench_list prompts;   /* tokens of prompt tests; 0: none */
    bench_list gens;      /* tokens of generation tests; 0: none */
    bench_list depths;    /* positions before the test */
    bench_list parallels; /* sequences of batched tests; empty: none */
    int64_t batch_prompt; /* tokens of each sequence of batched tests */
    int64_t batch_gen;
    bench_list threads;
    bench_kv kvs[BENCH_MAX_LIST];
    size_t n_kvs;
    bench_list isas; /* masks */
    int64_t max_rows;
    const char *mmproj; /* an encoder's file, NULL: none */
    bench_list clips;   /* seconds of recordings for it */
    bool on_cpu;        /* where it runs: on the processor, on the first device, or both */
    bool on_device;
    int64_t n_repetitions;
    int64_t device; /* for the text models; 0: the processor */
    bool no_warmup;
    bool no_machine;
    bool no_repack;
} bench_options;

/* What the limits need to know of a model. */
typedef struct bench_weights {
    uint64_t layer_bytes; /* of all matrices but the output's, without experts */
    uint64_t layer_elems;
    uint64_t expert_bytes; /* of all experts of all layers */
    uint64_t expert_elems;
    uint64_t output_bytes;
    uint64_t output_elems;
} bench_weights;

typedef struct bench_model {
    const char *path;
    lk_model_info info;
    char description[96]; /* "qwen3 1.7B Q4_K - Medium" */
    uint64_t tensor_bytes;
    bench_weights weights;
    double load_seconds;
    uint64_t load_peak_bytes; /* of the process while it loaded; 0: not known */
} bench_model;

typedef struct bench_test {
    const bench_model *model;
    uint32_t n_threads;
    uint32_t isa;      /* the mask asked for */
    uint32_t isa_used; /* what the processor has of it */
    bench_kv kv;
    bool is_gen;
    int64_t n_tokens; /* of each sequence */
    int64_t depth;    /* positions of each sequence before the test */
    int32_t n_parallel;
    bool is_batched; /* one of the batched tests, also with one sequence */
    int64_t max_rows;
    int64_t device; /* 0: the processor */
} bench_test;

typedef struct bench_result {
    bench_test test;
    double seconds[BENCH_MAX_REPETITIONS];
    size_t n_repetitions;
    double speed;           /* tokens per second of all sequences: mean ... */
    double speed_deviation; /* ... and deviation of the sample */
    double limit_share;     /* of the machine's limit; 0: not known */
    double vector_share;    /* of the limit that it has without matrix units */
    uint64_t peak_bytes;    /* of the process; 0: not known */
    uint8_t digest[16];     /* of the last row of logits */
    bool is_wrong;          /* the digest differs from one that it must equal */
} bench_result;

/* The machine with one number of threads and set of instructions. */
typedef struct bench_machine {
    uint32_t isa;
    lk_machine_speed speed;
} bench_machine;

/* One recording with one number of threads and set of instructions, or on a device. */
typedef struct bench_audio_result {
    int64_t clip_s;
    uint64_t n_frames;
    uint64_t n_vectors;
    uint32_t n_threads;
    uint32_t isa;
    uint32_t device;                       /* 0: the processor */
    double features_s;                     /* samples to features, the shortest; one thread */
    double seconds[BENCH_MAX_REPETITIONS]; /* features to vectors */
    size_t n_repetitions;
    double median_s;
    double ops; /* of the encoder, with which it could be done at the machine's best in ... */
    double limit_share; /* ... this part of the time; 0: not known */
    uint8_t digest[16]; /* of the vectors */
    bool is_wrong;      /* it differs from one that it must equal */
} bench_audio_result;

/* The encoder and what it did. */
typedef struct bench_audio {
    const char *path; /* NULL: none */
    lk_projector_info info;
    double load_seconds;
    bench_audio_result *results;
    size_t n_results;
} bench_audio;

typedef struct bench_report {
    bench_model *models; /* [n_models], in the order of the command line */
    size_t n_models;
    bench_machine *machines;
    size_t n_machines;
    bench_result *results;
    size_t n_results;
    bench_audio audio;
    lk_device_info device; /* the first one; without a name: there is none */
    bool is_interrupted;
    bool is_wrong; /* one of the results is */
} bench_report;

/* Measures everything. Prints the reason and returns false on failure; the report holds what was
 * done until then. Free it with bench_report_deinit. */
bool bench_run(const bench_options *options, bench_report *report);
void bench_report_deinit(bench_report *report);
/* The description, bytes and elements of an open model. */
void bench_describe(bench_model *model, const lk_model *open);

/* What was measured of the machine with so many threads and this mask; NULL: it was not. */
const lk_machine_speed *bench_speed_of(const bench_report *report, uint32_t n_threads,
                                       uint32_t isa);

/* Seconds that the test takes at least, if memory is read and products are computed at the
 * machine's best speed; 0 when that is not known. */
double bench_limit_seconds(const bench_test *t, const lk_machine_speed *speed,
                           bool with_matrix_units);

/* Measures the encoder of options->mmproj; the machines are those of the report. As bench_run. */
bool bench_audio_run(const bench_options *options, bench_report *report);
void bench_audio_deinit(bench_audio *audio);
/* The table of its results, as text or Markdown; nothing where there are none. */
void bench_audio_print(const bench_audio *audio, bool is_markdown);
/* The same as JSON: an array. */
struct json_t *bench_audio_json(const bench_audio *audio);

/* "pp512", "tg128 @ d4096", "tg32 x8". */
void bench_test_name(const bench_test *test, char name[64]);
/* "f16", or "q8_0,f16". */
void bench_kv_name(bench_kv kv, char name[32]);
/* "avx512" stands for that set and those that it stands on, and so on; "all". */
const char *bench_isa_name(uint32_t mask);
bool bench_isa_mask(const char *name, size_t n_name, uint32_t *mask);

typedef enum bench_format {
    BENCH_TABLE,
    BENCH_MARKDOWN,
    BENCH_CSV,
    BENCH_JSON,
    BENCH_PEER
} bench_format;
/* Prints to standard output; false when it could not. */
bool bench_print(const bench_report *report, bench_format format);

#endif
