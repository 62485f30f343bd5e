/* peer_run.c - measures llama.cpp through its C interface as `lockstep bench` measures Lockstep:
 * one process, any number of tests over one context.
 *
 *     peer-run MODEL [-t THREADS] [-c POSITIONS] [-k f32|f16|q8_0] [-v ...] [-f FLASH] [-d DEPTH]
 *              [-p SEQUENCES] TEST...
 *     peer-run MODEL [...] -T TEXT
 *
 * Tests: pp512 (a prompt of 512 tokens), tg128 (128 tokens, one by one), both after DEPTH
 * positions; b8 (64 tokens of each of 8 sequences, then 32 of each, all together). The positions
 * up to DEPTH are computed only as far as 512; the rest of the cache is filled with copies of
 * those, moved to their positions, which takes seconds instead of minutes and the same time to
 * attend to. -T: from a text to the first token, which is printed. FLASH: -1 (its own choice),
 * 0, 1. Its threads are a pool that is attached to the context, as its own benchmark does it; a
 * batch of 16 tokens warms up. Prints a line of JSON for each test. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama.h"

enum { BATCH_PROMPT = 64, BATCH_GEN = 32, ROWS = 512 };

typedef struct run {
    const char *path;
    int n_threads;
    int n_ctx;
    enum ggml_type k, v;
    int flash;
    int depth;
    int n_sequences;
    struct llama_model *model;
    struct llama_context *context;
    llama_memory_t memory;
    int n_vocab;
    struct llama_batch batch;
} run;

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what, const char *which) {
    (void)fprintf(stderr, "peer-run: %s %s\n", what, which);
    exit(1);
}

static void no_log(enum ggml_log_level level, const char *text, void *user) {
    (void)level;
    (void)text;
    (void)user;
}

static enum ggml_type find_type(const char *name) {
    if (strcmp(name, "f32") == 0) {
        return GGML_TYPE_F32;
    }
    if (strcmp(name, "q8_0") == 0) {
        return GGML_TYPE_Q8_0;
    }
    if (strcmp(name, "f16") != 0) {
        die("unknown KV type", name);
    }
    return GGML_TYPE_F16;
}

/* The same tokens as those of `lockstep bench`. */
static llama_token token_at(const run *r, int pos) {
    const uint64_t mixed = ((uint64_t)pos + 1) * 0x9E3779B97F4A7C15u;
    return (llama_token)((mixed >> 33) % (uint64_t)r->n_vocab);
}

static void add_row(run *r, int seq, int pos, bool wants_logits) {
    const int i = r->batch.n_tokens++;
    r->batch.token[i] = token_at(r, pos);
    r->batch.pos[i] = pos;
    r->batch.n_seq_id[i] = 1;
    r->batch.seq_id[i][0] = seq;
    r->batch.logits[i] = wants_logits;
}

static void decode(run *r) {
    if (r->batch.n_tokens > 0 && llama_decode(r->context, r->batch) != 0) {
        die("decoding failed:", r->path);
    }
    r->batch.n_tokens = 0;
}

/* Tokens [from, to) of each sequence, one sequence after the other, in batches of 512 rows. */
static void feed(run *r, int n_sequences, int from, int to) {
    for (int seq = 0; seq < n_sequences; seq++) {
        for (int pos = from; pos < to; pos++) {
            add_row(r, seq, pos, pos + 1 == to);
            if (r->batch.n_tokens == ROWS) {
                decode(r);
            }
        }
    }
    decode(r);
    llama_synchronize(r->context);
}

static void generate(run *r, int n_sequences, int from, int to) {
    for (int pos = from; pos < to; pos++) {
        for (int seq = 0; seq < n_sequences; seq++) {
            add_row(r, seq, pos, true);
        }
        decode(r);
        llama_synchronize(r->context);
    }
}

static void truncate_all(run *r, int length) {
    for (int seq = 0; seq < r->n_sequences; seq++) {
        (void)llama_memory_seq_rm(r->memory, seq, length, -1);
    }
}

/* Its threads as its own benchmark makes them. */
static void attach_pool(run *r) {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == NULL) {
        die("no CPU backend beside the program:", r->path);
    }
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
    struct ggml_threadpool_params params = ggml_threadpool_params_default(r->n_threads);
    struct ggml_threadpool *(*create)(struct ggml_threadpool_params *) = NULL;
    void *found = ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new");
    memcpy(&create, &found, sizeof create);
    if (create == NULL) {
        die("no ggml_threadpool_new in", "the CPU backend");
    }
    llama_attach_threadpool(r->context, create(&params), NULL);
}

static void open_all(run *r) {
    llama_log_set(no_log, NULL);
    ggml_backend_load_all();
    llama_backend_init();
    const double start = seconds();
    r->model = llama_model_load_from_file(r->path, llama_model_default_params());
    if (r->model == NULL) {
        die("cannot load", r->path);
    }
    const double load = seconds() - start;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)r->n_ctx;
    params.n_batch = ROWS;
    params.n_ubatch = ROWS;
    params.n_seq_max = (uint32_t)(r->depth > 0 ? 2 : r->n_sequences);
    params.kv_unified = r->depth > 0;
    params.n_threads = r->n_threads;
    params.n_threads_batch = r->n_threads;
    params.flash_attn_type = (enum llama_flash_attn_type)r->flash;
    params.type_k = r->k;
    params.type_v = r->v;
    params.no_perf = true;
    r->context = llama_init_from_model(r->model, params);
    if (r->context == NULL) {
        die("cannot make a context for", r->path);
    }
    attach_pool(r);
    r->memory = llama_get_memory(r->context);
    r->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(r->model));
    r->batch = llama_batch_init(ROWS, 0, 1);
    (void)printf("{\"test\": \"load\", \"seconds\": %.6f}\n", load);
}

/* Fills `depth` positions of sequence 0: whole pieces of ROWS positions are copies of the first one
 * (through sequence 1, in the same buffer), what is left is computed. */
static void go_to_depth(run *r) {
    const int n_pieces = r->depth / ROWS;
    feed(r, 1, 0, n_pieces > 0 ? ROWS : r->depth);
    const size_t n_bytes = llama_state_seq_get_size(r->context, 0);
    uint8_t *state = malloc(n_bytes);
    if (state == NULL || llama_state_seq_get_data(r->context, state, n_bytes, 0) == 0) {
        die("cannot copy the state of", r->path);
    }
    for (int i = 1; i < n_pieces; i++) {
        if (llama_state_seq_set_data(r->context, state, n_bytes, 1) == 0) {
            die("cannot set the state of", r->path);
        }
        llama_memory_seq_add(r->memory, 1, 0, -1, i * ROWS);
        llama_memory_seq_cp(r->memory, 1, 0, -1, -1);
        (void)llama_memory_seq_rm(r->memory, 1, -1, -1);
    }
    free(state);
    if (n_pieces > 0) {
        feed(r, 1, n_pieces * ROWS, r->depth);
    }
    generate(r, 1, r->depth, r->depth + 1); /* it moves the keys with the next batch */
    truncate_all(r, r->depth);
    if (llama_memory_seq_pos_max(r->memory, 0) != r->depth - 1) {
        die("the cache is not at the depth asked for:", r->path);
    }
}

static void print(const char *test, const char *part, double taken) {
    (void)printf("{\"test\": \"%s%s\", \"seconds\": %.6f}\n", part, test, taken);
    (void)fflush(stdout);
}

static void run_test(run *r, const char *test) {
    const int n = atoi(test + (test[0] == 'b' ? 1 : 2));
    const double start = seconds();
    if (strncmp(test, "pp", 2) == 0 && n > 0) {
        feed(r, 1, r->depth, r->depth + n);
        print(test, "", seconds() - start);
    } else if (strncmp(test, "tg", 2) == 0 && n > 0) {
        generate(r, 1, r->depth, r->depth + n);
        print(test, "", seconds() - start);
    } else if (test[0] == 'b' && n > 0 && n <= r->n_sequences && r->depth == 0) {
        feed(r, n, 0, BATCH_PROMPT);
        print(test, "pp64 ", seconds() - start);
        const double half = seconds();
        generate(r, n, BATCH_PROMPT, BATCH_PROMPT + BATCH_GEN);
        print(test, "tg32 ", seconds() - half);
    } else {
        die("unknown test", test);
    }
    truncate_all(r, r->depth);
}

static void first_token(run *r, const char *text) {
    llama_token tokens[ROWS];
    const struct llama_vocab *vocab = llama_model_get_vocab(r->model);
    const int n = llama_tokenize(vocab, text, (int32_t)strlen(text), tokens, ROWS, true, false);
    if (n <= 0 || llama_decode(r->context, llama_batch_get_one(tokens, n)) != 0) {
        die("cannot compute", text);
    }
    const float *logits = llama_get_logits_ith(r->context, -1);
    llama_token best = 0;
    for (int i = 1; i < r->n_vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    char piece[256];
    const int n_piece = llama_token_to_piece(vocab, best, piece, sizeof piece, 0, true);
    (void)printf("{\"test\": \"first\", \"n_prompt\": %d, \"token\": %d, \"n_bytes\": %d}\n", n,
                 best, n_piece);
}

int main(int argc, char **argv) {
    run r = {.n_threads = 2,
             .n_ctx = 1024,
             .k = GGML_TYPE_F16,
             .v = GGML_TYPE_F16,
             .flash = -1,
             .n_sequences = 1};
    const char *text = NULL;
    int option;
    if (argc < 2) {
        die("usage: peer-run MODEL [OPTIONS] TEST...", "");
    }
    r.path = argv[1];
    optind = 2;
    while ((option = getopt(argc, argv, "t:c:k:v:f:d:p:T:")) != -1) {
        switch (option) {
        case 't':
            r.n_threads = atoi(optarg);
            break;
        case 'c':
            r.n_ctx = atoi(optarg);
            break;
        case 'k':
            r.k = find_type(optarg);
            break;
        case 'v':
            r.v = find_type(optarg);
            break;
        case 'f':
            r.flash = atoi(optarg);
            break;
        case 'd':
            r.depth = atoi(optarg);
            break;
        case 'p':
            r.n_sequences = atoi(optarg);
            break;
        case 'T':
            text = optarg;
            break;
        default:
            die("unknown option", argv[optind - 1]);
        }
    }
    open_all(&r);
    if (text != NULL) {
        first_token(&r, text);
    } else {
        if (optind < argc) {
            feed(&r, 1, 0, 16);
            truncate_all(&r, 0);
        }
        if (r.depth > 0) {
            go_to_depth(&r);
        }
        for (int i = optind; i < argc; i++) {
            run_test(&r, argv[i]);
        }
    }
    llama_batch_free(r.batch);
    llama_free(r.context);
    llama_model_free(r.model);
    return 0;
}
