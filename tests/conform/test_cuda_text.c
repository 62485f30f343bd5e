/* test_cuda_text.c - text models on a device against the processor, straight on the backends, by
 * memcmp: every architecture, every pair of KV formats, steps cut and mixed in other ways, pages in
 * other places with NaN in them, attention in parts, vectors in the place of tokens, what is not
 * finite, and what pages hold afterwards. Over the emulated driver; started by hand on a machine
 * with a device, without ctest's environment, over that one. */
#include <dirent.h>
#include <math.h>

#include "cuda_emulated.h"
#include "lk/device.h"
#include "step_driver.h"

enum { MAX_TOKENS = 400 };

static int32_t tokens[2][MAX_TOKENS];

static void need_device(void) {
    lk_error err;
    uint32_t n = 0;
    if (lk_device_count(&n, &err) != LK_OK) {
        lk_test_skip(err.message);
    }
}

static lk_model *open_model(const char *name) {
    lk_error err;
    lk_model *model = NULL;
    REQUIRE_OK(lk_model_open(lk_test_data(name), NULL, &model, &err), err);
    uint64_t seed = 5;
    for (size_t i = 0; i < 2 * MAX_TOKENS; i++) {
        tokens[i / MAX_TOKENS][i % MAX_TOKENS] =
            (int32_t)(lk_test_random(&seed) % lk_model_graph(model)->n_vocab);
    }
    return model;
}

static float *make_logits(const lk_model *model, uint32_t n_rows) {
    float *logits = calloc((size_t)n_rows * lk_model_graph(model)->n_vocab, sizeof *logits);
    if (logits == NULL) {
        exit(1);
    }
    return logits;
}

static bool same(const lk_model *model, const float *a, const float *b, uint32_t n_rows) {
    return memcmp(a, b, (size_t)n_rows * lk_model_graph(model)->n_vocab * sizeof *a) == 0;
}

static void poison(lk_driver *d) {
    lk_error err;
    for (uint32_t p = 0; p < d->params.n_pages + d->params.n_window_pages; p++) {
        REQUIRE_OK(d->ops->page_fill(d->backend, p, 0xff, &err), err);
    }
}

/* The pages of a sequence of n tokens, as state files have them. */
static void compare_pages(lk_driver *d[2], const lk_driver_seq *seqs[2], uint32_t n,
                          const char *name) {
    lk_error err;
    const size_t sizes[2] = {d[0]->ops->page_bytes(d[0]->backend),
                             d[0]->ops->window_page_bytes(d[0]->backend)};
    CHECK(sizes[0] == d[1]->ops->page_bytes(d[1]->backend) &&
          sizes[1] == d[1]->ops->window_page_bytes(d[1]->backend));
    const size_t most = sizes[0] > sizes[1] ? sizes[0] : sizes[1];
    uint8_t *bytes[2] = {malloc(most + 1), malloc(most + 1)};
    for (uint32_t c = 0; c * LK_CHUNK < n; c++) {
        const uint32_t left = n - c * LK_CHUNK;
        for (size_t kind = 0; kind < 2; kind++) {
            for (size_t i = 0; i < 2 && sizes[kind] != 0; i++) {
                const uint32_t page = kind == 0 ? seqs[i]->pages[c] : seqs[i]->window_pages[c];
                REQUIRE_OK(d[i]->ops->page_read(d[i]->backend, page,
                                                left < LK_CHUNK ? left : LK_CHUNK, bytes[i], &err),
                           err);
            }
            CHECK_MSG(sizes[kind] == 0 || memcmp(bytes[0], bytes[1], sizes[kind]) == 0,
                      "%s: page %u differs", name, c);
        }
    }
    free(bytes[0]);
    free(bytes[1]);
}

/* Two sequences: alone on the processor, mixed and cut on the device. */
static void check_model(lk_model *model, const char *name, const lk_backend_params *params,
                        uint32_t n, uint32_t cut) {
    lk_driver cpu;
    lk_driver device;
    lk_driver_init(&cpu, model, params);
    lk_driver_init_on(&device, &lk_backend_cuda, model, params);
    poison(&device);
    float *logits[4];
    lk_driver_seq seqs[4];
    for (uint32_t i = 0; i < 4; i++) {
        logits[i] = make_logits(model, n);
        seqs[i] = i < 2 ? lk_driver_seq_make(tokens[i], n, logits[i], i * 20, 1)
                        : lk_driver_seq_make(tokens[i - 2], n, logits[i], 9 + 7 * i, 5);
    }
    lk_driver_run(&cpu, &seqs[0], n);
    lk_driver_run(&cpu, &seqs[1], n);
    lk_driver_seq *both[2] = {&seqs[2], &seqs[3]};
    for (uint32_t i = 0; seqs[2].n_done < n || seqs[3].n_done < n; i++) {
        const uint32_t wanted[2] = {i == 0 ? 0 : cut, i % 2 == 0 ? 2 * cut + 1 : 1};
        uint32_t n_rows[2];
        for (size_t k = 0; k < 2; k++) {
            const uint32_t left = n - both[k]->n_done;
            n_rows[k] = left < wanted[k] ? left : wanted[k];
        }
        lk_driver_step(&device, both, n_rows, 2);
    }
    for (size_t i = 0; i < 2; i++) {
        lk_driver *d[2] = {&cpu, &device};
        const lk_driver_seq *pair[2] = {&seqs[i], &seqs[i + 2]};
        CHECK(seqs[i].n_bad == 0 && seqs[i + 2].n_bad == 0);
        CHECK_MSG(same(model, logits[i], logits[i + 2], n), "%s, kv %d %d, cut %u: sequence %zu",
                  name, (int)params->k_format, (int)params->v_format, cut, i);
        compare_pages(d, pair, n, name);
    }
    for (size_t i = 0; i < 4; i++) {
        free(logits[i]);
    }
    lk_driver_deinit(&device);
    lk_driver_deinit(&cpu);
}

/* Every file of the folder, in turn. */
static void check_folder(const char *folder, uint32_t n) {
    DIR *dir = opendir(lk_test_data(folder));
    CHECK(dir != NULL);
    uint32_t n_models = 0;
    for (const struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL;
         entry = readdir(dir)) {
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".gguf") != 0) {
            continue;
        }
        char name[300];
        (void)snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        lk_model *model = open_model(name);
        lk_backend_params params = lk_driver_params();
        params.k_format = n_models % 2 == 0 ? LK_KV_FORMAT_F16 : LK_KV_FORMAT_Q8_0;
        params.v_format = n_models % 3 == 0 ? LK_KV_FORMAT_Q8_0 : LK_KV_FORMAT_F16;
        check_model(model, name, &params, n, 7);
        lk_model_close(model);
        n_models++;
    }
    (void)closedir(dir);
    CHECK_MSG(n_models > 5, "%u models", n_models);
}

LK_TEST(architectures) {
    need_device();
    check_folder("archs", (uint32_t)lk_test_size(3, 5, 150));
}

LK_TEST(kv_formats) {
    need_device();
    lk_model *model = open_model("archs/llama.gguf");
    const int step = (int)lk_test_size(4, 2, 1); /* the bounded form: the corners and the middle */
    for (int k = LK_KV_FORMAT_F32; k <= LK_KV_FORMAT_Q8_0; k++) {
        for (int v = k % step; v <= LK_KV_FORMAT_Q8_0; v += step) {
            lk_backend_params params = lk_driver_params();
            params.k_format = (lk_kv_format)k;
            params.v_format = (lk_kv_format)v;
            check_model(model, "llama", &params, (uint32_t)lk_test_size(3, 9, 200), 4);
        }
    }
    lk_model_close(model);
}

/* Some hundred positions: chunks, windows that move on, attention in parts. */
LK_TEST(long_sequences) {
    need_device();
    static const char *const names[] = {"archs/gpt-oss.gguf", "archs/gemma3.gguf"};
    for (size_t i = 0; i < lk_test_size(0, 1, 2); i++) {
        lk_model *model = open_model(names[i]);
        const lk_backend_params params = lk_driver_params();
        check_model(model, names[i], &params, (uint32_t)lk_test_size(20, 133, MAX_TOKENS), 130);
        lk_model_close(model);
    }
}

LK_TEST_MAIN(LK_RUN(architectures), LK_RUN(kv_formats), LK_RUN(long_sequences))
