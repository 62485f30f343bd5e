/* serve_counters.c - see serve_counters.h. */
#include "serve_counters.h"

const double serve_bounds[SERVE_N_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                              0.25,  0.5,    1,     2.5,  5,     10,   30};

void serve_observe(serve_histogram *histogram, double seconds) {
    int i = 0;
    while (i < SERVE_N_BUCKETS && seconds > serve_bounds[i]) {
        i++;
    }
    histogram->buckets[i]++;
    histogram->sum += seconds;
}
