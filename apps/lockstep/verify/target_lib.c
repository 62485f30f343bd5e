/* target_lib.c - a libllama shared library as a target: the same schedules through its batch calls,
 * ids and bits of its logits. llama_library.c loads and checks it.
 *
 * Its contexts are not safe to enter twice, and nothing in it notices, so that is not tried. What
 * its sampler draws is not looked at either: tokens are chosen from its logits, greedily. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "llama_library.h"
#include "verify_steps.h"

enum { N_REPACK = 2, CELLS = 256 /* its caches are multiples of this */ };

typedef struct lib_target {
    verify_target target;
    llama_library lib;
    char *model_path;
    llama_abi_model *models[N_REPACK]; /* by whether weights may be repacked */
    int64_t layers;                    /* what the models were opened with */
    int64_t isa;
} lib_target;

typedef struct lib_context {
    llama_abi_context *context;
    llama_abi_memory *memory;
    int32_t n_slots;
    llama_abi_batch batch; /* arrays of `capacity` */
    int32_t capacity;
    int32_t *seq_ids; /* what batch.seq_id points into */
    int32_t width;    /* of vectors that stand for tokens */
} lib_context;

static void free_context(const llama_library *lib, lib_context *c) {
    if (c != NULL) {
        if (c->context != NULL) {
            lib->llama_free(c->context);
        }
        free(c->batch.token);
        free(c->batch.pos);
        free(c->batch.n_seq_id);
        free(c->batch.seq_id);
        free(c->batch.wants_logits);
        free(c->seq_ids);
        free(c);
    }
}

static bool make_batch(lib_context *c, int32_t n) {
    const size_t count = (size_t)n;
    c->batch.token = calloc(count, sizeof c->batch.token[0]);
    c->batch.pos = calloc(count, sizeof c->batch.pos[0]);
    c->batch.n_seq_id = calloc(count, sizeof c->batch.n_seq_id[0]);
    c->batch.seq_id = calloc(count + 1, sizeof c->batch.seq_id[0]);
    c->batch.wants_logits = calloc(count, sizeof c->batch.wants_logits[0]);
    c->seq_ids = calloc(count, sizeof c->seq_ids[0]);
    c->capacity = n;
    if (c->batch.token == NULL || c->batch.pos == NULL || c->batch.n_seq_id == NULL ||
        c->batch.seq_id == NULL || c->batch.wants_logits == NULL || c->seq_ids == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        c->batch.n_seq_id[i] = 1;
        c->batch.seq_id[i] = &c->seq_ids[i];
    }
    return true;
}

static void free_models(lib_target *t) {
    for (size_t i = 0; i < N_REPACK; i++) {
        if (t->models[i] != NULL) {
            t->lib.llama_model_free(t->models[i]);
            t->models[i] = NULL;
        }
    }
}

/* The variant of its CPU backend that comes next to a set of instructions (LK_CPU_...). */
static const char *variant_of(int64_t isa) {
    switch (isa) {
    case 0:
        return "x64";
    case 1:
        return "haswell";
    case 3:
        return "icelake";
    case 7:
        return "sapphirerapids";
    default:
        return NULL;
    }
}

static verify_status choose_isa(lib_target *t, int64_t isa, char why[VERIFY_WHY]) {
    const char *variant = variant_of(isa);
    if (isa >= 0 && variant == NULL) {
        (void)snprintf(why, VERIFY_WHY, "it has no backend for instruction sets %lld",
                       (long long)isa);
        return VERIFY_NOT_POSSIBLE;
    }
    if (isa == t->isa) {
        return VERIFY_RAN;
    }
    free_models(t);
    t->isa = llama_library_choose_cpu(&t->lib, variant, why) ? isa : -1;
    return t->isa == isa ? VERIFY_RAN : VERIFY_NOT_POSSIBLE;
}

static verify_status open_model(lib_target *t, const verify_point *p, llama_abi_model **model,
                                char why[VERIFY_WHY]) {
    const size_t i = p->value[VERIFY_REPACK] != 0;
    char reason[LLAMA_LIBRARY_WHY];
    if (p->value[VERIFY_LAYERS] != 0 && !t->lib.llama_supports_gpu_offload()) {
        (void)snprintf(why, VERIFY_WHY, "it has no device that layers could be on");
        return VERIFY_NOT_POSSIBLE;
    }
    if (p->value[VERIFY_THREADS] > sysconf(_SC_NPROCESSORS_ONLN)) {
        (void)snprintf(why, VERIFY_WHY,
                       "its threads wait for one another by spinning: %lld of them on %ld "
                       "processors would take for ever",
                       (long long)p->value[VERIFY_THREADS], sysconf(_SC_NPROCESSORS_ONLN));
        return VERIFY_NOT_POSSIBLE;
    }
    const verify_status status = choose_isa(t, p->value[VERIFY_ISA], why);
    if (status != VERIFY_RAN) {
        return status;
    }
    if (p->value[VERIFY_LAYERS] != t->layers) {
        free_models(t);
        t->layers = p->value[VERIFY_LAYERS];
    }
    if (t->models[i] == NULL) {
        llama_abi_model_block params = t->lib.model;
        params.params.n_gpu_layers = (int32_t)t->layers;
        params.params.use_extra_buffers = i != 0;
        t->models[i] = t->lib.llama_model_load_from_file(t->model_path, params);
    }
    if (t->models[i] == NULL) {
        (void)snprintf(why, VERIFY_WHY, "it cannot load %.150s%.200s", t->model_path,
                       llama_library_error(&t->lib, reason));
        return VERIFY_BROKEN;
    }
    *model = t->models[i];
    return VERIFY_RAN;
}

static int32_t element_type(int64_t type) {
    static const int32_t types[] = {LLAMA_ABI_F32, LLAMA_ABI_F16, LLAMA_ABI_Q8_0};
    return types[type >= 0 && type < 3 ? type : 1];
}

/* One token computed and forgotten. */
static bool warm_up(const llama_library *lib, lib_context *c) {
    int32_t token = 0;
    const bool done =
        lib->llama_decode(c->context, lib->llama_batch_get_one(&token, 1)) == LLAMA_ABI_DONE;
    lib->llama_synchronize(c->context);
    lib->llama_memory_clear(c->memory, true);
    return done;
}

static verify_status begin(void *engine, const verify_point *p, int32_t n_slots,
                           int64_t n_positions, int32_t max_rows, void **context,
                           char why[VERIFY_WHY]) {
    lib_target *t = engine;
    llama_abi_model *model = NULL;
    char reason[LLAMA_LIBRARY_WHY];
    *context = NULL;
    llama_library_listen(&t->lib);
    const verify_status status = open_model(t, p, &model, why);
    if (status != VERIFY_RAN) {
        return status;
    }
    const int64_t each = (n_positions / n_slots + CELLS) / CELLS * CELLS;
    const int64_t rows = p->value[VERIFY_ROWS];
    llama_abi_context_block block = t->lib.context;
    llama_abi_context_params *params = &block.params;
    if (each * n_slots > INT32_MAX || rows < 1 || rows > 1 << 20) {
        (void)snprintf(why, VERIFY_WHY, "it takes no %lld positions in steps of %lld rows",
                       (long long)(each * n_slots), (long long)rows);
        return VERIFY_NOT_POSSIBLE;
    }
    params->n_ctx = (uint32_t)(each * n_slots);
    params->n_batch = (uint32_t)(max_rows > rows ? max_rows : rows);
    params->n_ubatch = (uint32_t)rows;
    params->n_seq_max = (uint32_t)n_slots;
    params->n_threads = (int32_t)p->value[VERIFY_THREADS];
    params->n_threads_batch = (int32_t)p->value[VERIFY_THREADS];
    params->type_k = element_type(p->value[VERIFY_K_TYPE]);
    params->type_v = element_type(p->value[VERIFY_V_TYPE]);
    params->flash_attention = (int32_t)p->value[VERIFY_ATTENTION];
    params->kv_unified =
        p->value[VERIFY_UNIFIED] < 0 ? params->kv_unified : p->value[VERIFY_UNIFIED] != 0;
    params->op_offload =
        p->value[VERIFY_OP_OFFLOAD] < 0 ? params->op_offload : p->value[VERIFY_OP_OFFLOAD] != 0;
    params->offload_kqv =
        p->value[VERIFY_KV_OFFLOAD] < 0 ? params->offload_kqv : p->value[VERIFY_KV_OFFLOAD] != 0;
    lib_context *c = calloc(1, sizeof *c);
    if (c == NULL || !make_batch(c, max_rows)) {
        free_context(&t->lib, c);
        (void)snprintf(why, VERIFY_WHY, "out of memory for %d rows", max_rows);
        return VERIFY_BROKEN;
    }
    c->n_slots = n_slots;
    c->width = t->lib.llama_model_n_embd_inp(model);
    c->context = t->lib.llama_init_from_model(model, block);
    c->memory = c->context != NULL ? t->lib.llama_get_memory(c->context) : NULL;
    if (c->memory == NULL || (p->value[VERIFY_WARMUP] != 0 && !warm_up(&t->lib, c))) {
        (void)snprintf(why, VERIFY_WHY, "it makes no context of these settings%.300s",
                       llama_library_error(&t->lib, reason));
        free_context(&t->lib, c);
        return VERIFY_NOT_POSSIBLE;
    }
    *context = c;
    return VERIFY_RAN;
}

static void end(void *engine, void *context) {
    const lib_target *t = engine;
    free_context(&t->lib, context);
}

/* Rows as vectors, all of a call or none: memory that the caller frees, or NULL with the reason. */
static float *gather_vectors(const lib_context *c, const verify_step_row *rows, size_t n_rows,
                             char why[VERIFY_WHY]) {
    const size_t width = (size_t)c->width;
    float *vectors = calloc(n_rows * width + 1, sizeof vectors[0]);
    (void)snprintf(why, VERIFY_WHY, "out of memory");
    for (size_t i = 0; i < n_rows && vectors != NULL; i++) {
        if (rows[i].vector == NULL || rows[i].n_vector != width) {
            (void)snprintf(why, VERIFY_WHY, "%s", verify_capability_name(VERIFY_CAN_MIX));
            free(vectors);
            return NULL;
        }
        memcpy(vectors + i * width, rows[i].vector, width * sizeof vectors[0]);
    }
    return vectors;
}

static verify_step_status decode(void *engine, void *context, const verify_step_row *rows,
                                 size_t n_rows, verify_step_report *report) {
    lib_target *t = engine;
    lib_context *c = context;
    char reason[LLAMA_LIBRARY_WHY];
    if (n_rows > (size_t)c->capacity) {
        (void)snprintf(report->why, sizeof report->why, "%zu rows are more than %d", n_rows,
                       c->capacity);
        return VERIFY_STEP_FAILED;
    }
    bool has_vectors = false;
    for (size_t i = 0; i < n_rows; i++) {
        has_vectors = has_vectors || rows[i].vector != NULL;
        c->batch.token[i] = rows[i].token;
        c->batch.pos[i] = (int32_t)rows[i].pos;
        c->seq_ids[i] = rows[i].slot;
        c->batch.wants_logits[i] = rows[i].wants_logits;
    }
    llama_abi_batch batch = c->batch;
    batch.n_tokens = (int32_t)n_rows;
    if (has_vectors) {
        batch.embeddings = gather_vectors(c, rows, n_rows, report->why);
        batch.token = NULL;
        if (batch.embeddings == NULL) {
            return VERIFY_STEP_FAILED;
        }
    }
    const int32_t status = t->lib.llama_decode(c->context, batch);
    t->lib.llama_synchronize(c->context);
    free(batch.embeddings);
    if (status == LLAMA_ABI_DONE) {
        t->lib.last_error[0] = '\0';
        return VERIFY_STEP_DONE;
    }
    (void)snprintf(report->why, sizeof report->why, "llama_decode returned %d%.300s", status,
                   llama_library_error(&t->lib, reason));
    return status == LLAMA_ABI_FULL      ? VERIFY_STEP_FULL
           : status == LLAMA_ABI_INVALID ? VERIFY_STEP_REFUSED
                                         : VERIFY_STEP_FAILED;
}

static const float *get_logits(void *engine, void *context, size_t i_row, char why[VERIFY_WHY]) {
    lib_target *t = engine;
    lib_context *c = context;
    char reason[LLAMA_LIBRARY_WHY];
    const float *logits = t->lib.llama_get_logits_ith(c->context, (int32_t)i_row);
    if (logits == NULL) {
        (void)snprintf(why, VERIFY_WHY, "llama_get_logits_ith gave nothing%.300s",
                       llama_library_error(&t->lib, reason));
    }
    return logits;
}

static bool go_back(void *engine, void *context, int32_t slot, int64_t length,
                    char why[VERIFY_WHY]) {
    const lib_target *t = engine;
    lib_context *c = context;
    if (t->lib.llama_memory_seq_rm(c->memory, slot, (int32_t)length, -1)) {
        return true;
    }
    (void)snprintf(why, VERIFY_WHY, "llama_memory_seq_rm cannot remove from position %lld",
                   (long long)length);
    return false;
}

static bool clear(void *engine, void *context, int32_t slot, char why[VERIFY_WHY]) {
    return go_back(engine, context, slot, 0, why);
}

static bool fork_slot(void *engine, void *context, int32_t src, int32_t dst, int64_t length,
                      char why[VERIFY_WHY]) {
    const lib_target *t = engine;
    lib_context *c = context;
    /* With a buffer for each sequence it copies whole ones only. */
    t->lib.llama_memory_seq_cp(c->memory, src, dst, -1, -1);
    return go_back(engine, context, dst, length, why);
}

static bool save(void *engine, void *context, int32_t slot, const char *path,
                 char why[VERIFY_WHY]) {
    lib_target *t = engine;
    lib_context *c = context;
    char reason[LLAMA_LIBRARY_WHY];
    const int32_t none = 0;
    if (t->lib.llama_state_seq_save_file(c->context, path, slot, &none, 0) > 0) {
        return true;
    }
    (void)snprintf(why, VERIFY_WHY, "llama_state_seq_save_file failed%.300s",
                   llama_library_error(&t->lib, reason));
    return false;
}

static bool load(void *engine, void *context, int32_t slot, const char *path,
                 char why[VERIFY_WHY]) {
    lib_target *t = engine;
    lib_context *c = context;
    char reason[LLAMA_LIBRARY_WHY];
    int32_t token = 0;
    size_t n_tokens = 0;
    if (t->lib.llama_state_seq_load_file(c->context, path, slot, &token, 1, &n_tokens) > 0) {
        return true;
    }
    (void)snprintf(why, VERIFY_WHY, "llama_state_seq_load_file failed%.300s",
                   llama_library_error(&t->lib, reason));
    return false;
}

/* Where a window has let go of what lies before it. */
static int64_t shortest(void *engine, void *context, int32_t slot) {
    const lib_target *t = engine;
    lib_context *c = context;
    const int32_t first = t->lib.llama_memory_seq_pos_min(c->memory, slot);
    return first > 0 ? t->lib.llama_memory_seq_pos_max(c->memory, slot) + 1 : 0;
}

static const verify_engine_ops engine_ops = {
    .begin = begin,
    .end = end,
    .decode = decode,
    .logits = get_logits,
    .clear = clear,
    .truncate = go_back,
    .fork = fork_slot,
    .shortest = shortest,
    .save = save,
    .load = load,
};

static verify_status run(verify_target *target, const verify_schedule *s, const verify_point *p,
                         verify_result *result, char why[VERIFY_WHY]) {
    return verify_steps_run(&engine_ops, target, target, s, p, result, why);
}

static void close_lib(verify_target *target) {
    lib_target *t = (lib_target *)target;
    if (t != NULL) {
        free_models(t);
        llama_library_close(&t->lib);
        free(t->model_path);
        free(t);
    }
}

static const verify_target_ops ops = {.run = run, .close = close_lib};

static void describe(lib_target *t) {
    char cpu[80];
    const char *features = t->lib.llama_print_system_info();
    llama_library_cpu_file(cpu, sizeof cpu);
    (void)snprintf(t->target.description, sizeof t->target.description,
                   "libllama %.30s, ggml %.30s (%.40s), %.60s, %.300s", t->lib.llama_version(),
                   t->lib.ggml_version(), t->lib.ggml_commit(), cpu,
                   features != NULL ? features : "");
}

verify_status verify_open_lib(const verify_source *source, verify_target **out,
                              char why[VERIFY_WHY]) {
    char reason[LLAMA_LIBRARY_WHY];
    llama_abi_model *model = NULL;
    *out = NULL;
    lib_target *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->model_path = strdup(source->model);
    }
    if (t == NULL || t->model_path == NULL) {
        free(t);
        (void)snprintf(why, VERIFY_WHY, "out of memory");
        return VERIFY_BROKEN;
    }
    t->isa = -1;
    t->layers = source->base->value[VERIFY_LAYERS];
    if (!llama_library_open(source->where, &t->lib, reason)) {
        (void)snprintf(why, VERIFY_WHY, "%.150s: %.240s", source->where, reason);
        close_lib(&t->target);
        return VERIFY_BROKEN;
    }
    const verify_status status = open_model(t, source->base, &model, why);
    if (status != VERIFY_RAN) {
        close_lib(&t->target);
        return status;
    }
    t->target = (verify_target){
        .ops = &ops,
        .can = VERIFY_CAN_STEPS | VERIFY_CAN_BITS | VERIFY_CAN_IDS | VERIFY_CAN_LOGPROBS |
               VERIFY_CAN_FORK | VERIFY_CAN_TRUNCATE | VERIFY_CAN_RESTART | VERIFY_CAN_REFUSE |
               VERIFY_CAN_MODELS | VERIFY_CAN_PROMPTS | VERIFY_CAN_VECTORS,
        .factors = VERIFY_BIT(VERIFY_THREADS) | VERIFY_BIT(VERIFY_ROWS) |
                   VERIFY_BIT(VERIFY_K_TYPE) | VERIFY_BIT(VERIFY_V_TYPE) | VERIFY_BIT(VERIFY_ISA) |
                   VERIFY_BIT(VERIFY_REPACK) | VERIFY_BIT(VERIFY_ATTENTION) |
                   VERIFY_BIT(VERIFY_UNIFIED) | VERIFY_BIT(VERIFY_LAYERS) |
                   VERIFY_BIT(VERIFY_WARMUP),
        .defining = VERIFY_BIT(VERIFY_K_TYPE) | VERIFY_BIT(VERIFY_V_TYPE),
        .n_vocab = t->lib.llama_vocab_n_tokens(t->lib.llama_model_get_vocab(model)),
        .n_ctx = t->lib.llama_model_n_ctx_train(model),
        .max_slots = VERIFY_MAX_SLOTS,
    };
    if (t->lib.llama_supports_gpu_offload()) {
        t->target.factors |= VERIFY_BIT(VERIFY_OP_OFFLOAD) | VERIFY_BIT(VERIFY_KV_OFFLOAD);
    }
    describe(t);
    *out = &t->target;
    return VERIFY_RAN;
}
