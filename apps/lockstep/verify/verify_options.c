/* verify_options.c - see verify_options.h. */
#include "verify_options.h"

#include <stdlib.h>
#include <string.h>

#include "recording/audio_input.h"
#include "shared/open_model.h"
#include "shared/options.h"

static const char help[] =
    "usage: lockstep verify MODEL [OPTIONS]\n"
    "Does what a sequence gets depend on anything but itself? Runs sequences alone and together, "
    "cut,\n"
    "moved, restarted and under load, compares them, and names the factor that makes a "
    "difference.\n"
    "Exit status: 0 all equal, 1 something differs, 2 it could not run.\n\n"
    "  --target NAME        self (default: this program, to the bit), lib:PATH (a libllama),\n"
    "                       http://HOST:PORT (OpenAI's API; MODEL may be left out)\n"
    "  --max-requests N, --max-seconds N, --api-key KEY    of such a server\n"
    "  --mmproj FILE, --audio FILE    the encoder's file and a recording: hear it in company too\n"
    "  --projector cpu|device         where the encoder runs (cpu)\n"
    "  --chat-template FILE|NAME      for the question about it, where the model has none\n"
    "  --suite NAME         quick (default), full or soak\n"
    "  --only NAME,...      these experiments; --only list shows all\n"
    "  --report FILE.html   a page to attach to a bug report; --json FILE, --junit FILE\n"
    "  --with-prompts       texts of the prompts in page and JSON too\n"
    "  --no-matrix          do not look for the factor where something differs\n"
    "  -q, --quiet          show only what is not equal\n"
    "  -r, --repetitions N  runs of each case\n"
    "  --seed S             of what is drawn\n"
    "  -n, --tokens N       tokens that each sequence generates (32)\n"
    "  -stagger K,...       with which decode row the other sequence joins\n"
    "  -f16                 KV cache f16; --kv-type T[,T] f32, f16, q8_0, keys and values apart\n"
    "  -nofa, -ngl N        no flash attention; layers on the device (where a target has them)\n"
    "  -t, --threads N      threads of the plain runs (1); --device N: they compute on device N\n"
    "  --record FILE        write a receipt of solo runs; --across FILE compare with one\n"
    "  --schedules N        random schedules (12, 300, 10000); --replay TEXT one of them again\n"
    "  --set NAME=X,...     factors of all runs; with --only case one run as it says\n"
    "  --keep NAME,...      of these, what its solo run has too\n"
    "\nexample: lockstep verify model.gguf --report verify.html\n";

typedef struct raw {
    const char *suite;
    const char *kv;
    const char *stagger;
    const char *keep;
    const char *projector;
    uint32_t device;
    int64_t text_device;
    bool f16;
    int64_t n;
    int64_t n_threads;
    int64_t n_layers;
    int64_t max_seconds;
    bool nofa;
} raw;

static bool read_suite(const char *text, verify_options *o) {
    static const struct {
        const char *name;
        verify_suite suite;
    } suites[] = {{"quick", VERIFY_QUICK}, {"full", VERIFY_FULL}, {"soak", VERIFY_SOAK}};
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        if (strcmp(text, suites[i].name) == 0) {
            o->suite = suites[i].suite;
            return true;
        }
    }
    (void)lk_console_error("verify", "--suite needs quick, full or soak, not '%s'", text);
    return false;
}

static bool read_joins(const char *text, verify_options *o) {
    for (const char *at = text;;) {
        char *end = NULL;
        const long long x = strtoll(at, &end, 10);
        if (end == at || x < 0 || x > 1 << 20 || o->n_joins == VERIFY_MAX_LIST ||
            (*end != ',' && *end != '\0')) {
            (void)lk_console_error("verify",
                                   "-stagger needs up to %d numbers from 0 to 1048576, not '%s'",
                                   VERIFY_MAX_LIST, text);
            return false;
        }
        o->joins[o->n_joins++] = x;
        if (*end == '\0') {
            return true;
        }
        at = end + 1;
    }
}

/* "threads,rows" */
static bool read_keep(const char *text, verify_options *o) {
    for (const char *at = text; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, ",");
        const verify_factor f = verify_factor_find(at, n);
        if (f == VERIFY_N_FACTORS) {
            (void)lk_console_error("verify", "--keep: there is no factor '%.*s'",
                                   n < 60 ? (int)n : 60, at);
            return false;
        }
        o->keep |= VERIFY_BIT(f);
        at += n + (at[n] == ',');
    }
    return true;
}

/* The factors that options stand for. */
static bool read_base(const raw *r, verify_options *o) {
    lk_kv_type k = LK_KV_F16;
    lk_kv_type v = LK_KV_F16;
    char why[VERIFY_WHY];
    verify_point_init(&o->base);
    if (r->kv != NULL && !lk_parse_kv_type("verify", r->kv, &k, &v)) {
        return false;
    }
    if (r->kv != NULL && r->f16) {
        (void)lk_console_error("verify", "-f16 and --kv-type exclude each other");
        return false;
    }
    o->base.value[VERIFY_K_TYPE] = k;
    o->base.value[VERIFY_V_TYPE] = v;
    if (r->n > 0) {
        o->base.value[VERIFY_N] = r->n;
    }
    if (r->n_threads > 0) {
        o->base.value[VERIFY_THREADS] = r->n_threads;
    }
    o->base.value[VERIFY_LAYERS] = r->n_layers;
    o->base.value[VERIFY_PROJECTOR] = r->device;
    o->base.value[VERIFY_DEVICE] = r->text_device;
    if (r->nofa) {
        o->base.value[VERIFY_ATTENTION] = 0;
    }
    if (o->set != NULL && !verify_point_parse(&o->base, o->set, why, sizeof why)) {
        (void)lk_console_error("verify", "--set: %s", why);
        return false;
    }
    return true;
}

/* A server has its encoder itself. */
static bool check_audio(const verify_options *o) {
    const bool is_server = strncmp(o->target, "http", 4) == 0;
    if (o->mmproj != NULL && (o->audio == NULL || is_server)) {
        (void)lk_console_error("verify", is_server
                                             ? "--mmproj is not of a server's target: give --audio "
                                               "alone"
                                             : "--mmproj needs a recording with --audio");
        return false;
    }
    if (o->chat_template != NULL && o->mmproj == NULL) {
        (void)lk_console_error("verify", "--chat-template is for --mmproj FILE --audio FILE");
        return false;
    }
    if (o->audio != NULL && o->mmproj == NULL && strcmp(o->target, "self") == 0) {
        (void)lk_console_error("verify", "--audio needs the encoder's file with --mmproj");
        return false;
    }
    return true;
}

bool verify_options_parse(int argc, char **argv, verify_options *o, int *exit_status) {
    raw r = {.suite = "quick"};
    *o = (verify_options){.target = "self", .program = "/proc/self/exe", .seed = 20261130};
    const lk_option options[] = {
        {"--target", NULL, LK_OPTION_TEXT, &o->target, 0, 0, NULL},
        {"--suite", NULL, LK_OPTION_TEXT, &r.suite, 0, 0, NULL},
        {"--only", NULL, LK_OPTION_TEXT, &o->only, 0, 0, NULL},
        {"--report", NULL, LK_OPTION_TEXT, &o->report, 0, 0, NULL},
        {"--json", NULL, LK_OPTION_TEXT, &o->json, 0, 0, NULL},
        {"--junit", NULL, LK_OPTION_TEXT, &o->junit, 0, 0, NULL},
        {"--with-prompts", NULL, LK_OPTION_FLAG, &o->with_prompts, 0, 0, NULL},
        {"--no-matrix", NULL, LK_OPTION_FLAG, &o->no_matrix, 0, 0, NULL},
        {"--quiet", "-q", LK_OPTION_FLAG, &o->is_quiet, 0, 0, NULL},
        {"--layers", "-ngl", LK_OPTION_INT, &r.n_layers, 0, 1 << 20, NULL},
        {"--no-flash-attention", "-nofa", LK_OPTION_FLAG, &r.nofa, 0, 0, NULL},
        {"--repetitions", "-r", LK_OPTION_INT, &o->n_repetitions, 1, VERIFY_MAX_REPETITIONS, NULL},
        {"--seed", NULL, LK_OPTION_U64, &o->seed, 0, 0, NULL},
        {"--tokens", "-n", LK_OPTION_INT, &r.n, 1, 1 << 20, &o->n_given},
        {"--stagger", "-stagger", LK_OPTION_TEXT, &r.stagger, 0, 0, NULL},
        {"--f16", "-f16", LK_OPTION_FLAG, &r.f16, 0, 0, NULL},
        {"--kv-type", NULL, LK_OPTION_TEXT, &r.kv, 0, 0, NULL},
        {"--threads", "-t", LK_OPTION_INT, &r.n_threads, 1, 256, NULL},
        {"--record", NULL, LK_OPTION_TEXT, &o->record, 0, 0, NULL},
        {"--across", NULL, LK_OPTION_TEXT, &o->across, 0, 0, NULL},
        {"--schedules", NULL, LK_OPTION_INT, &o->n_schedules, 1, 1e9, NULL},
        {"--replay", NULL, LK_OPTION_TEXT, &o->replay, 0, 0, NULL},
        {"--max-requests", NULL, LK_OPTION_INT, &o->max_requests, 1, INT32_MAX, NULL},
        {"--max-seconds", NULL, LK_OPTION_INT, &r.max_seconds, 1, 1 << 30, NULL},
        {"--api-key", NULL, LK_OPTION_TEXT, &o->api_key, 0, 0, NULL},
        {"--mmproj", NULL, LK_OPTION_TEXT, &o->mmproj, 0, 0, NULL},
        {"--audio", NULL, LK_OPTION_TEXT, &o->audio, 0, 0, NULL},
        {"--chat-template", NULL, LK_OPTION_TEXT, &o->chat_template, 0, 0, NULL},
        {"--device", NULL, LK_OPTION_INT, &r.text_device, 0, 1024, NULL},
        {"--projector", NULL, LK_OPTION_TEXT, &r.projector, 0, 0, NULL},
        {"--keep", NULL, LK_OPTION_TEXT, &r.keep, 0, 0, NULL},
        {"--set", NULL, LK_OPTION_TEXT, &o->set, 0, 0, NULL},
    };
    const lk_positional positionals[] = {{"MODEL", &o->model, false}};
    const lk_command_line line = {"verify",    help,
                                  options,     sizeof options / sizeof options[0],
                                  positionals, sizeof positionals / sizeof positionals[0]};
    if (!lk_options_parse(&line, argc, argv, exit_status)) {
        return false;
    }
    const bool ok = lk_audio_input_check_place("verify", r.projector, o->mmproj, &r.device) &&
                    lk_check_device("verify", r.text_device) && check_audio(o) &&
                    read_suite(r.suite, o) && read_keep(r.keep, o) &&
                    (r.stagger == NULL || read_joins(r.stagger, o)) && read_base(&r, o);
    if (ok && o->across != NULL && o->only == NULL) {
        o->only = "across"; /* a receipt alone: what the other machine said, and nothing else */
    }
    o->max_seconds = (double)r.max_seconds;
    *exit_status = ok ? 0 : 2;
    return ok;
}

bool verify_options_has(const verify_options *o, const char *experiment) {
    const size_t n = strlen(experiment);
    for (const char *at = o->only; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ",");
        if (length == n && strncmp(at, experiment, n) == 0) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return o->only == NULL;
}
