/* decoder.c - see decoder.h. */
#include "model/arch/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 1024, MAX_EXPERTS = 65536, MAX_NAME = 64 };

/* Returns whether the frequencies have factors for short and for long contexts. */
static bool read_rope(lk_loader *loader, lk_hparams *h) {
    lk_rope_params *rope = &h->rope;
    *rope = LK_ROPE_PARAMS_DEFAULT;
    rope->base = lk_loader_float_or(loader, "rope.freq_base", rope->base);
    char type[32];
    lk_loader_text(loader, "rope.scaling.type", type, sizeof type);
    const double legacy = lk_loader_float_or(loader, "rope.scale_linear", 1.0);
    rope->factor = lk_loader_float_or(loader, "rope.scaling.factor", legacy);
    rope->original_context =
        lk_loader_u32_or(loader, "rope.scaling.original_context_length", (uint32_t)h->n_ctx_train);
    rope->attn_factor = lk_loader_float_or(loader, "rope.scaling.attn_factor", 1.0);
    lk_loader_ignore(loader, "rope.scaling.finetuned");
    if (strcmp(type, "yarn") == 0) {
        rope->scaling = LK_ROPE_SCALING_YARN;
        rope->beta_fast = lk_loader_float_or(loader, "rope.scaling.yarn_beta_fast", 32.0);
        rope->beta_slow = lk_loader_float_or(loader, "rope.scaling.yarn_beta_slow", 1.0);
        lk_loader_expect(loader, "rope.scaling.yarn_ext_factor", 1);
    } else if (strcmp(type, "linear") == 0 || (type[0] == '\0' && rope->factor != 1.0)) {
        rope->scaling = LK_ROPE_SCALING_LINEAR;
    } else if (type[0] != '\0' && strcmp(type, "none") != 0 && strcmp(type, "longrope") != 0) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, "rope.scaling.type",
                       "rotary scaling \"%s\" (key %s) is not supported", type,
                       "rope.scaling.type");
    }
    return strcmp(type, "longrope") == 0;
}

static void read_heads(lk_loader *loader, lk_hparams *h) {
    h->n_heads = lk_loader_size(loader, "attention.head_count", 1u << 16);
    h->n_kv_heads = lk_loader_size_or(loader, "attention.head_count_kv", h->n_heads, h->n_heads);
    const uint32_t even_share = h->n_heads != 0 ? h->n_embd / h->n_heads : 0;
    h->head_dim = lk_loader_u32_or(loader, "attention.key_length", even_share);
    const uint32_t value_length = lk_loader_u32_or(loader, "attention.value_length", even_share);
    if (h->head_dim == 0 || h->head_dim % 8 != 0 || h->head_dim > LK_MAX_HEAD_DIM) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, "attention.key_length",
                       "head size %u (attention.key_length), expected a multiple of 8 up to %d",
                       h->head_dim, LK_MAX_HEAD_DIM);
    }
    if (value_length != h->head_dim) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, "attention.value_length",
                       "value heads of %u beside key heads of %u (attention.value_length) are not "
                       "supported",
                       value_length, h->head_dim);
    }
    h->n_rot = lk_loader_size_or(loader, "rope.dimension_count", h->head_dim, h->head_dim);
}

/* How the file's maker pools hidden states; other kinds than these need tensors that nothing here
 * knows. */
static void read_pooling(lk_loader *loader, lk_hparams *h) {
    const uint32_t pooling = lk_loader_u32_or(loader, "pooling_type", LK_POOLING_NONE);
    if (pooling > LK_POOLING_LAST) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, "pooling_type",
                       "pooling %u (pooling_type) is not supported, expected 0 (none), 1 (mean), 2 "
                       "(first token) or 3 (last token)",
                       pooling);
        return;
    }
    h->pooling = (lk_pooling)pooling;
}

static bool read_hparams(lk_loader *loader, lk_hparams *h) {
    h->n_layers = lk_loader_size(loader, "block_count", MAX_LAYERS);
    h->n_embd = lk_loader_size(loader, "embedding_length", 1u << 20);
    h->n_ctx_train = lk_loader_size(loader, "context_length", INT32_MAX);
    h->rms_eps = (float)lk_loader_float(loader, "attention.layer_norm_rms_epsilon");
    if (!(h->rms_eps >= 0.0f && h->rms_eps < 1.0f)) {
        lk_loader_fail(loader, LK_E_FORMAT, "attention.layer_norm_rms_epsilon",
                       "key attention.layer_norm_rms_epsilon is %g, expected 0 .. 1",
                       (double)h->rms_eps);
    }
    read_heads(loader, h);
    read_pooling(loader, h);
    const bool is_long_rope = read_rope(loader, h);
    lk_loader_ignore(loader, "vocab_size"); /* the embedding's rows are the truth */
    lk_loader_ignore(loader, "tensor_data_layout");
    lk_loader_expect(loader, "attention.causal", 1);
    return is_long_rope;
}

lk_decoder lk_decoder_begin(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    const bool is_long_rope = read_hparams(loader, hparams);
    const double head_dim = hparams->head_dim != 0 ? (double)hparams->head_dim : 1.0;
    return (lk_decoder){.loader = loader,
                        .graph = graph,
                        .hparams = hparams,
                        .i_rope = LK_DECODER_NO_ROPE,
                        .is_long_rope = is_long_rope,
                        .activation = LK_NODE_SILU_MUL,
                        .attention_scale = 1.0 / sqrt(head_dim),
                        .embedding_scale = 1.0,
                        .residual_scale = 1.0,
                        .logit_scale = 1.0};
}

void lk_decoder_read_ffn(lk_decoder *d) {
    d->hparams->n_ff = lk_loader_size(d->loader, "feed_forward_length", INT32_MAX / 2);
}

uint32_t lk_decoder_add_rope(lk_decoder *d, lk_rope_order order) {
    const lk_rope_params *rope = &d->hparams->rope;
    if (d->is_long_rope && !d->takes_long_rope) {
        lk_loader_fail(d->loader, LK_E_UNSUPPORTED, "rope.scaling.type",
                       "rotary scaling \"longrope\" (key rope.scaling.type) is not supported for "
                       "this architecture");
    }
    if (rope->scaling != LK_ROPE_SCALING_YARN && rope->attn_factor != 1.0 && !d->takes_long_rope) {
        lk_loader_fail(d->loader, LK_E_UNSUPPORTED, "rope.scaling.attn_factor",
                       "key rope.scaling.attn_factor is %g, expected 1 without YaRN scaling",
                       rope->attn_factor);
    }
    d->i_rope = lk_graph_add_rope(d->graph, &d->hparams->rope, order, d->hparams->n_rot);
    return d->i_rope;
}

const float *lk_decoder_rope_factors(lk_decoder *d, const char *name) {
    const lk_weight *w =
        lk_loader_weight_or_null(d->loader, name, -1, LK_VECTOR(d->hparams->n_rot / 2));
    if (w == NULL) {
        return NULL;
    }
    if (w->format->type != LK_FORMAT_F32) {
        lk_loader_fail(d->loader, LK_E_UNSUPPORTED, w->name,
                       "tensor %s has format %s, expected F32", w->name, w->format->name);
        return NULL;
    }
    return (const float *)(const void *)w->data;
}

lk_decoder_windows lk_decoder_read_windows(lk_decoder *d, uint32_t pattern) {
    lk_decoder_windows w = {0};
    w.window = lk_loader_u32_or(d->loader, "attention.sliding_window", 0);
    w.pattern = lk_loader_u32_or(d->loader, "attention.sliding_window_pattern", pattern);
    return w;
}

uint32_t lk_decoder_window(const lk_decoder_windows *windows, uint32_t layer) {
    return windows->pattern != 0 && (layer + 1) % windows->pattern == 0 ? 0 : windows->window;
}

lk_value lk_decoder_embed(lk_decoder *d) {
    lk_graph_set_layer(d->graph, -1);
    d->embedding =
        lk_loader_weight(d->loader, "token_embd.weight", -1, LK_MATRIX(d->hparams->n_embd, 0));
    const lk_value x = lk_graph_embed(d->graph, d->embedding);
    d->hparams->n_vocab = d->graph->n_vocab;
    return lk_graph_scale(d->graph, x, d->embedding_scale);
}

lk_value lk_decoder_project(lk_decoder *d, lk_value x, const char *name, uint32_t layer,
                            uint32_t n_in, uint32_t n_out) {
    return lk_graph_matmul(
        d->graph, x, lk_loader_weight(d->loader, name, (int32_t)layer, LK_MATRIX(n_in, n_out)));
}

static lk_value add_bias(lk_decoder *d, lk_value x, const char *name, uint32_t layer, uint32_t n,
                         lk_decoder_bias bias) {
    const lk_weight *b = NULL;
    if (bias == LK_DECODER_BIAS_REQUIRED) {
        b = lk_loader_weight(d->loader, name, (int32_t)layer, LK_VECTOR(n));
    } else if (bias == LK_DECODER_BIAS_OPTIONAL) {
        b = lk_loader_weight_or_null(d->loader, name, (int32_t)layer, LK_VECTOR(n));
    }
    return lk_graph_bias(d->graph, x, b);
}

/* A norm over groups of n elements. */
static lk_value norm(lk_decoder *d, lk_value x, const char *name, int32_t layer, uint32_t n) {
    return lk_graph_rms_norm(d->graph, x, lk_loader_weight(d->loader, name, layer, LK_VECTOR(n)),
                             d->hparams->rms_eps, n);
}

lk_value lk_decoder_norm(lk_decoder *d, lk_value x, const char *name, int32_t layer) {
    return norm(d, x, name, layer, d->hparams->n_embd);
}

/* x + residual_scale * what a block gives, after its norm. */
static lk_value add_block(lk_decoder *d, lk_value x, lk_value y, const char *after,
                          uint32_t layer) {
    if (d->norms != LK_DECODER_NORMS_BEFORE) {
        y = lk_decoder_norm(d, y, after, (int32_t)layer);
    }
    return lk_graph_add(d->graph, x, lk_graph_scale(d->graph, y, d->residual_scale));
}

typedef struct qkv {
    lk_value q;
    lk_value k;
    lk_value v;
} qkv;

/* Rows [*first, *first + n) of a fused matrix times x. */
static lk_value project_rows(lk_decoder *d, lk_value x, const lk_weight *fused, uint32_t *first,
                             uint32_t n) {
    const lk_weight *w = lk_graph_weight_rows(d->graph, fused, *first, n);
    *first += n;
    return lk_graph_matmul(d->graph, x, w);
}

static qkv project_heads(lk_decoder *d, lk_value in, uint32_t layer, uint32_t n_q, uint32_t n_kv) {
    const uint32_t n_embd = d->hparams->n_embd;
    qkv h;
    if (d->fused_qkv) {
        uint32_t first = 0;
        const lk_weight *w = lk_loader_weight(d->loader, "attn_qkv.weight", (int32_t)layer,
                                              LK_MATRIX(n_embd, n_q + 2 * n_kv));
        h.q = project_rows(d, in, w, &first, n_q);
        h.k = project_rows(d, in, w, &first, n_kv);
        h.v = project_rows(d, in, w, &first, n_kv);
        return h;
    }
    h.q = lk_decoder_project(d, in, "attn_q.weight", layer, n_embd, n_q);
    h.k = lk_decoder_project(d, in, "attn_k.weight", layer, n_embd, n_kv);
    h.v = lk_decoder_project(d, in, "attn_v.weight", layer, n_embd, n_kv);
    h.q = add_bias(d, h.q, "attn_q.bias", layer, n_q, d->qkv_bias);
    h.k = add_bias(d, h.k, "attn_k.bias", layer, n_kv, d->qkv_bias);
    h.v = add_bias(d, h.v, "attn_v.bias", layer, n_kv, d->qkv_bias);
    return h;
}

/* Norms, rotation and temperature. */
static void turn_heads(lk_decoder *d, qkv *heads, uint32_t layer, uint32_t n_q, uint32_t n_kv) {
    const lk_hparams *h = d->hparams;
    if (d->qk_norm != LK_DECODER_QK_NORM_NONE) {
        const bool whole = d->qk_norm == LK_DECODER_QK_NORM_VECTOR;
        heads->q =
            norm(d, heads->q, "attn_q_norm.weight", (int32_t)layer, whole ? n_q : h->head_dim);
        heads->k =
            norm(d, heads->k, "attn_k_norm.weight", (int32_t)layer, whole ? n_kv : h->head_dim);
    }
    if (d->i_rope != LK_DECODER_NO_ROPE) {
        heads->q = lk_graph_rope(d->graph, heads->q, h->n_heads, h->head_dim, d->i_rope);
        heads->k = lk_graph_rope(d->graph, heads->k, h->n_kv_heads, h->head_dim, d->i_rope);
    }
    if (d->temperature != 0.0) {
        heads->q = lk_graph_temperature(d->graph, heads->q, d->temperature, d->temperature_step);
    }
}

lk_value lk_decoder_attend(lk_decoder *d, lk_value x, uint32_t layer) {
    const lk_hparams *h = d->hparams;
    const uint32_t n_q = h->n_heads * h->head_dim;
    const uint32_t n_kv = h->n_kv_heads * h->head_dim;
    lk_graph_set_layer(d->graph, (int32_t)layer);
    const lk_value in = d->norms == LK_DECODER_NORMS_AFTER
                            ? x
                            : lk_decoder_norm(d, x, "attn_norm.weight", (int32_t)layer);
    qkv heads = project_heads(d, in, layer, n_q, n_kv);
    turn_heads(d, &heads, layer, n_q, n_kv);
    lk_attention attention = {.n_heads = h->n_heads,
                              .n_kv_heads = h->n_kv_heads,
                              .head_dim = h->head_dim,
                              .scale = (float)d->attention_scale,
                              .window = d->window,
                              .soft_cap = (float)d->attention_softcap};
    if (d->sinks) {
        attention.sinks =
            lk_loader_weight(d->loader, "attn_sinks.weight", (int32_t)layer, LK_VECTOR(h->n_heads));
    }
    lk_value o = lk_graph_attention(d->graph, heads.q, heads.k, heads.v, &attention);
    if (layer + 1 == h->n_layers) {
        o = lk_graph_select_out(d->graph, o);
        x = lk_graph_select_out(d->graph, x);
    }
    o = lk_decoder_project(d, o, "attn_output.weight", layer, n_q, h->n_embd);
    o = add_bias(d, o, "attn_output.bias", layer, h->n_embd, d->output_bias);
    return add_block(d, x, o, "post_attention_norm.weight", layer);
}

lk_value lk_decoder_ffn_in(lk_decoder *d, lk_value x, uint32_t layer) {
    const char *name = d->ffn_norm != NULL ? d->ffn_norm : "ffn_norm.weight";
    return d->norms == LK_DECODER_NORMS_AFTER ? x : lk_decoder_norm(d, x, name, (int32_t)layer);
}

lk_value lk_decoder_ffn_out(lk_decoder *d, lk_value x, lk_value y, uint32_t layer) {
    return add_block(d, x, y, "post_ffw_norm.weight", layer);
}

lk_value lk_decoder_gated(lk_decoder *d, lk_value in, uint32_t layer, const char *suffix,
                          uint32_t n_ff) {
    const uint32_t n_embd = d->hparams->n_embd;
    char name[MAX_NAME];
    lk_value gate;
    lk_value up;
    if (d->fused_ffn) {
        uint32_t first = 0;
        (void)snprintf(name, sizeof name, "ffn_up%s.weight", suffix);
        const lk_weight *w =
            lk_loader_weight(d->loader, name, (int32_t)layer, LK_MATRIX(n_embd, 2 * n_ff));
        gate = project_rows(d, in, w, &first, n_ff);
        up = project_rows(d, in, w, &first, n_ff);
    } else {
        (void)snprintf(name, sizeof name, "ffn_gate%s.weight", suffix);
        gate = lk_decoder_project(d, in, name, layer, n_embd, n_ff);
        (void)snprintf(name, sizeof name, "ffn_up%s.weight", suffix);
        up = lk_decoder_project(d, in, name, layer, n_embd, n_ff);
    }
    const lk_value hidden = lk_graph_gated(d->graph, d->activation, gate, up);
    (void)snprintf(name, sizeof name, "ffn_down%s.weight", suffix);
    return lk_decoder_project(d, hidden, name, layer, n_ff, n_embd);
}

lk_value lk_decoder_feed(lk_decoder *d, lk_value x, uint32_t layer) {
    const lk_value in = lk_decoder_ffn_in(d, x, layer);
    return lk_decoder_ffn_out(d, x, lk_decoder_gated(d, in, layer, "", d->hparams->n_ff), layer);
}

void lk_decoder_finish(lk_decoder *d, lk_value x) {
    const lk_hparams *h = d->hparams;
    lk_graph_set_layer(d->graph, -1);
    x = lk_decoder_norm(d, x, "output_norm.weight", -1);
    x = lk_graph_select_logits(d->graph, x);
    const lk_weight *output =
        lk_loader_weight_or_null(d->loader, "output.weight", -1, LK_MATRIX(h->n_embd, h->n_vocab));
    x = lk_graph_matmul(d->graph, x, output != NULL ? output : d->embedding);
    x = lk_graph_scale(d->graph, x, d->logit_scale);
    d->graph->logits = lk_graph_softcap(d->graph, x, d->logit_softcap);
    lk_loader_expect(d->loader, "attention.sliding_window", 0); /* where nobody has read it */
}

void lk_decoder_build(lk_decoder *d) {
    lk_value x = lk_decoder_embed(d);
    for (uint32_t layer = 0; layer < d->hparams->n_layers; layer++) {
        x = lk_decoder_attend(d, x, layer);
        x = lk_decoder_feed(d, x, layer);
    }
    lk_decoder_finish(d, x);
}

void lk_decoder_read_moe(lk_decoder *d, lk_decoder_moe *moe) {
    lk_hparams *h = d->hparams;
    h->n_experts = lk_loader_size(d->loader, "expert_count", MAX_EXPERTS);
    h->n_experts_used = lk_loader_size(d->loader, "expert_used_count", MAX_EXPERTS);
    h->n_ff_expert = lk_loader_size(d->loader, "expert_feed_forward_length", INT32_MAX);
    lk_loader_ignore(d->loader, "feed_forward_length");   /* of dense layers: there are none */
    lk_loader_expect(d->loader, "expert_gating_func", 1); /* softmax */
    lk_loader_expect(d->loader, "expert_weights_scale", 1);
    moe->normalise = lk_loader_u32_or(d->loader, "expert_weights_norm", moe->normalise) != 0;
}

lk_value lk_decoder_experts(lk_decoder *d, lk_value in, uint32_t layer, const lk_decoder_moe *moe) {
    const lk_hparams *h = d->hparams;
    const int32_t i = (int32_t)layer;
    const lk_tensor_shape wide = LK_EXPERTS(h->n_embd, h->n_ff_expert, h->n_experts);
    const lk_tensor_shape narrow = LK_EXPERTS(h->n_ff_expert, h->n_embd, h->n_experts);
    const lk_decoder_bias bias = moe->biases ? LK_DECODER_BIAS_REQUIRED : LK_DECODER_BIAS_NONE;
    lk_value logits =
        lk_decoder_project(d, in, "ffn_gate_inp.weight", layer, h->n_embd, h->n_experts);
    logits = add_bias(d, logits, "ffn_gate_inp.bias", layer, h->n_experts, bias);
    lk_moe m = {.n_used = h->n_experts_used,
                .normalise = moe->normalise,
                .activation = moe->activation,
                .gate = lk_loader_weight(d->loader, "ffn_gate_exps.weight", i, wide),
                .up = lk_loader_weight(d->loader, "ffn_up_exps.weight", i, wide),
                .down = lk_loader_weight(d->loader, "ffn_down_exps.weight", i, narrow)};
    if (moe->biases) {
        const lk_tensor_shape inner = LK_MATRIX(h->n_ff_expert, h->n_experts);
        m.gate_bias = lk_loader_weight(d->loader, "ffn_gate_exps.bias", i, inner);
        m.up_bias = lk_loader_weight(d->loader, "ffn_up_exps.bias", i, inner);
        m.down_bias = lk_loader_weight(d->loader, "ffn_down_exps.bias", i,
                                       LK_MATRIX(h->n_embd, h->n_experts));
    }
    return lk_graph_moe(d->graph, in, logits, &m);
}
