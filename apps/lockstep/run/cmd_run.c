/* cmd_run.c - `lockstep run`: opens the model, runs the parts in order, cleans up. Exit status 130
 * after Ctrl-C, 143 after SIGTERM, as shells expect. */
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "run.h"

static bool open_all(run *r) {
    const run_options *o = r->options;
    lk_error err;
    r->model = lk_open_model("run", o->model, o->n_threads, !o->no_repack && o->device == 0);
    if (r->model == NULL) {
        return false;
    }
    r->tokenizer = lk_model_tokenizer(r->model);
    r->info = LK_MODEL_INFO_INIT;
    if (lk_model_get_info(r->model, &r->info, &err) != LK_OK) {
        return lk_console_failed("run", &err) == 0;
    }
    r->n_ctx = o->n_ctx > 0 ? o->n_ctx : r->info.n_ctx_train;
    if (r->n_ctx > r->info.n_ctx_train) {
        (void)fprintf(
            stderr,
            "lockstep run: note: %lld positions are more than the %lld that the model was "
            "trained on\n",
            (long long)r->n_ctx, (long long)r->info.n_ctx_train);
    }
    return true;
}

static void close_all(run *r) {
    lk_sampler_destroy(r->sampler);
    lk_grammar_destroy(r->grammar);
    lk_token_trie_destroy(r->trie);
    lk_context_destroy(r->context);
    lk_model_close(r->model);
    lk_text_stream_deinit(&r->stream);
    free(r->text.data);
    for (size_t i = 0; r->clips != NULL && i < r->options->audio.n; i++) {
        free(r->clips[i].values);
    }
    free(r->clips);
    free(r->embeddings);
    free(r->prompt);
    free(r->prompt_text);
    free(r->ids);
    free(r->digests);
}

int lk_command_run(int argc, char **argv) {
    run_options options;
    int exit_status = 0;
    if (!run_parse(argc, argv, &options, &exit_status)) {
        return exit_status;
    }
    run r = {
        .options = &options,
        .stream = {.stops = options.stops.items, .n_stops = options.stops.n},
    };
    const bool ok = open_all(&r) && run_compile_grammar(&r) && run_read_audio(&r) &&
                    run_read_prompt(&r) && run_prepare(&r) && run_generate(&r) && run_report(&r);
    exit_status = !ok ? 1 : (r.stop == RUN_STOP_CANCELLED ? lk_console_interrupt_status() : 0);
    close_all(&r);
    return lk_console_finish("run", exit_status);
}
