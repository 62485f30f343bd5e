/* inspect.h - what the two outputs of `lockstep inspect` share. */
#ifndef LK_INSPECT_H
#define LK_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "lk/gguf.h"

enum { INSPECT_MAX_FORMATS = 64, INSPECT_MAX_PROBLEMS = 16 };

/* A thing that keeps the file from being run. */
typedef struct inspect_problem {
    char kind[16];
    char message[320];
} inspect_problem;

/* Tensors of one format. */
typedef struct inspect_format {
    uint32_t type;
    uint64_t n_tensors;
    uint64_t n_elems;
    uint64_t n_bytes;
} inspect_format;

typedef struct inspect_report {
    const char *path;
    const lk_gguf *gguf;
    char arch[64];       /* "" when the file names none; a longer name is cut */
    bool arch_supported; /* this build can load it */
    bool all;            /* arrays and strings in full */
    inspect_problem problems[INSPECT_MAX_PROBLEMS];
    uint32_t n_problems; /* 0: the file can be run; may exceed INSPECT_MAX_PROBLEMS */
    char digest[65];     /* hexadecimal, "" when it was not asked for */
    inspect_format formats[INSPECT_MAX_FORMATS]; /* most bytes first */
    uint32_t n_formats;
    uint64_t n_params; /* elements of all tensors */
    uint64_t n_bytes;  /* of all tensors */
} inspect_report;

/* The value of an element of an array of numbers or bools, widened as in lk_gguf_value. */
lk_gguf_value inspect_element(const lk_gguf_value *array, uint64_t i);

void inspect_print_text(const inspect_report *r);
/* False when memory is short. */
bool inspect_print_json(const inspect_report *r);

#endif
