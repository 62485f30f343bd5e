/* run_options.c - the command line of `lockstep run`. */
#include "lk/sampler.h"
#include "recording/audio_input.h"
#include "run.h"

static const char help[] =
    "usage: lockstep run MODEL -p TEXT | -f FILE | -   [OPTIONS]\n"
    "Continues a prompt (TEXT, a file, or standard input) and prints the text as it comes.\n\n"
    "  -n N                  tokens to generate (256; -1: until the context is full)\n"
    "  --chat                answer the prompt with the model's chat template\n"
    "  --mmproj FILE --audio FILE    a recording before the prompt, for a model with an audio\n"
    "                        encoder; --audio may be repeated, and means --chat\n"
    "  --projector P         where the encoder runs: cpu (default) or device; moves no bit\n"
    "  --system TEXT --tools FILE --chat-template FILE|NAME --chat-template-kwargs JSON\n"
    "                        with --chat, as in lockstep template\n"
    "  --temp T              temperature (0.8; 0: always the best token)\n"
    "  --top-k N --top-p P --min-p P --typical P     candidates (40, 0.95, 0.05, 1: off)\n"
    "  --repeat-penalty R --presence-penalty X --frequency-penalty X     (1, 0, 0: off)\n"
    "  --penalty-last-n N    tokens that the penalties look at (64; -1: all)\n"
    "  --logit-bias ID=X     add X to a token's logit (-inf bans it); may be repeated\n"
    "  --seed N              repeats a run (default: random, and printed)\n"
    "  --stop TEXT           end before this text; may be repeated\n"
    "  --grammar FILE|TEXT   keep the text to a grammar in GBNF\n"
    "  --json-schema FILE|TEXT   keep it to a JSON schema; --json-object: to any JSON object\n"
    "  --ignore-eos          go on where the model would end\n"
    "  -c, --ctx N           positions of the context (default: as the model was trained)\n"
    "  --kv-type T[,T]       keys and values as f32, f16 (default) or q8_0\n"
    "  -t, --threads N; --device N     threads (default: one per processor), a device (0: the\n"
    "                        processor); neither changes the output\n"
    "  --no-repack           compute from the mapped file, without rearranging its matrices\n"
    "  --special             read special tokens in the prompt, show them; --echo: prompt first\n"
    "  --ids --digests       a line per token: id, digest of its logits, text\n"
    "  --json                one JSON object at the end; --model-digest adds the model's\n\n"
    "example: lockstep run model.gguf -p \"Once upon a time\" -n 100 --temp 0.7 --seed 1\n";

/* What one option alone does not show: the sources of the prompt, stop texts, KV types. */
static bool check_options(run_options *o, const char *input, const char *file,
                          const char *kv_type) {
    if (input != NULL && (input[0] != '-' || input[1] != '\0')) {
        (void)lk_console_error("run", "unexpected argument '%s': give the prompt with -p", input);
        return false;
    }
    if ((o->prompt != NULL) + (file != NULL) + (input != NULL) != 1) {
        (void)lk_console_error("run", "give the prompt once: -p TEXT, -f FILE or -");
        return false;
    }
    o->prompt_file = file != NULL ? file : input;
    if ((o->audio.n != 0) != (o->mmproj != NULL)) {
        (void)lk_console_error("run",
                               "--audio needs the encoder's file with --mmproj, and --mmproj "
                               "a recording with --audio");
        return false;
    }
    if (!lk_audio_input_check_place("run", o->projector, o->mmproj, &o->projector_device)) {
        return false;
    }
    o->chat = o->chat || o->audio.n != 0;
    const lk_conversation_options *c = &o->conversation;
    if (!o->chat && (c->system != NULL || c->tools != NULL || c->chat_template != NULL ||
                     c->variables != NULL)) {
        (void)lk_console_error("run", "--system, --tools, --chat-template and "
                                      "--chat-template-kwargs need --chat");
        return false;
    }
    for (size_t i = 0; i < o->stops.n; i++) {
        if (o->stops.items[i][0] == '\0') {
            (void)lk_console_error("run", "--stop needs a text that is not empty");
            return false;
        }
    }
    return run_check_grammar(o) && lk_check_device("run", o->device) &&
           lk_parse_kv_type("run", kv_type, &o->k_type, &o->v_type);
}

bool run_parse(int argc, char **argv, run_options *o, int *exit_status) {
    const lk_sampler_params defaults = LK_SAMPLER_PARAMS_INIT;
    *o = (run_options){
        .n_predict = 256,
        .temperature = (double)defaults.temperature,
        .top_k = defaults.top_k,
        .top_p = (double)defaults.top_p,
        .min_p = (double)defaults.min_p,
        .typical_p = (double)defaults.typical_p,
        .repeat_penalty = (double)defaults.repeat_penalty,
        .penalty_last_n = defaults.penalty_last_n,
    };
    const char *kv_type = "f16";
    const char *input = NULL;
    const char *file = NULL;
    const lk_option options[] = {
        LK_CONVERSATION_OPTIONS(&o->conversation),
        {"--prompt", "-p", LK_OPTION_TEXT, &o->prompt, 0, 0, NULL},
        {"--file", "-f", LK_OPTION_TEXT, &file, 0, 0, NULL},
        {"--mmproj", NULL, LK_OPTION_TEXT, &o->mmproj, 0, 0, NULL},
        {"--projector", NULL, LK_OPTION_TEXT, &o->projector, 0, 0, NULL},
        {"--audio", NULL, LK_OPTION_LIST, &o->audio, 0, 0, NULL},
        {"--n-predict", "-n", LK_OPTION_INT, &o->n_predict, -1, 1e9, NULL},
        {"--ctx", "-c", LK_OPTION_INT, &o->n_ctx, 1, (double)LK_MAX_POSITIONS, NULL},
        {"--threads", "-t", LK_OPTION_INT, &o->n_threads, 1, 256, NULL},
        {"--temp", NULL, LK_OPTION_REAL, &o->temperature, 0, 1e6, NULL},
        {"--top-k", NULL, LK_OPTION_INT, &o->top_k, 0, INT32_MAX, NULL},
        {"--top-p", NULL, LK_OPTION_REAL, &o->top_p, 0, 1, NULL},
        {"--min-p", NULL, LK_OPTION_REAL, &o->min_p, 0, 1, NULL},
        {"--typical", NULL, LK_OPTION_REAL, &o->typical_p, 0, 1, NULL},
        {"--repeat-penalty", NULL, LK_OPTION_REAL, &o->repeat_penalty, 0.01, 100, NULL},
        {"--presence-penalty", NULL, LK_OPTION_REAL, &o->presence_penalty, -100, 100, NULL},
        {"--frequency-penalty", NULL, LK_OPTION_REAL, &o->frequency_penalty, -100, 100, NULL},
        {"--penalty-last-n", NULL, LK_OPTION_INT, &o->penalty_last_n, -1, LK_MAX_PENALTY_TOKENS,
         NULL},
        {"--logit-bias", NULL, LK_OPTION_LIST, &o->logit_bias, 0, 0, NULL},
        {"--seed", NULL, LK_OPTION_U64, &o->seed, 0, 0, &o->has_seed},
        {"--stop", NULL, LK_OPTION_LIST, &o->stops, 0, 0, NULL},
        {"--grammar", NULL, LK_OPTION_TEXT, &o->grammar, 0, 0, NULL},
        {"--json-schema", NULL, LK_OPTION_TEXT, &o->json_schema, 0, 0, NULL},
        {"--json-object", NULL, LK_OPTION_FLAG, &o->json_object, 0, 0, NULL},
        {"--kv-type", NULL, LK_OPTION_TEXT, &kv_type, 0, 0, NULL},
        {"--ids", NULL, LK_OPTION_FLAG, &o->ids, 0, 0, NULL},
        {"--digests", NULL, LK_OPTION_FLAG, &o->digests, 0, 0, NULL},
        {"--json", NULL, LK_OPTION_FLAG, &o->json, 0, 0, NULL},
        {"--device", NULL, LK_OPTION_INT, &o->device, 0, 1024, NULL},
        {"--no-repack", NULL, LK_OPTION_FLAG, &o->no_repack, 0, 0, NULL},
        {"--special", NULL, LK_OPTION_FLAG, &o->special, 0, 0, NULL},
        {"--ignore-eos", NULL, LK_OPTION_FLAG, &o->ignore_eos, 0, 0, NULL},
        {"--chat", NULL, LK_OPTION_FLAG, &o->chat, 0, 0, NULL},
        {"--echo", NULL, LK_OPTION_FLAG, &o->echo, 0, 0, NULL},
        {"--model-digest", NULL, LK_OPTION_FLAG, &o->model_digest, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &o->model, true}, {"-", &input, false}};
    const lk_command_line line = {
        "run",       help,
        options,     sizeof options / sizeof options[0],
        positionals, sizeof positionals / sizeof positionals[0],
    };
    if (!lk_options_parse(&line, argc, argv, exit_status)) {
        return false;
    }
    const bool ok = check_options(o, input, file, kv_type);
    *exit_status = ok ? 0 : 2;
    return ok;
}
