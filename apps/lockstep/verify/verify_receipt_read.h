/* verify_receipt_read.h - the bytes of a receipt file (verify_receipt.h), read and checked. They
 * may be anything: what is accepted keeps to the limits below, the rest is refused with a reason.
 * Whether it is of this model and this machine's concern is not looked at here. */
#ifndef LK_VERIFY_RECEIPT_READ_H
#define LK_VERIFY_RECEIPT_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lk/lk.h"

enum {
    VERIFY_RECEIPT_VERSION = 1,
    VERIFY_RECEIPT_BYTES = 64 << 20,
    VERIFY_RECEIPT_TYPES = 9, /* pairs of KV types */
    VERIFY_RECEIPT_RUNS = 32,
    VERIFY_RECEIPT_TOKENS = 1 << 20,
    VERIFY_RECEIPT_DIGEST = 16
};

typedef struct verify_receipt_run {
    int32_t i_prompt; /* 0 .. INT32_MAX */
    int32_t n;        /* tokens asked for, 1 .. VERIFY_RECEIPT_TOKENS */
    int32_t n_tokens; /* that came, 0 .. n */
    int32_t *ids;     /* [n_tokens] */
    bool *has_digest; /* [n_tokens] */
    uint8_t *digests; /* [n_tokens, VERIFY_RECEIPT_DIGEST] */
} verify_receipt_run;

typedef struct verify_receipt_type {
    lk_kv_type k_type;
    lk_kv_type v_type;
    size_t n_runs; /* 1 .. VERIFY_RECEIPT_RUNS */
    verify_receipt_run runs[VERIFY_RECEIPT_RUNS];
} verify_receipt_type;

typedef struct verify_receipt {
    char model[65]; /* digest, hexadecimal */
    char numerics[17];
    int64_t prompts; /* version of the set of prompts */
    size_t n_types;  /* 1 .. VERIFY_RECEIPT_TYPES */
    verify_receipt_type types[VERIFY_RECEIPT_TYPES];
} verify_receipt;

/* False with the reason in `why`, and nothing is held. On success free with verify_receipt_free. */
bool verify_receipt_read(const char *bytes, size_t n, verify_receipt *receipt, char *why,
                         size_t size);
void verify_receipt_free(verify_receipt *receipt);

#endif
