/* test_isolation.c - the isolation suite: random schedules of joins, leaves, cancels, forks,
 * truncations and cuts over several sequences, thread counts and instruction sets; every row of
 * logits must have the digest that it has when its sequence is alone.
 *
 *   test_isolation [--schedules N] [--seed S] [--model NAME]
 *   test_isolation --replay 'SCHEDULE' [--model NAME]
 * NAME is tiny, small, or one of tests/data/archs; `families` stands for all of those. Without it
 * all run: tiny 2,000 schedules, small 20, a few of each family. LK_SHORT=1: 60 on the tiny model,
 * two of each family. LK_FULL=1: 50,000, 200 and 500 of each. A failing schedule is shrunk and
 * printed as a command that replays it. */
#include <inttypes.h>
#include <stdbool.h>
#include <unistd.h>

#include "lk_test.h"
#include "runner.h"

enum { N_ISAS = 4 };
static const char *const isa_names[N_ISAS] = {"scalar", "avx2", "avx512", "avxvnni"};
static const uint32_t isa_bits[N_ISAS] = {0, LK_CPU_AVX2, LK_CPU_AVX512, LK_CPU_AVXVNNI};
static char program_path[1024];

/* A model: which, and what is special about its schedules. */
typedef struct target {
    const char *name;
    bool is_small;  /* few streams and KV pairs: references take long */
    bool is_family; /* a tiny model of one architecture */
} target;

static const target tiny = {"tiny", false, false};
static const target small = {"small", true, false};
static const target families[] = {
    {"gemma2", false, true},   {"gemma3", false, true},   {"glm4", false, true},
    {"gpt-oss", false, true},  {"granite", false, true},  {"llama", false, true},
    {"mistral3", false, true}, {"olmo2", false, true},    {"phi3", false, true},
    {"qwen2", false, true},    {"qwen2moe", false, true}, {"qwen3moe", false, true},
    {"qwen2vl", false, true},  {"smollm3", false, true},
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

static const target *find_target(const char *name) {
    if (strcmp(name, tiny.name) == 0 || strcmp(name, small.name) == 0) {
        return strcmp(name, tiny.name) == 0 ? &tiny : &small;
    }
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(name, families[i].name) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

static const char *model_path(const target *t) {
    static char path[1024];
    char name[64];
    (void)snprintf(name, sizeof name, t->is_family ? "archs/%s.gguf" : "models/%s-q4_k_m.gguf",
                   t->name);
    if (t->is_small) {
        (void)snprintf(path, sizeof path, "%s/%s", LK_SOURCE_DIR, name);
    } else {
        (void)snprintf(path, sizeof path, "%s", lk_test_data(name));
    }
    return path;
}

static void report_failure(lk_model *model, const reference_set *set, schedule *s,
                           const failure *failed, const target *t) {
    static char text[16384];
    schedule_print(s, text, sizeof text);
    (void)fprintf(stderr, "FAILED: %s\n  schedule: %s\n  shrinking ...\n", failed->text, text);
    schedule_shrink(model, set, s);
    coverage seen = {0};
    failure shrunk;
    (void)schedule_run(model, set, s, &seen, &shrunk);
    schedule_print(s, text, sizeof text);
    (void)fprintf(stderr, "  shortest: %s\n  replay:   %s --model %s --replay '%s'\n", shrunk.text,
                  program_path, t->name, text);
}

/* The small model uses three KV pairs and four streams: its references take long. */
static void fold_small(schedule *s, uint32_t i) {
    static const int32_t pairs[3][2] = {
        {LK_KV_F16, LK_KV_F16}, {LK_KV_Q8_0, LK_KV_Q8_0}, {LK_KV_F32, LK_KV_Q8_0}};
    s->k_type = pairs[i % 3][0];
    s->v_type = pairs[i % 3][1];
    for (int32_t k = 0; k < s->n_ops; k++) {
        if (s->ops[k].kind == OP_ASSIGN || s->ops[k].kind == OP_SWITCH) {
            s->ops[k].b %= 4;
        }
    }
}

static void print_coverage(const coverage *seen, uint32_t n, const target *t) {
    (void)printf("%s: %u schedules, %" PRIu64 " rows computed, %" PRIu64
                 " rows of logits and %" PRIu64 " hidden states compared; %" PRIu64
                 " forks, %" PRIu64 " truncations, %" PRIu64 " refused steps, %" PRIu64
                 " cancelled, %" PRIu64 " saved and loaded, %" PRIu64 " pages copied, %" PRIu64
                 " times full, %" PRIu64 " times too far back\n",
                 t->name, n, seen->rows_computed, seen->rows_compared, seen->hidden_compared,
                 seen->forks, seen->truncations, seen->bad_steps, seen->cancelled, seen->saves,
                 seen->pages_copied, seen->full, seen->unreachable);
    for (int isa = 0; isa < N_ISAS && !t->is_family; isa++) {
        (void)printf("  %-7s kernel calls with rows of two or more sequences, at 2 rows %" PRIu64
                     ", 3 %" PRIu64 ", 4 %" PRIu64 ", 5-16 %" PRIu64 ", more %" PRIu64 "\n",
                     isa_names[isa], seen->mixed_calls[isa][1], seen->mixed_calls[isa][2],
                     seen->mixed_calls[isa][3], seen->mixed_calls[isa][4],
                     seen->mixed_calls[isa][5]);
    }
    (void)fflush(stdout);
}

/* Kernels for several rows must have run with rows of at least two sequences, on every instruction
 * set. */
static void check_coverage(const coverage *seen, uint32_t isa_present) {
    for (int isa = 0; isa < N_ISAS; isa++) {
        if (isa > 0 && (isa_present & isa_bits[isa]) == 0) {
            continue;
        }
        CHECK_MSG(seen->mixed_calls[isa][1] > 0 && seen->mixed_calls[isa][2] > 0 &&
                      seen->mixed_calls[isa][3] > 0 && seen->mixed_calls[isa][5] > 0,
                  "%s: not every row count was exercised with mixed sequences", isa_names[isa]);
    }
    CHECK(seen->forks > 0 && seen->truncations > 0 && seen->bad_steps > 0 &&
          seen->pages_copied > 0);
    CHECK(seen->rows_compared > 0 && seen->hidden_compared > 0);
}

static uint32_t present_isa(lk_model *model) {
    lk_context *context = NULL;
    lk_context_stats stats = {.struct_size = sizeof stats};
    lk_context_params params = LK_CONTEXT_PARAMS_INIT;
    params.kv_positions = 64;
    params.max_rows = params.max_logits = 1;
    if (lk_context_create(model, &params, &context, NULL) == LK_OK) {
        (void)lk_context_get_stats(context, &stats, NULL);
    }
    lk_context_destroy(context);
    return stats.isa;
}

static void open_set(const target *t, lk_model **model, reference_set *set) {
    lk_error err;
    REQUIRE_OK(lk_model_open(model_path(t), NULL, model, &err), err);
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(*model, &info, &err), err);
    memset(set, 0, sizeof *set);
    set->program = program_path;
    set->model_path = model_path(t);
    set->n_vocab = info.n_vocab;
    set->n_embd = info.n_embd;
}

/* Schedules 0 .. n-1; every `wide_every`-th has long cuts, every 20th runs scalar. */
static void run_schedules(const target *t, uint64_t seed, uint32_t n, uint32_t n_wide) {
    lk_model *model = NULL;
    static reference_set set;
    coverage seen = {0};
    open_set(t, &model, &set);
    const uint32_t wide_every = n_wide != 0 ? n / n_wide : 0;
    for (uint32_t i = 0; i < n; i++) {
        schedule s;
        failure failed;
        const int wide = wide_every != 0 && i % wide_every == wide_every - 1;
        schedule_draw(&s, seed, i, wide, i % 20 == 10);
        if (t->is_small) {
            fold_small(&s, i);
        }
        reference_prepare(&set, &s);
        if (!schedule_run(model, &set, &s, &seen, &failed)) {
            lk_test_fail(__FILE__, __LINE__, "schedule %u of seed %" PRIu64, i, seed);
            report_failure(model, &set, &s, &failed, t);
            break;
        }
        if ((i + 1) % 500 == 0) {
            (void)printf("  %u of %u\n", i + 1, n);
            (void)fflush(stdout);
        }
    }
    print_coverage(&seen, n, t);
    if (lk_test_failures() == 0 && n >= 1000) {
        check_coverage(&seen, present_isa(model));
    }
    reference_free(&set);
    lk_model_close(model);
}

static int replay(const char *text, const target *t) {
    schedule s;
    lk_model *model = NULL;
    static reference_set set;
    coverage seen = {0};
    failure failed;
    if (!schedule_parse(&s, text)) {
        (void)fprintf(stderr, "this schedule cannot be read: %s\n", text);
        return 2;
    }
    open_set(t, &model, &set);
    reference_prepare(&set, &s);
    const int ok = schedule_run(model, &set, &s, &seen, &failed);
    (void)printf("%s\n", ok ? "all rows agree" : failed.text);
    reference_free(&set);
    lk_model_close(model);
    return ok ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 7 && strcmp(argv[1], "--reference") == 0) {
        return reference_compute(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), argv[6]);
    }
    (void)snprintf(program_path, sizeof program_path, "%s", argv[0]);
    uint64_t seed = 20261130;
    uint32_t n = 0;
    const target *only = NULL;
    int only_families = 0;
    const char *replay_text = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--schedules") == 0) {
            n = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
        } else if (strcmp(argv[i], "--model") == 0) {
            only = find_target(argv[i + 1]);
            only_families = strcmp(argv[i + 1], "families") == 0;
            if (only == NULL && !only_families) {
                (void)fprintf(stderr, "there is no model \"%s\"\n", argv[i + 1]);
                return 2;
            }
        } else if (strcmp(argv[i], "--replay") == 0) {
            replay_text = argv[i + 1];
        }
    }
    if (replay_text != NULL) {
        return replay(replay_text, only != NULL ? only : &tiny);
    }
    seed = lk_test_seed(seed);
    const int is_short = getenv("LK_SHORT") != NULL;
    const int is_full = getenv("LK_FULL") != NULL;
    const int all = only == NULL && !only_families;
    if (all || only == &tiny) {
        const uint32_t n_tiny = n != 0 ? n : is_short ? 60 : is_full ? 50000 : 2000;
        run_schedules(&tiny, seed, n_tiny, is_short ? 1 : n_tiny / 100 + 1);
    }
    if ((all && !is_short) || only == &small) {
        run_schedules(&small, seed, n != 0 ? n : is_full ? 200 : 20, 0);
    }
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (all || only_families || only == &families[i]) {
            const uint32_t n_each = n != 0 ? n : is_short ? 2 : is_full ? 500 : 9;
            run_schedules(&families[i], seed + i, n_each, is_short ? 1 : n_each / 2);
        }
    }
    (void)printf("%s\n",
                 lk_test_failures() == 0 ? "isolation: every row agrees" : "isolation: FAILED");
    return lk_test_failures() == 0 ? 0 : 1;
}
