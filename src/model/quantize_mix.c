/* quantize_mix.c - see quantize_mix.h. The mixes are those that GGUF files with these names have
 * everywhere, so that sizes and quality are what users expect of "Q4_K_M". */
#include "model/quantize_mix.h"

#include <stdio.h>
#include <string.h>

#include "lk/quantize.h"
#include "quant/format.h"

typedef struct target {
    uint32_t type;
    uint32_t format; /* of most matrices */
    const char *name;
} target;

static const target targets[] = {
    {LK_QUANTIZE_Q4_0, LK_FORMAT_Q4_0, "Q4_0"},     {LK_QUANTIZE_Q4_K_M, LK_FORMAT_Q4_K, "Q4_K_M"},
    {LK_QUANTIZE_Q5_K_M, LK_FORMAT_Q5_K, "Q5_K_M"}, {LK_QUANTIZE_Q6_K, LK_FORMAT_Q6_K, "Q6_K"},
    {LK_QUANTIZE_Q8_0, LK_FORMAT_Q8_0, "Q8_0"},     {LK_QUANTIZE_F16, LK_FORMAT_F16, "F16"},
    {LK_QUANTIZE_BF16, LK_FORMAT_BF16, "BF16"},
};
enum { N_TARGETS = sizeof targets / sizeof targets[0] };

static const target *find_target(uint32_t type) {
    for (size_t i = 0; i < N_TARGETS; i++) {
        if (targets[i].type == type) {
            return &targets[i];
        }
    }
    return NULL;
}

const char *lk_quantize_type_name(uint32_t type) {
    const target *t = find_target(type);
    return t == NULL ? NULL : t->name;
}

const char *lk_quantize_type_at(uint32_t i) {
    return i < N_TARGETS ? targets[i].name : NULL;
}

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

int lk_quantize_find_type(const char *name, uint32_t *type) {
    *type = 0;
    for (size_t i = 0; name != NULL && i < N_TARGETS; i++) {
        const char *a = name;
        const char *b = targets[i].name;
        while (*a != '\0' && upper(*a) == *b) {
            a++;
            b++;
        }
        if (*a == '\0' && *b == '\0') {
            *type = targets[i].type;
            return 1;
        }
    }
    return 0;
}

/* An integer of the architecture, as "qwen3.expert_count"; -1 when there is none. */
static int64_t arch_int(const lk_gguf *gguf, const char *suffix) {
    lk_gguf_value arch;
    lk_gguf_value value;
    char key[256];
    if (lk_gguf_find(gguf, "general.architecture", &arch, NULL) != LK_OK ||
        arch.type != LK_GGUF_STRING || arch.n > 128) {
        return -1;
    }
    (void)snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, arch.str, suffix);
    if (lk_gguf_find(gguf, key, &value, NULL) != LK_OK || value.type == LK_GGUF_F32 ||
        value.type == LK_GGUF_F64 || value.type == LK_GGUF_STRING || value.type == LK_GGUF_ARRAY) {
        return -1;
    }
    return value.i;
}

/* The 12 of "blk.12.ffn_down.weight"; -1 for a tensor outside the layers. */
static int32_t layer_of(const char *name) {
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') {
        return -1;
    }
    int32_t layer = 0;
    const char *p = name + 4;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (layer > 99999) {
            return -1;
        }
        layer = 10 * layer + (*p - '0');
    }
    return *p == '.' ? layer : -1;
}

bool lk_quantize_mix_init(lk_quantize_mix *mix, const lk_gguf *gguf, uint32_t type) {
    memset(mix, 0, sizeof *mix);
    if (find_target(type) == NULL) {
        return false;
    }
    mix->type = type;
    mix->is_tied = true;
    for (uint64_t i = 0; i < lk_gguf_n_tensors(gguf); i++) {
        lk_gguf_tensor tensor;
        if (lk_gguf_tensor_at(gguf, i, &tensor, NULL) != LK_OK) {
            continue;
        }
        const int32_t layer = layer_of(tensor.name);
        mix->n_layers = layer >= mix->n_layers ? layer + 1 : mix->n_layers;
        mix->is_tied = mix->is_tied && strcmp(tensor.name, "output.weight") != 0;
    }
    const int64_t n_experts = arch_int(gguf, "expert_count");
    mix->n_experts = n_experts > 0 ? n_experts : 0;
    const int64_t n_heads = arch_int(gguf, "attention.head_count");
    const int64_t n_kv_heads = arch_int(gguf, "attention.head_count_kv");
    mix->is_70b = mix->n_layers == 80 && n_heads > 0 && n_kv_heads > 0 && n_kv_heads < n_heads &&
                  n_heads / 8 == n_kv_heads;
    return true;
}

static bool ends_with(const char *text, const char *ending) {
    const size_t n = strlen(text);
    const size_t n_ending = strlen(ending);
    return n >= n_ending && strcmp(text + n - n_ending, ending) == 0;
}

static bool contains(const char *text, const char *part) {
    return strstr(text, part) != NULL;
}

/* Matrices that are multiplied with, other than routers: those a few values of which decide much,
 * and vectors, are not worth the bytes. */
static bool is_rounded(const lk_gguf_tensor *tensor) {
    static const char *const kept[] = {"_norm.weight",       "ffn_gate_inp", "position_embd.weight",
                                       "token_types.weight", "ssm_conv1d",   "attn_rel_b.weight"};
    if (!ends_with(tensor->name, "weight") || tensor->ne[1] * tensor->ne[2] * tensor->ne[3] < 2) {
        return false;
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (contains(tensor->name, kept[i])) {
            return false;
        }
    }
    return true;
}

/* The first and last eighth of the layers, and every third one between. */
static bool is_sensitive_layer(int32_t layer, int32_t n_layers) {
    const int32_t eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

/* The target's format, or the one by which the mix differs from it for this tensor. */
static uint32_t mixed_format(const lk_quantize_mix *mix, const char *name) {
    const uint32_t format = find_target(mix->type)->format;
    const bool is_mix = mix->type == LK_QUANTIZE_Q4_K_M || mix->type == LK_QUANTIZE_Q5_K_M;
    if (format == LK_FORMAT_F16 || format == LK_FORMAT_BF16) {
        return format;
    }
    if (strcmp(name, "output.weight") == 0 ||
        (mix->is_tied && strcmp(name, "token_embd.weight") == 0)) {
        return format == LK_FORMAT_Q8_0 ? format : LK_FORMAT_Q6_K;
    }
    const bool is_value = contains(name, "attn_v.weight");
    if (mix->n_experts == 8) { /* attention is a small part of such a model */
        if (is_value || contains(name, "attn_k.weight")) {
            return LK_FORMAT_Q8_0;
        }
        if (mix->type == LK_QUANTIZE_Q4_K_M && contains(name, "attn_output.weight")) {
            return LK_FORMAT_Q5_K;
        }
    }
    if (is_mix && (is_value || contains(name, "ffn_down"))) {
        const int32_t layer = layer_of(name);
        if (layer >= 0 && is_sensitive_layer(layer, mix->n_layers)) {
            return LK_FORMAT_Q6_K;
        }
    }
    if (is_value && mix->is_70b && format == LK_FORMAT_Q4_K) {
        return LK_FORMAT_Q5_K;
    }
    if (is_mix && contains(name, "attn_qkv.weight")) {
        return format == LK_FORMAT_Q4_K ? LK_FORMAT_Q5_K : LK_FORMAT_Q6_K;
    }
    return format;
}

uint32_t lk_quantize_mix_format(const lk_quantize_mix *mix, const lk_gguf_tensor *tensor,
                                uint32_t *wanted) {
    static const uint32_t fallbacks[][2] = {{LK_FORMAT_Q4_K, LK_FORMAT_Q5_0},
                                            {LK_FORMAT_Q5_K, LK_FORMAT_Q5_1},
                                            {LK_FORMAT_Q6_K, LK_FORMAT_Q8_0}};
    *wanted = is_rounded(tensor) ? mixed_format(mix, tensor->name) : LK_FORMAT_F32;
    if (tensor->ne[0] % lk_format_find(*wanted)->block_elems == 0) {
        return *wanted;
    }
    uint32_t format = *wanted;
    for (size_t i = 0; i < sizeof fallbacks / sizeof fallbacks[0]; i++) {
        format = *wanted == fallbacks[i][0] ? fallbacks[i][1] : format;
    }
    return tensor->ne[0] % lk_format_find(format)->block_elems == 0 ? format : LK_FORMAT_F16;
}
