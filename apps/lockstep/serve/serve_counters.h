/* serve_counters.h - what the server counts for /metrics: requests, tokens, errors by kind, and
 * times in histograms. Any thread may count. */
#ifndef LK_SERVE_COUNTERS_H
#define LK_SERVE_COUNTERS_H

#include <pthread.h>
#include <stdint.h>

enum { SERVE_N_BUCKETS = 14, SERVE_N_CODES = 600 };

typedef struct serve_histogram {
    uint64_t buckets[SERVE_N_BUCKETS + 1]; /* the last: above all bounds */
    double sum;
} serve_histogram;

typedef struct serve_counters {
    pthread_mutex_t lock;
    uint64_t responses[SERVE_N_CODES]; /* by status of HTTP */
    uint64_t gone;                     /* clients that went away before the end */
    uint64_t open_jobs;
    uint64_t jobs;
    uint64_t errors[32]; /* choices that failed, by lk_status */
    serve_histogram first_token_s;
    serve_histogram next_token_s;
    serve_histogram whole_s;
} serve_counters;

/* Upper bounds of the buckets, in seconds. */
extern const double serve_bounds[SERVE_N_BUCKETS];

/* With the lock. */
void serve_observe(serve_histogram *histogram, double seconds);

#endif
