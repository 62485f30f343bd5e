/* cmd_make_random.c - `lockstep make-random`: a model file with random weights in the shape of a
 * known model, to measure speed and memory with. */
#include <stdio.h>

#include "command.h"
#include "lk/lk.h"
#include "shared/console.h"
#include "shared/options.h"

static const char help[] =
    "usage: lockstep make-random SHAPE FORMAT OUT [OPTIONS]\n\n"
    "Writes OUT, a GGUF file with random weights in the exact shape of a known model. Its speed\n"
    "and memory are those of the real one; its text means nothing.\n\n"
    "  SHAPE            qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, llama3.2-1b, llama3.1-8b;\n"
    "                   encoders (qwen2.5-omni-3b-mmproj); qwen3-tiny and others for tests; a\n"
    "                   name that is none lists all\n"
    "  FORMAT           as of `lockstep quantize` (Q4_K_M, Q8_0, ...), or one format for every\n"
    "                   matrix (Q5_0, IQ4_XS, ...)\n"
    "  --seed N         of the weights (default: 1); the same seed gives the same file\n"
    "  --layers N       only so many layers (default: all)\n"
    "  -t, --threads N  threads (default: one per processor); never changes the output\n\n"
    "example: lockstep make-random qwen3-1.7b Q4_K_M random.gguf\n";

static void print_names(void) {
    (void)fprintf(stderr, "shapes:");
    for (uint32_t i = 0; lk_random_model_shape_at(i) != NULL; i++) {
        (void)fprintf(stderr, " %s", lk_random_model_shape_at(i));
    }
    (void)fprintf(stderr, "\n");
}

int lk_command_make_random(int argc, char **argv) {
    const char *out_path = NULL;
    uint64_t seed = 1;
    int64_t n_layers = 0;
    int64_t n_threads = 0;
    lk_random_model_params params = LK_RANDOM_MODEL_PARAMS_INIT;
    const lk_option options[] = {
        {"--seed", NULL, LK_OPTION_U64, &seed, 0, 0, NULL},
        {"--layers", NULL, LK_OPTION_INT, &n_layers, 1, 1024, NULL},
        {"--threads", "-t", LK_OPTION_INT, &n_threads, 1, 256, NULL},
    };
    const lk_positional positionals[] = {
        {"SHAPE", &params.shape, true}, {"FORMAT", &params.format, true}, {"OUT", &out_path, true}};
    const lk_command_line line = {"make-random", help,
                                  options,       sizeof options / sizeof options[0],
                                  positionals,   sizeof positionals / sizeof positionals[0]};
    int exit_status = 0;
    if (!lk_options_parse(&line, argc, argv, &exit_status)) {
        return exit_status;
    }
    lk_progress_bar bar;
    lk_progress_bar_init(&bar);
    params.seed = seed;
    params.n_layers = (uint32_t)n_layers;
    params.n_threads = (uint32_t)n_threads;
    params.progress = lk_progress_bar_draw_or_cancel;
    params.progress_ctx = &bar;
    lk_error err;
    const double start = lk_console_seconds();
    lk_console_catch_interrupt(NULL);
    const lk_status status = lk_random_model_write(out_path, &params, &err);
    const double seconds = lk_console_seconds() - start;
    lk_progress_bar_clear(&bar);
    if (status == LK_E_NOT_FOUND) {
        (void)lk_console_failed("make-random", &err);
        print_names();
        exit_status = 2;
    } else if (status != LK_OK) {
        (void)lk_console_failed("make-random", &err);
        exit_status = status == LK_E_CANCELLED ? 130 : 1;
    } else {
        (void)printf("%s written in %.1f s\n", out_path, seconds);
    }
    return lk_console_finish("make-random", exit_status);
}
