/* test_digests.c - golden digests: the bits of the logits stand still. For the tiny and the small
 * model, a tiny one of each architecture, and every KV pair, one digest over all rows of fixed
 * token streams, held against tests/data/golden/digests.txt, for the scalar path, AVX2 or
 * NEON, AVX-VNNI, and all that the processor has. `test_digests --print` prints the table, for a
 * wanted change (then also bump the numerics version and say why in docs/decisions.md).
 * LK_SHORT=1: the tiny model, 32 rows, and the architectures. */
#include <stdbool.h>
#include <stdio.h>

#include "backend/cpu/kernels.h"
#include "golden.h"
#include "lk_test.h"

enum { MAX_ROWS = 320 };

typedef struct golden_case {
    const char *model;
    int32_t n_rows;
    bool is_family; /* a tiny model of one architecture: tests/data/archs */
} golden_case;

static const golden_case cases[] = {
    {"tiny", 32, false},   {"tiny", 150, false},    {"small", 80, false},   {"gemma2", 150, true},
    {"gemma3", 150, true}, {"glm4", 40, true},      {"gpt-oss", 150, true}, {"granite", 40, true},
    {"llama", 40, true},   {"mistral3", 300, true}, {"olmo2", 40, true},    {"phi3", 40, true},
    {"qwen2", 40, true},   {"qwen2moe", 40, true},  {"qwen2vl", 40, true},  {"qwen3moe", 40, true},
    {"smollm3", 40, true},
};
static const char *const kv_names[3] = {"f32", "f16", "q8_0"};

static const char *path_of(const golden_case *c) {
    char name[64];
    if (strcmp(c->model, "small") == 0) {
        return LK_SOURCE_DIR "/models/small-q4_k_m.gguf";
    }
    (void)snprintf(name, sizeof name, c->is_family ? "archs/%s.gguf" : "models/%s-q4_k_m.gguf",
                   c->model);
    return lk_test_data(name);
}

/* One digest over the digests of all rows, as 32 hexadecimal digits. */
static void digest_case(lk_model *model, const golden_case *c, const golden_setup *setup,
                        char hex[33]) {
    lk_error err;
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    static lk_row rows[MAX_ROWS];
    memset(rows, 0, sizeof rows);
    uint64_t state = 7;
    for (int32_t i = 0; i < c->n_rows; i++) {
        rows[i].token = (int32_t)(lk_test_random(&state) % (uint64_t)info.n_vocab);
        rows[i].pos = i;
        rows[i].flags = LK_ROW_LOGITS;
    }
    lk_context *context = golden_context(model, setup, MAX_ROWS);
    REQUIRE_OK(lk_context_decode(context, rows, (size_t)c->n_rows, NULL, &err), err);
    float *all = malloc((size_t)c->n_rows * (size_t)info.n_vocab * sizeof *all);
    if (all == NULL) {
        exit(1);
    }
    for (int32_t i = 0; i < c->n_rows; i++) {
        const float *logits = NULL;
        REQUIRE_OK(lk_context_logits(context, (size_t)i, &logits, &err), err);
        memcpy(all + (size_t)i * (size_t)info.n_vocab, logits, (size_t)info.n_vocab * sizeof *all);
    }
    uint8_t digest[16];
    lk_logits_digest(all, (size_t)c->n_rows * (size_t)info.n_vocab, digest);
    for (int i = 0; i < 16; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    free(all);
    lk_context_destroy(context);
}

static void expected_digest(const golden_case *c, int k, int v, char hex[33]) {
    FILE *file = fopen(lk_test_data("golden/digests.txt"), "r");
    char line[256];
    hex[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char model[16];
        char k_name[8];
        char v_name[8];
        char found[33];
        int n_rows = 0;
        if (sscanf(line, "%15s %d %7s %7s %32s", model, &n_rows, k_name, v_name, found) == 5 &&
            strcmp(model, c->model) == 0 && n_rows == c->n_rows &&
            strcmp(k_name, kv_names[k]) == 0 && strcmp(v_name, kv_names[v]) == 0) {
            memcpy(hex, found, sizeof found);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static void check_case(lk_model *model, const golden_case *c, int print, uint32_t isa_mask) {
    for (int k = 0; k < 3; k++) {
        for (int v = 0; v < 3; v++) {
            golden_setup setup = {
                .isa_mask = isa_mask, .k_type = (lk_kv_type)k, .v_type = (lk_kv_type)v};
            char found[33];
            char expected[33];
            digest_case(model, c, &setup, found);
            if (print) {
                (void)printf("%s %d %s %s %s\n", c->model, c->n_rows, kv_names[k], kv_names[v],
                             found);
                continue;
            }
            expected_digest(c, k, v, expected);
            CHECK_MSG(strcmp(found, expected) == 0,
                      "%s, %d rows, keys %s, values %s, mask %u: digest %s, expected %s", c->model,
                      c->n_rows, kv_names[k], kv_names[v], isa_mask, found, expected);
        }
    }
}

static const uint32_t masks[] = {0, LK_CPU_AVX2 | LK_CPU_NEON, LK_CPU_AVX2 | LK_CPU_AVXVNNI,
                                 LK_CPU_ALL};
enum { N_MASKS = sizeof masks / sizeof masks[0] };

/* Whether the processor has sets of masks[m] that the masks before it do not name. */
static bool is_other(int m) {
    lk_cpu_kernels now;
    lk_cpu_kernels before;
    lk_cpu_kernels_init(&now, masks[m]);
    lk_cpu_kernels_init(&before, m > 0 ? masks[m - 1] : 0);
    return m == 0 || m == N_MASKS - 1 || (now.isa != 0 && now.isa != before.isa);
}

int main(int argc, char **argv) {
    const int print = argc > 1 && strcmp(argv[1], "--print") == 0;
    const int is_short = getenv("LK_SHORT") != NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (is_short && i > 0 && !cases[i].is_family) {
            continue;
        }
        lk_model *model = golden_open(path_of(&cases[i]));
        lk_model *mapped = golden_open_mapped(path_of(&cases[i]));
        for (int m = 0; m < (print ? 1 : N_MASKS); m++) {
            if (m == 0 && !print && strcmp(cases[i].model, "small") == 0 &&
                getenv("LK_FULL") == NULL) {
                continue; /* the scalar path over the small model takes minutes: make test-full */
            }
            if (!print && !is_other(m)) {
                continue;
            }
            check_case(model, &cases[i], print, print ? (uint32_t)LK_CPU_ALL : masks[m]);
            if (!print && m == N_MASKS - 1) {
                check_case(mapped, &cases[i], 0, masks[m]);
            }
        }
        lk_model_close(mapped);
        lk_model_close(model);
    }
    if (!print) {
        (void)printf("golden digests: %s\n", lk_test_failures() == 0 ? "ok" : "FAILED");
    }
    return lk_test_failures() == 0 ? 0 : 1;
}
