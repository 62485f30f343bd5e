/* decoder.c - see decoder.h. */
#include "model/arch/decoder.h"

#include <math.h>
#include <string.h>

enum { MAX_LAYERS = 1024 };

static void read_rope(lk_loader *loader, lk_hparams *h) {
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
    } else if (type[0] != '\0' && strcmp(type, "none") != 0) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, "rope.scaling.type",
                       "rotary scaling \"%s\" (key %s) is not supported", type,
                       "rope.scaling.type");
    }
    if (rope->scaling != LK_ROPE_SCALING_YARN && rope->attn_factor != 1.0) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, "rope.scaling.attn_factor",
                       "key rope.scaling.attn_factor is %g, expected 1 without YaRN scaling",
                       rope->attn_factor);
    }
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

void lk_decoder_read_hparams(lk_loader *loader, lk_hparams *h) {
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
    read_rope(loader, h);
    lk_loader_ignore(loader, "vocab_size"); /* the embedding's rows are the truth */
    lk_loader_ignore(loader, "tensor_data_layout");
    lk_loader_ignore(loader, "pooling_type");
    lk_loader_expect(loader, "attention.causal", 1);
    lk_loader_expect(loader, "attention.sliding_window", 0);
}

void lk_decoder_add_rope(lk_decoder *d, lk_rope_order order) {
    d->i_rope = lk_graph_add_rope(d->graph, &d->hparams->rope, order, d->hparams->n_rot);
}

lk_value lk_decoder_embed(lk_decoder *d, lk_hparams *h) {
    lk_graph_set_layer(d->graph, -1);
    d->embedding = lk_loader_weight(d->loader, "token_embd.weight", -1, LK_MATRIX(h->n_embd, 0));
    const lk_value x = lk_graph_embed(d->graph, d->embedding);
    h->n_vocab = d->graph->n_vocab;
    return x;
}

/* x times blk.<layer>.<name>.weight [n_in, n_out]. */
static lk_value project(lk_decoder *d, lk_value x, const char *name, uint32_t layer, uint32_t n_in,
                        uint32_t n_out) {
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

static lk_value norm(lk_decoder *d, lk_value x, const char *name, int32_t layer, uint32_t n) {
    return lk_graph_rms_norm(d->graph, x, lk_loader_weight(d->loader, name, layer, LK_VECTOR(n)),
                             d->hparams->rms_eps, n);
}

lk_value lk_decoder_attend(lk_decoder *d, lk_value x, uint32_t layer) {
    const lk_hparams *h = d->hparams;
    const uint32_t n_q = h->n_heads * h->head_dim;
    const uint32_t n_kv = h->n_kv_heads * h->head_dim;
    lk_graph_set_layer(d->graph, (int32_t)layer);
    const lk_value in = norm(d, x, "attn_norm.weight", (int32_t)layer, h->n_embd);
    lk_value q = project(d, in, "attn_q.weight", layer, h->n_embd, n_q);
    lk_value k = project(d, in, "attn_k.weight", layer, h->n_embd, n_kv);
    lk_value v = project(d, in, "attn_v.weight", layer, h->n_embd, n_kv);
    q = add_bias(d, q, "attn_q.bias", layer, n_q, d->qkv_bias);
    k = add_bias(d, k, "attn_k.bias", layer, n_kv, d->qkv_bias);
    v = add_bias(d, v, "attn_v.bias", layer, n_kv, d->qkv_bias);
    if (d->qk_norm) {
        q = norm(d, q, "attn_q_norm.weight", (int32_t)layer, h->head_dim);
        k = norm(d, k, "attn_k_norm.weight", (int32_t)layer, h->head_dim);
    }
    q = lk_graph_rope(d->graph, q, h->n_heads, h->head_dim, d->i_rope);
    k = lk_graph_rope(d->graph, k, h->n_kv_heads, h->head_dim, d->i_rope);
    const lk_attention attention = {.n_heads = h->n_heads,
                                    .n_kv_heads = h->n_kv_heads,
                                    .head_dim = h->head_dim,
                                    .scale = (float)(1.0 / sqrt((double)h->head_dim))};
    lk_value o = lk_graph_attention(d->graph, q, k, v, &attention);
    if (layer + 1 == h->n_layers) {
        o = lk_graph_select_out(d->graph, o);
        x = lk_graph_select_out(d->graph, x);
    }
    o = project(d, o, "attn_output.weight", layer, n_q, h->n_embd);
    o = add_bias(d, o, "attn_output.bias", layer, h->n_embd, d->output_bias);
    return lk_graph_add(d->graph, x, o);
}

lk_value lk_decoder_ffn_norm(lk_decoder *d, lk_value x, uint32_t layer) {
    return norm(d, x, "ffn_norm.weight", (int32_t)layer, d->hparams->n_embd);
}

lk_value lk_decoder_swiglu(lk_decoder *d, lk_value in, uint32_t layer) {
    const lk_hparams *h = d->hparams;
    const lk_value gate = project(d, in, "ffn_gate.weight", layer, h->n_embd, h->n_ff);
    const lk_value up = project(d, in, "ffn_up.weight", layer, h->n_embd, h->n_ff);
    const lk_value hidden = lk_graph_silu_mul(d->graph, gate, up);
    return project(d, hidden, "ffn_down.weight", layer, h->n_ff, h->n_embd);
}

void lk_decoder_finish(lk_decoder *d, lk_value x) {
    const lk_hparams *h = d->hparams;
    lk_graph_set_layer(d->graph, -1);
    x = norm(d, x, "output_norm.weight", -1, h->n_embd);
    const lk_weight *output =
        lk_loader_weight_or_null(d->loader, "output.weight", -1, LK_MATRIX(h->n_embd, h->n_vocab));
    d->graph->logits = lk_graph_matmul(d->graph, x, output != NULL ? output : d->embedding);
}
