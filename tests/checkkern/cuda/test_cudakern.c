/* test_cudakern.c - the kernels of the CUDA backend against the scalar twins, bit by bit: on the
 * host in ctest, on a card as the program cudakern_card. */
#include <stdio.h>

#include "cudakern.h"
#include "lk_test.h"

int main(int argc, char **argv) {
    ck_run run = {.isa = "cuda", .rng = lk_test_seed(20)};
    const int n_args = kd_open(argc, argv);
    if (n_args > 1 && strcmp(argv[1], "bench") == 0) {
        cu_bench();
        return 0;
    }
    const int n_rounds = n_args > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < n_rounds; i++) {
        cu_check_row_wise(&run);
        cu_check_matmul(&run);
        cu_check_attention(&run);
        cu_check_experts(&run);
    }
    (void)printf("%llu rows compared, %llu differences\n", (unsigned long long)run.n_calls,
                 (unsigned long long)run.n_failures);
    return run.n_failures == 0 && run.n_calls > 0 ? 0 : 1;
}
