/* cmd_bench.c - `lockstep bench`: the command line, and how the parts of the command follow one
 * another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "command.h"
#include "shared/console.h"
#include "shared/open_model.h"

static const char help[] =
    "usage: lockstep bench [MODEL] [OPTIONS]\n\n"
    "Measures prompts (pp), generation (tg) and batches, and what part of the machine's limit "
    "they\n"
    "reach. Without a model: the machine alone. Lists: 1,2,8\n\n"
    "  -m, --model FILE        one more model; may be repeated\n"
    "  -p, --prompt LIST       tokens of prompts (512; 0: none)\n"
    "  -n, --gen LIST          tokens to generate (128; 0: none)\n"
    "  -d, --depth LIST        positions that are there before the test (0)\n"
    "  -b, --parallel LIST     batched tests with so many sequences (none)\n"
    "      --batch-prompt N    tokens of each sequence of those (64)\n"
    "      --batch-gen N       tokens that each generates (32)\n"
    "  -t, --threads LIST      threads (one per processor)\n"
    "      --kv-type T[,T]     keys and values as f32, f16 (default) or q8_0; may be repeated\n"
    "      --device N          compute on device N (1 ..; default 0: the processor)\n"
    "      --isa LIST          all (default), amx, avx512, avxvnni, avx2, i8mm, neon, scalar\n"
    "      --mmproj FILE       the encoder of recordings; goes with --audio\n"
    "      --audio LIST        seconds of recordings that it encodes (none)\n"
    "      --projector LIST    where it runs: cpu (default), device\n"
    "      --rows N            rows that are computed at once (512)\n"
    "  -r, --repetitions N     of each test (5)\n"
    "      --no-repack         compute from the mapped file\n"
    "      --no-warmup         no run before the first repetition\n"
    "      --no-machine        do not measure the machine\n"
    "  -o, --output FORMAT     table (default), md, csv or json\n"
    "      --peer-style        rows that line up with those of llama-bench\n\n"
    "Speeds are tokens per second of all sequences, mean +- deviation. The limit is that of\n"
    "reading weights and cache, and of int8 products (on matrix units, where they are used; leave\n"
    "them out with --isa avx512). `logits` is the digest of the last row, `vectors` of a "
    "recording:\n"
    "tests that end at the same position must agree in it, or it says DIFFERENT (exit status "
    "1).\n\n"
    "example: lockstep bench model.gguf -p 512 -n 128 -d 0,4096 -t 1,2\n";

static bool fail_list(const char *option, const char *text, int64_t min, int64_t max) {
    (void)lk_console_error("bench", "%s needs up to %d numbers from %lld to %lld, not '%s'", option,
                           BENCH_MAX_LIST, (long long)min, (long long)max, text);
    return false;
}

/* "1,2,8" */
static bool parse_list(const char *option, const char *text, int64_t min, int64_t max,
                       bench_list *list) {
    const char *at = text;
    list->n = 0;
    while (text[0] != '\0') {
        char *end = NULL;
        const long long x = strtoll(at, &end, 10);
        if (end == at || x < min || x > max || list->n == BENCH_MAX_LIST ||
            (*end != ',' && *end != '\0')) {
            break;
        }
        list->items[list->n++] = x;
        if (*end == '\0') {
            return true;
        }
        at = end + 1;
    }
    return fail_list(option, text, min, max);
}

static bool parse_isas(const char *text, bench_list *list) {
    list->n = 0;
    for (const char *at = text;;) {
        const size_t n = strcspn(at, ",");
        uint32_t mask = 0;
        if (list->n == BENCH_MAX_LIST || !bench_isa_mask(at, n, &mask)) {
            (void)lk_console_error("bench",
                                   "--isa needs all, amx, avx512, avxvnni, avx2, i8mm, neon or "
                                   "scalar, up to %d of them, not '%s'",
                                   BENCH_MAX_LIST, text);
            return false;
        }
        list->items[list->n++] = mask;
        if (at[n] == '\0') {
            return true;
        }
        at += n + 1;
    }
}

static bool parse_kvs(const lk_option_list *texts, bench_options *o) {
    o->kvs[0] = (bench_kv){LK_KV_F16, LK_KV_F16};
    o->n_kvs = texts->n == 0 ? 1 : texts->n;
    if (texts->n > BENCH_MAX_LIST) {
        (void)lk_console_error("bench", "--kv-type may be given %d times at most", BENCH_MAX_LIST);
        return false;
    }
    for (size_t i = 0; i < texts->n; i++) {
        if (!lk_parse_kv_type("bench", texts->items[i], &o->kvs[i].k, &o->kvs[i].v)) {
            return false;
        }
    }
    return true;
}

/* "cpu,device" */
static bool parse_places(const char *text, bench_options *o) {
    for (const char *at = text;;) {
        const size_t n = strcspn(at, ",");
        if (n == 3 && strncmp(at, "cpu", n) == 0) {
            o->on_cpu = true;
        } else if (n == 6 && strncmp(at, "device", n) == 0) {
            o->on_device = true;
        } else {
            (void)lk_console_error("bench", "--projector needs cpu, device or both, not '%s'",
                                   text);
            return false;
        }
        if (at[n] == '\0') {
            break;
        }
        at += n + 1;
    }
    lk_error err;
    uint32_t n_devices = 0;
    return !o->on_device || lk_device_count(&n_devices, &err) == LK_OK ||
           lk_console_error("bench", "--projector device: %s", err.message) == 0;
}

static bool parse_audio(const char *clips, const char *places, bench_options *o) {
    if ((o->mmproj != NULL) != (clips != NULL)) {
        (void)lk_console_error("bench", "--mmproj FILE and --audio SECONDS go together");
        return false;
    }
    if (places != NULL && o->mmproj == NULL) {
        (void)lk_console_error("bench", "--projector is for --mmproj FILE --audio SECONDS");
        return false;
    }
    return parse_places(places != NULL ? places : "cpu", o) &&
           (clips == NULL || parse_list("--audio", clips, 1, LK_AUDIO_MAX_SECONDS, &o->clips));
}

static bool parse_format(const char *text, bool is_peer_style, bench_format *format) {
    static const char *const names[] = {[BENCH_TABLE] = "table",
                                        [BENCH_MARKDOWN] = "md",
                                        [BENCH_CSV] = "csv",
                                        [BENCH_JSON] = "json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *format = is_peer_style ? BENCH_PEER : (bench_format)i;
            return true;
        }
    }
    (void)lk_console_error("bench", "--output needs table, md, csv or json, not '%s'", text);
    return false;
}

static bool parse(int argc, char **argv, bench_options *o, bench_format *format, int *exit_status) {
    static const int64_t max_tokens = 1 << 20;
    const char *model = NULL;
    lk_option_list models = {.n = 0};
    lk_option_list kvs = {.n = 0};
    const char *prompts = "512";
    const char *gens = "128";
    const char *depths = "0";
    const char *parallels = NULL;
    const char *clips = NULL;
    const char *places = NULL;
    const char *threads = "0";
    const char *isas = "all";
    const char *output = "table";
    bool is_peer_style = false;
    const lk_option options[] = {
        {"--model", "-m", LK_OPTION_LIST, &models, 0, 0, NULL},
        {"--prompt", "-p", LK_OPTION_TEXT, &prompts, 0, 0, NULL},
        {"--gen", "-n", LK_OPTION_TEXT, &gens, 0, 0, NULL},
        {"--depth", "-d", LK_OPTION_TEXT, &depths, 0, 0, NULL},
        {"--parallel", "-b", LK_OPTION_TEXT, &parallels, 0, 0, NULL},
        {"--batch-prompt", NULL, LK_OPTION_INT, &o->batch_prompt, 1, 1 << 20, NULL},
        {"--batch-gen", NULL, LK_OPTION_INT, &o->batch_gen, 1, 1 << 20, NULL},
        {"--threads", "-t", LK_OPTION_TEXT, &threads, 0, 0, NULL},
        {"--kv-type", NULL, LK_OPTION_LIST, &kvs, 0, 0, NULL},
        {"--isa", NULL, LK_OPTION_TEXT, &isas, 0, 0, NULL},
        {"--mmproj", NULL, LK_OPTION_TEXT, &o->mmproj, 0, 0, NULL},
        {"--audio", NULL, LK_OPTION_TEXT, &clips, 0, 0, NULL},
        {"--projector", NULL, LK_OPTION_TEXT, &places, 0, 0, NULL},
        {"--rows", NULL, LK_OPTION_INT, &o->max_rows, 1, LK_MAX_ROWS, NULL},
        {"--repetitions", "-r", LK_OPTION_INT, &o->n_repetitions, 1, BENCH_MAX_REPETITIONS, NULL},
        {"--device", NULL, LK_OPTION_INT, &o->device, 0, 1024, NULL},
        {"--no-repack", NULL, LK_OPTION_FLAG, &o->no_repack, 0, 0, NULL},
        {"--no-warmup", NULL, LK_OPTION_FLAG, &o->no_warmup, 0, 0, NULL},
        {"--no-machine", NULL, LK_OPTION_FLAG, &o->no_machine, 0, 0, NULL},
        {"--output", "-o", LK_OPTION_TEXT, &output, 0, 0, NULL},
        {"--peer-style", NULL, LK_OPTION_FLAG, &is_peer_style, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &model, false}};
    const lk_command_line line = {"bench",     help,
                                  options,     sizeof options / sizeof options[0],
                                  positionals, sizeof positionals / sizeof positionals[0]};
    *o = (bench_options){.batch_prompt = 64, .batch_gen = 32, .max_rows = 512, .n_repetitions = 5};
    if (!lk_options_parse(&line, argc, argv, exit_status)) {
        return false;
    }
    if (model != NULL) {
        o->models[o->n_models++] = model;
    }
    for (size_t i = 0; i < models.n && o->n_models < BENCH_MAX_MODELS; i++) {
        o->models[o->n_models++] = models.items[i];
    }
    const bool ok =
        parse_audio(clips, places, o) &&
        parse_list("--prompt", prompts, 0, max_tokens, &o->prompts) &&
        parse_list("--gen", gens, 0, max_tokens, &o->gens) &&
        parse_list("--depth", depths, 0, max_tokens, &o->depths) &&
        (parallels == NULL || parse_list("--parallel", parallels, 1, 1024, &o->parallels)) &&
        parse_list("--threads", threads, threads[0] == '0' ? 0 : 1, 256, &o->threads) &&
        lk_check_device("bench", o->device) && parse_isas(isas, &o->isas) && parse_kvs(&kvs, o) &&
        parse_format(output, is_peer_style, format);
    *exit_status = ok ? 0 : 2;
    return ok;
}

int lk_command_bench(int argc, char **argv) {
    bench_options options;
    bench_format format = BENCH_TABLE;
    int exit_status = 0;
    if (!parse(argc, argv, &options, &format, &exit_status)) {
        return exit_status;
    }
    bench_report report;
    const bool ok = bench_run(&options, &report);
    if (!bench_print(&report, format)) {
        exit_status = lk_console_error("bench", "the results could not be written");
    } else if (report.is_wrong) {
        exit_status = lk_console_error("bench", "rows of logits that must be equal are not");
    } else if (report.is_interrupted) {
        exit_status = lk_console_interrupt_status();
    } else if (!ok) {
        exit_status = 1;
    }
    bench_report_deinit(&report);
    return lk_console_finish("bench", exit_status);
}
