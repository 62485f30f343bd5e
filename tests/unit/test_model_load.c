/* test_model_load.c - opening models: what the info says, and that files which are not as the
 * architecture expects are refused with a message that names key or tensor, what was found and what
 * was expected. Each damaged file is a good one rewritten with one change. */
#include "gguf/gguf_writer.h"
#include "lk_test.h"
#include "model/model.h"
#include "quant/format.h"
#include "test_folder.h"

typedef enum change_kind {
    NOTHING,
    DROP_KEY,
    SET_INT,
    SET_FLOAT,
    SET_TEXT,
    SET_TEXT_AND_NUL, /* the zero that ends it belongs to it */
    SET_EQUAL_ARRAY,  /* value, value */
    SET_MIXED_ARRAY,  /* value, value + 1 */
    SET_FOUR,         /* value, four times */
    DROP_TENSOR,
    RENAME_TENSOR,
    STORE_F16,
    DROP_ROW,   /* of the slowest dimension */
    STORE_KNOWN /* in a format that is known but not supported */
} change_kind;

typedef struct change {
    change_kind how;
    const char *name; /* key or tensor */
    double value;
    const char *text;
} change;

/* The damaged file. */
static const char *file;
static const char *const file_name[] = {"damaged.gguf", NULL};

static void set_key(lk_gguf_writer *w, const change *c) {
    lk_error err;
    switch (c->how) {
    case SET_INT:
        REQUIRE_OK(lk_gguf_writer_int(w, c->name, LK_GGUF_U32, (int64_t)c->value, &err), err);
        break;
    case SET_FLOAT:
        REQUIRE_OK(lk_gguf_writer_float(w, c->name, LK_GGUF_F32, c->value, &err), err);
        break;
    case SET_TEXT:
        REQUIRE_OK(lk_gguf_writer_string(w, c->name, c->text, strlen(c->text), &err), err);
        break;
    case SET_TEXT_AND_NUL:
        REQUIRE_OK(lk_gguf_writer_string(w, c->name, c->text, strlen(c->text) + 1, &err), err);
        break;
    case SET_EQUAL_ARRAY:
    case SET_MIXED_ARRAY:
    case SET_FOUR: {
        const uint32_t first = (uint32_t)c->value;
        const uint32_t second = first + (c->how == SET_MIXED_ARRAY ? 1u : 0u);
        const uint32_t elements[4] = {first, second, first, first};
        REQUIRE_OK(lk_gguf_writer_array(w, c->name, LK_GGUF_U32, elements,
                                        c->how == SET_FOUR ? 4 : 2, &err),
                   err);
        break;
    }
    default:
        break;
    }
}

static bool is_key_change(change_kind how) {
    return how >= DROP_KEY && how <= SET_FOUR;
}

/* The tensor as it is written; false: not at all. */
static bool change_tensor(const change *c, lk_gguf_tensor *t) {
    if (c->how < DROP_TENSOR || strcmp(c->name, t->name) != 0) {
        return true;
    }
    switch (c->how) {
    case DROP_TENSOR:
        return false;
    case RENAME_TENSOR:
        t->name = c->text;
        break;
    case STORE_F16:
        t->type = LK_FORMAT_F16;
        t->n_bytes /= 2;
        break;
    case STORE_KNOWN:
        t->type = 9; /* Q8_1: 32 elements in 36 bytes */
        t->n_bytes = t->n_bytes / 4 / 32 * 36;
        break;
    default: {
        uint64_t *last = &t->ne[t->n_dims - 1];
        t->n_bytes = t->n_bytes / *last * (*last - 1);
        (*last)--;
        break;
    }
    }
    return true;
}

static void write_data(lk_gguf_writer *w, const lk_gguf_tensor *t) {
    lk_error err;
    if (t->type != LK_FORMAT_F16) {
        REQUIRE_OK(lk_gguf_writer_data(w, t->data, (size_t)t->n_bytes, &err), err);
        return;
    }
    uint8_t *half = malloc((size_t)t->n_bytes);
    if (half == NULL) {
        exit(1);
    }
    lk_format_find(LK_FORMAT_F16)->encode(t->data, half, (size_t)t->n_bytes / 2);
    REQUIRE_OK(lk_gguf_writer_data(w, half, (size_t)t->n_bytes, &err), err);
    free(half);
}

static void rewrite(const char *source, const change *c) {
    lk_error err;
    lk_gguf *from = NULL;
    lk_gguf_writer *w = NULL;
    REQUIRE_OK(lk_gguf_open(lk_test_data(source), NULL, &from, &err), err);
    REQUIRE_OK(lk_gguf_writer_create(file, NULL, &w, &err), err);
    for (uint64_t i = 0; i < lk_gguf_n_meta(from); i++) {
        const char *key = NULL;
        lk_gguf_value value;
        REQUIRE_OK(lk_gguf_meta(from, i, &key, &value, &err), err);
        if (!is_key_change(c->how) || strcmp(key, c->name) != 0) {
            REQUIRE_OK(lk_gguf_writer_copy(w, from, i, &err), err);
        }
    }
    set_key(w, c);
    const uint64_t n = lk_gguf_n_tensors(from);
    lk_gguf_tensor *tensors = calloc((size_t)n, sizeof *tensors);
    bool *kept = calloc((size_t)n, sizeof *kept);
    if (tensors == NULL || kept == NULL) {
        exit(1);
    }
    for (uint64_t i = 0; i < n; i++) {
        lk_gguf_tensor *t = &tensors[i];
        REQUIRE_OK(lk_gguf_tensor_at(from, i, t, &err), err);
        kept[i] = change_tensor(c, t);
        if (kept[i]) {
            REQUIRE_OK(lk_gguf_writer_tensor(w, t->name, t->type, t->n_dims, t->ne, &err), err);
        }
    }
    REQUIRE_OK(lk_gguf_writer_begin(w, &err), err);
    for (uint64_t i = 0; i < n; i++) {
        if (kept[i]) {
            write_data(w, &tensors[i]);
        }
    }
    REQUIRE_OK(lk_gguf_writer_finish(w, &err), err);
    lk_gguf_writer_destroy(w);
    free(kept);
    free(tensors);
    lk_gguf_close(from);
}

typedef struct damage {
    const char *source;
    change change;
    lk_status status;
    const char *texts[3]; /* in the message or its subject */
} damage;

#define LLAMA "archs/llama.gguf"
#define QWEN2 "archs/qwen2.gguf"
#define MOE "archs/qwen3moe.gguf"
#define YARN "archs/llama-yarn.gguf"
#define GEMMA2 "archs/gemma2.gguf"
#define GEMMA3 "archs/gemma3.gguf"
#define GLM4 "archs/glm4.gguf"
#define GPT_OSS "archs/gpt-oss.gguf"
#define GRANITE "archs/granite.gguf"
#define MISTRAL3 "archs/mistral3.gguf"
#define PHI3 "archs/phi3.gguf"
#define QWEN2MOE "archs/qwen2moe.gguf"
#define QWEN2VL "archs/qwen2vl.gguf"
#define SMOLLM3 "archs/smollm3.gguf"

static const damage damages[] = {
    {LLAMA, {NOTHING, "", 0, ""}, LK_OK, {"", "", ""}},
    {LLAMA, {SET_EQUAL_ARRAY, "llama.attention.head_count_kv", 2, ""}, LK_OK, {"", "", ""}},
    {LLAMA, {SET_TEXT, "llama.rope.scaling.type", 0, "none"}, LK_OK, {"", "", ""}},
    {LLAMA, {SET_INT, "llama.expert_count", 0, ""}, LK_OK, {"", "", ""}},
    {LLAMA, {SET_INT, "llama.attention.sliding_window", 0, ""}, LK_OK, {"", "", ""}},
    {LLAMA, {STORE_F16, "blk.1.attn_q.weight", 0, ""}, LK_OK, {"", "", ""}},
    /* tensors */
    {LLAMA,
     {DROP_TENSOR, "blk.1.attn_k.weight", 0, ""},
     LK_E_FORMAT,
     {"blk.1.attn_k.weight", "missing", ""}},
    {LLAMA, {DROP_TENSOR, "token_embd.weight", 0, ""}, LK_E_FORMAT, {"token_embd", "missing", ""}},
    {QWEN2,
     {DROP_TENSOR, "blk.0.attn_v.bias", 0, ""},
     LK_E_FORMAT,
     {"blk.0.attn_v.bias", "missing", ""}},
    {LLAMA,
     {DROP_ROW, "blk.0.attn_q.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.0.attn_q.weight", "shape [64, 63]", "expected [64, 64]"}},
    {LLAMA,
     {DROP_ROW, "blk.1.ffn_norm.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.1.ffn_norm.weight", "shape [63]", "expected [64]"}},
    {MOE,
     {DROP_ROW, "blk.1.ffn_up_exps.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.1.ffn_up_exps.weight", "shape [64, 32, 7]", "expected [64, 32, 8]"}},
    {MOE,
     {DROP_ROW, "output.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor output.weight", "shape [64, 127]", "expected [64, 128]"}},
    {YARN,
     {RENAME_TENSOR, "blk.0.ffn_up.weight", 0, "blk.0.ffn_up.wait"},
     LK_E_FORMAT,
     {"tensor blk.0.ffn_up.weight is missing", "", ""}},
    {LLAMA,
     {STORE_F16, "blk.0.attn_norm.weight", 0, ""},
     LK_E_UNSUPPORTED,
     {"blk.0.attn_norm.weight", "format F16", "expected F32"}},
    {LLAMA,
     {STORE_KNOWN, "blk.0.ffn_gate.weight", 0, ""},
     LK_E_UNSUPPORTED,
     {"blk.0.ffn_gate.weight", "Q8_1", "not supported"}},
    {MOE,
     {RENAME_TENSOR, "output.weight", 0, "blk.0.attn_q.bias"},
     LK_E_UNSUPPORTED,
     {"blk.0.attn_q.bias", "not known for architecture qwen3moe", ""}},
    {LLAMA,
     {DROP_ROW, "token_embd.weight", 0, ""},
     LK_E_FORMAT,
     {"token_embd.weight has 127 rows", "128 tokens", ""}},
    /* keys */
    {LLAMA, {SET_TEXT, "tokenizer.ggml.model", 0, "rwkv"}, LK_E_UNSUPPORTED, {"rwkv", "", ""}},
    {LLAMA,
     {DROP_KEY, "general.architecture", 0, ""},
     LK_E_FORMAT,
     {"general.architecture", "", ""}},
    {LLAMA,
     {SET_TEXT, "general.architecture", 0, "mamba"},
     LK_E_UNSUPPORTED,
     {"architecture \"mamba\"", "not supported", ""}},
    {LLAMA,
     {DROP_KEY, "llama.block_count", 0, ""},
     LK_E_FORMAT,
     {"llama.block_count", "missing", ""}},
    {LLAMA, {SET_INT, "llama.block_count", 0, ""}, LK_E_FORMAT, {"block_count is 0", "", ""}},
    {LLAMA, {SET_INT, "llama.context_length", 0, ""}, LK_E_FORMAT, {"context_length is 0", "", ""}},
    {LLAMA,
     {SET_INT, "llama.feed_forward_length", 0, ""},
     LK_E_FORMAT,
     {"feed_forward_length is 0", "", ""}},
    {MOE,
     {SET_INT, "qwen3moe.expert_feed_forward_length", 0, ""},
     LK_E_FORMAT,
     {"expert_feed_forward_length is 0", "", ""}},
    {MOE, {SET_INT, "qwen3moe.expert_count", 0, ""}, LK_E_FORMAT, {"expert_count is 0", "", ""}},
    {LLAMA, {SET_INT, "llama.block_count", 2e9, ""}, LK_E_FORMAT, {"block_count", "1024", ""}},
    {LLAMA,
     {SET_INT, "llama.block_count", 3, ""},
     LK_E_FORMAT,
     {"blk.2.attn_norm.weight is missing", "", ""}},
    {LLAMA, {SET_INT, "llama.block_count", 1, ""}, LK_E_UNSUPPORTED, {"blk.1.", "not known", ""}},
    {LLAMA,
     {SET_TEXT, "llama.embedding_length", 0, "64"},
     LK_E_FORMAT,
     {"llama.embedding_length has type string", "expected an integer", ""}},
    {LLAMA,
     {SET_INT, "llama.attention.head_count_kv", 5, ""},
     LK_E_FORMAT,
     {"head_count_kv is 5", "1 .. 4", ""}},
    {LLAMA,
     {SET_MIXED_ARRAY, "llama.attention.head_count_kv", 1, ""},
     LK_E_UNSUPPORTED,
     {"head_count_kv is 1 for the first layer and 2 for layer 1", "", ""}},
    {LLAMA,
     {SET_INT, "llama.attention.key_length", 12, ""},
     LK_E_UNSUPPORTED,
     {"key_length", "", ""}},
    {MOE,
     {SET_INT, "qwen3moe.attention.value_length", 32, ""},
     LK_E_UNSUPPORTED,
     {"value_length", "32", "16"}},
    {LLAMA,
     {SET_INT, "llama.rope.dimension_count", 15, ""},
     LK_E_FORMAT,
     {"rope.dimension_count", "15", "even"}},
    {YARN,
     {SET_TEXT, "llama.rope.scaling.type", 0, "longrope"},
     LK_E_UNSUPPORTED,
     {"longrope", "rope.scaling.type", ""}},
    {YARN,
     {SET_FLOAT, "llama.rope.scaling.factor", 0, ""},
     LK_E_FORMAT,
     {"scaling.factor", "", ""}},
    {LLAMA,
     {SET_FLOAT, "llama.rope.freq_base", 3e38, ""},
     LK_E_FORMAT,
     {"rotary base is 3e+38", "below 1e30", ""}},
    {LLAMA,
     {SET_TEXT_AND_NUL, "llama.rope.scaling.type", 0, "linear"},
     LK_E_FORMAT,
     {"llama.rope.scaling.type", "expected a short string", ""}},
    {LLAMA,
     {SET_INT, "tokenizer.ggml.eos_token_id", 128, ""},
     LK_E_FORMAT,
     {"tokenizer.ggml.eos_token_id is 128, expected 0 to 127", "", ""}},
    {LLAMA,
     {SET_FLOAT, "llama.attn_logit_softcapping", 30, ""},
     LK_E_UNSUPPORTED,
     {"llama.attn_logit_softcapping", "not known", ""}},
    {LLAMA,
     {SET_FLOAT, "llama.attention.scale", 0.5, ""},
     LK_E_UNSUPPORTED,
     {"llama.attention.scale", "not known", ""}},
    {LLAMA,
     {SET_INT, "llama.attention.sliding_window", 4096, ""},
     LK_E_UNSUPPORTED,
     {"attention.sliding_window is 4096", "", ""}},
    {LLAMA,
     {SET_INT, "llama.expert_count", 8, ""},
     LK_E_UNSUPPORTED,
     {"llama.expert_count is 8", "", ""}},
    {MOE,
     {SET_INT, "qwen3moe.expert_used_count", 9, ""},
     LK_E_FORMAT,
     {"9 experts used of 8", "", ""}},
    {MOE,
     {SET_INT, "qwen3moe.expert_gating_func", 2, ""},
     LK_E_UNSUPPORTED,
     {"expert_gating_func is 2", "", ""}},
    /* what single families have */
    {GEMMA2,
     {DROP_TENSOR, "blk.0.post_ffw_norm.weight", 0, ""},
     LK_E_FORMAT,
     {"blk.0.post_ffw_norm.weight", "missing", ""}},
    {GEMMA2,
     {SET_FLOAT, "gemma2.attn_logit_softcapping", -1, ""},
     LK_E_FORMAT,
     {"soft cap of the scores is -1", "", ""}},
    {GEMMA2,
     {SET_FLOAT, "gemma2.final_logit_softcapping", 1e31, ""},
     LK_E_FORMAT,
     {"softcap by 1e+31", "less than 1e30", ""}},
    {GEMMA3,
     {SET_MIXED_ARRAY, "gemma3.attention.sliding_window_pattern", 1, ""},
     LK_E_UNSUPPORTED,
     {"sliding_window_pattern is 1 for the first layer and 2 for layer 1", "", ""}},
    {GEMMA3,
     {STORE_F16, "blk.1.attn_q_norm.weight", 0, ""},
     LK_E_UNSUPPORTED,
     {"blk.1.attn_q_norm.weight", "format F16", "expected F32"}},
    {GEMMA3,
     {SET_FLOAT, "gemma3.rope.freq_base_swa", 0, ""},
     LK_E_FORMAT,
     {"rotary base is 0", "", ""}},
    {GPT_OSS,
     {DROP_ROW, "blk.1.attn_sinks.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.1.attn_sinks.weight", "shape [3]", "expected [4]"}},
    {GPT_OSS,
     {DROP_TENSOR, "blk.1.ffn_up_exps.bias", 0, ""},
     LK_E_FORMAT,
     {"blk.1.ffn_up_exps.bias", "missing", ""}},
    {GPT_OSS,
     {STORE_F16, "blk.0.ffn_down_exps.bias", 0, ""},
     LK_E_UNSUPPORTED,
     {"blk.0.ffn_down_exps.bias", "format F16", "expected F32"}},
    {GRANITE,
     {SET_FLOAT, "granite.logit_scale", 0, ""},
     LK_E_FORMAT,
     {"scale by inf", "less than 1e30", ""}},
    {MISTRAL3,
     {SET_FLOAT, "mistral3.attention.temperature_scale", 1e9, ""},
     LK_E_FORMAT,
     {"temperature of scale 1e+09", "", ""}},
    {MISTRAL3,
     {SET_FLOAT, "mistral3.rope.scaling.yarn_log_multiplier", -1e30, ""},
     LK_E_FORMAT,
     {"rotary magnitude factor", "", ""}},
    {PHI3,
     {DROP_ROW, "blk.0.attn_qkv.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.0.attn_qkv.weight", "shape [64, 127]", "expected [64, 128]"}},
    {PHI3, {SET_TEXT, "phi3.rope.scaling.type", 0, "longrope"}, LK_OK, {"", "", ""}},
    {PHI3, {SET_FLOAT, "phi3.rope.scaling.attn_factor", 1.19, ""}, LK_OK, {"", "", ""}},
    {PHI3,
     {SET_FLOAT, "phi3.rope.scaling.attn_factor", 0, ""},
     LK_E_FORMAT,
     {"rotary magnitude factor is 0", "", ""}},
    {PHI3, {SET_INT, "phi3.attention.sliding_window", 64, ""}, LK_OK, {"", "", ""}},
    {GLM4, {DROP_TENSOR, "blk.1.attn_k.bias", 0, ""}, LK_OK, {"", "", ""}},
    {GLM4,
     {DROP_TENSOR, "blk.1.post_ffw_norm.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.1.post_ffw_norm.weight is missing", "", ""}},
    {GLM4,
     {DROP_ROW, "blk.0.ffn_up.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.0.ffn_up.weight", "shape [64, 191]", "expected [64, 192]"}},
    {GLM4,
     {SET_INT, "glm4.rope.dimension_count", 24, ""},
     LK_E_FORMAT,
     {"rope.dimension_count is 24", "16", ""}},
    {GLM4, {SET_INT, "glm4.nextn_predict_layers", 0, ""}, LK_OK, {"", "", ""}},
    {GLM4,
     {SET_INT, "glm4.nextn_predict_layers", 1, ""},
     LK_E_UNSUPPORTED,
     {"nextn_predict_layers is 1", "", ""}},
    {GLM4,
     {SET_EQUAL_ARRAY, "glm4.rope.dimension_sections", 8, ""},
     LK_E_UNSUPPORTED,
     {"glm4.rope.dimension_sections", "not known", ""}},
    {QWEN2MOE,
     {SET_INT, "qwen2moe.expert_shared_feed_forward_length", 0, ""},
     LK_E_FORMAT,
     {"expert_shared_feed_forward_length is 0", "", ""}},
    {QWEN2MOE,
     {DROP_ROW, "blk.0.ffn_up_shexp.weight", 0, ""},
     LK_E_FORMAT,
     {"tensor blk.0.ffn_up_shexp.weight", "shape [64, 47]", "expected [64, 48]"}},
    {QWEN2VL,
     {DROP_KEY, "qwen2vl.rope.dimension_sections", 0, ""},
     LK_E_FORMAT,
     {"qwen2vl.rope.dimension_sections", "missing", ""}},
    {QWEN2VL,
     {SET_INT, "qwen2vl.rope.dimension_sections", 8, ""},
     LK_E_FORMAT,
     {"dimension_sections", "expected an array of integers", ""}},
    {QWEN2VL,
     {SET_EQUAL_ARRAY, "qwen2vl.rope.dimension_sections", 4, ""},
     LK_E_FORMAT,
     {"dimension_sections", "2 elements", "expected 4"}},
    {QWEN2VL,
     {SET_FOUR, "qwen2vl.rope.dimension_sections", 2, ""},
     LK_E_UNSUPPORTED,
     {"dimension_sections", "[2, 2, 2, 2]", "together 8"}},
    {SMOLLM3,
     {SET_INT, "smollm3.attention.sliding_window", 4096, ""},
     LK_E_UNSUPPORTED,
     {"attention.sliding_window is 4096", "", ""}},
};

LK_TEST(damaged_models) {
    test_folder_make();
    file = test_folder_path(file_name[0]);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const damage *d = &damages[i];
        lk_model *model = NULL;
        lk_error err = {0};
        rewrite(d->source, &d->change);
        const lk_status status = lk_model_open(file, NULL, &model, &err);
        CHECK_MSG(status == d->status && (status == LK_OK) == (model != NULL),
                  "%s of %s: %s (%s), expected %s", d->change.name, d->source,
                  lk_status_name(status), err.message, lk_status_name(d->status));
        for (size_t k = 0; k < 3; k++) {
            CHECK_MSG(status == LK_OK || strstr(err.message, d->texts[k]) != NULL ||
                          strstr(err.subject, d->texts[k]) != NULL,
                      "%s: message \"%s\" lacks \"%s\"", d->change.name, err.message, d->texts[k]);
        }
        lk_model_close(model);
    }
    test_folder_remove(file_name);
}

LK_TEST(info) {
    lk_model *model = NULL;
    lk_error err;
    REQUIRE_OK(lk_model_open(lk_test_data(MOE), NULL, &model, &err), err);
    lk_model_info info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    CHECK(strcmp(info.arch, "qwen3moe") == 0 && info.n_vocab == 128 && info.n_layers == 2);
    CHECK(info.n_embd == 64 && info.n_heads == 4 && info.n_kv_heads == 2 && info.head_dim == 16);
    CHECK(info.n_experts == 8 && info.n_experts_used == 2 && info.n_ctx_train == 256);
    CHECK(info.n_params * 4 < info.n_bytes && info.n_params * 5 > info.n_bytes);
    info.struct_size--;
    CHECK_STATUS(LK_E_ARG, lk_model_get_info(model, &info, &err));
    uint8_t digest[32];
    uint8_t again[32];
    REQUIRE_OK(lk_model_digest(model, 1, NULL, NULL, digest, &err), err);
    REQUIRE_OK(lk_model_digest(model, 2, NULL, NULL, again, &err), err);
    CHECK(memcmp(digest, again, sizeof digest) == 0);
    CHECK(lk_gguf_n_tensors(lk_model_gguf(model)) > 10);
    CHECK(lk_tokenizer_n_vocab(lk_model_tokenizer(model)) == 128);
    lk_model_close(model);
    REQUIRE_OK(lk_model_open(lk_test_data("models/tiny-q4_k_m.gguf"), NULL, &model, &err), err);
    info = LK_MODEL_INFO_INIT;
    REQUIRE_OK(lk_model_get_info(model, &info, &err), err);
    CHECK(strcmp(info.arch, "qwen3") == 0 && info.n_vocab == 4096 && info.n_layers == 4);
    CHECK(info.n_params == 4197120 && info.n_experts == 0 && info.n_ctx_train == 2048);
    lk_model_close(model);
}

LK_TEST(without_a_tokenizer) {
    const change c = {DROP_KEY, "tokenizer.ggml.model", 0, ""};
    lk_model *model = NULL;
    lk_error err;
    test_folder_make();
    file = test_folder_path(file_name[0]);
    rewrite(LLAMA, &c);
    REQUIRE_OK(lk_model_open(file, NULL, &model, &err), err);
    CHECK(lk_model_tokenizer(model) == NULL);
    lk_model_close(model);
    test_folder_remove(file_name);
}

/* The digest reads the file's bytes again after their pages were given back. */
LK_TEST(digest_after_repacking) {
    uint8_t digests[2][32];
    for (int i = 0; i < 2; i++) {
        lk_model *model = NULL;
        lk_error err;
        lk_model_params params = LK_MODEL_PARAMS_INIT;
        params.flags = i == 0 ? 0 : LK_MODEL_NO_REPACK;
        REQUIRE_OK(lk_model_open(lk_test_data("models/tiny-q4_k_m.gguf"), &params, &model, &err),
                   err);
        REQUIRE_OK(lk_model_digest(model, 1, NULL, NULL, digests[i], &err), err);
        lk_model_close(model);
    }
    CHECK(memcmp(digests[0], digests[1], sizeof digests[0]) == 0);
}

LK_TEST(arguments) {
    lk_model *model = NULL;
    lk_error err;
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    CHECK_STATUS(LK_E_ARG, lk_model_open(NULL, NULL, &model, &err));
    CHECK_STATUS(LK_E_ARG, lk_model_open(lk_test_data(LLAMA), NULL, NULL, &err));
    params.struct_size++;
    CHECK_STATUS(LK_E_ARG, lk_model_open(lk_test_data(LLAMA), &params, &model, &err));
    params = LK_MODEL_PARAMS_INIT;
    params.flags = 2;
    CHECK_STATUS(LK_E_ARG, lk_model_open(lk_test_data(LLAMA), &params, &model, &err));
    CHECK(strstr(err.message, "LK_MODEL_NO_REPACK") != NULL);
    params = LK_MODEL_PARAMS_INIT;
    params.n_threads = 100000;
    CHECK_STATUS(LK_E_LIMIT,
                 lk_model_open(lk_test_data("models/tiny-q4_k_m.gguf"), &params, &model, &err));
    CHECK_STATUS(LK_E_IO, lk_model_open(lk_test_data("archs/none.gguf"), NULL, &model, &err));
    CHECK(model == NULL);
    lk_model_close(NULL);
}

/* Counts the calls, and stops at call number `stop`. */
typedef struct progress {
    int n_calls;
    int stop;
} progress;

static int on_progress(void *ctx, const char *phase, uint64_t done, uint64_t total) {
    progress *p = ctx;
    CHECK((strcmp(phase, "load") == 0 || strcmp(phase, "repack") == 0) && done <= total);
    return ++p->n_calls != p->stop;
}

LK_TEST(progress_and_cancelling) {
    lk_model *model = NULL;
    lk_error err;
    progress p = {0, 0};
    lk_model_params params = LK_MODEL_PARAMS_INIT;
    params.progress = on_progress;
    params.progress_ctx = &p;
    REQUIRE_OK(lk_model_open(lk_test_data(LLAMA), &params, &model, &err), err);
    lk_model_close(model);
    const int n_calls = p.n_calls;
    CHECK(n_calls >= 2);
    for (int i = 1; i <= n_calls; i++) {
        p = (progress){0, i};
        CHECK_STATUS(LK_E_CANCELLED, lk_model_open(lk_test_data(LLAMA), &params, &model, &err));
        CHECK(model == NULL);
    }
}

LK_TEST(allocation_failures) {
    uint64_t n = 1;
    for (;; n++) {
        lk_test_allocator a;
        lk_test_allocator_init(&a);
        a.fail_at = n;
        lk_model_params params = LK_MODEL_PARAMS_INIT;
        params.allocator = &a.base;
        lk_model *model = NULL;
        lk_error err;
        const lk_status status = lk_model_open(lk_test_data(MOE), &params, &model, &err);
        CHECK(status == (a.n_failed != 0 ? LK_E_NOMEM : LK_OK));
        lk_model_close(model);
        CHECK(a.n_live == 0 && a.live_bytes == 0);
        if (status == LK_OK) {
            break;
        }
    }
    CHECK(n > 10);
}

LK_TEST_MAIN(LK_RUN(damaged_models), LK_RUN(info), LK_RUN(without_a_tokenizer), LK_RUN(arguments),
             LK_RUN(digest_after_repacking), LK_RUN(progress_and_cancelling),
             LK_RUN(allocation_failures))
