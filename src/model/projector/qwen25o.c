/* qwen25o.c - the audio encoder of Qwen 2.5 Omni: two convolutions over log-mel frames (the second
 * halves their number), sinusoidal positions, pre-norm layers with attention among the rows of a
 * window of 200 frames, the mean of two rows, a norm and a matrix into the text model's width.
 *
 * As the model's own code computes it: windows do not see each other, the convolutions have zeros
 * at a window's edges, and positions begin again in each. */
#include <math.h>
#include <stdio.h>

#include "model/projector.h"

enum { WINDOW_FRAMES = 200, N_TAPS = 3, MAX_LAYERS = 1024, MAX_NAME = 64 };

typedef struct encoder {
    lk_loader *loader;
    lk_graph *graph;
    const lk_hparams *hparams;
    float eps;
} encoder;

static const lk_weight *weight(const encoder *e, int32_t layer, const char *name,
                               lk_tensor_shape shape) {
    char full[MAX_NAME + 24];
    if (layer >= 0) {
        (void)snprintf(full, sizeof full, "a.blk.%d.%s", layer, name);
    } else {
        (void)snprintf(full, sizeof full, "%s", name);
    }
    return lk_loader_weight(e->loader, full, -1, shape);
}

/* x times <name>.weight [n_in, n_out]. */
static lk_value project(const encoder *e, lk_value x, int32_t layer, const char *name,
                        uint32_t n_in, uint32_t n_out) {
    char full[MAX_NAME];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    return lk_graph_matmul(e->graph, x, weight(e, layer, full, LK_MATRIX(n_in, n_out)));
}

static lk_value add_bias(const encoder *e, lk_value x, int32_t layer, const char *name,
                         uint32_t n) {
    char full[MAX_NAME];
    (void)snprintf(full, sizeof full, "%s.bias", name);
    return lk_graph_bias(e->graph, x, weight(e, layer, full, LK_VECTOR(n)));
}

static lk_value norm(const encoder *e, lk_value x, int32_t layer, const char *name) {
    const uint32_t n = e->hparams->n_embd;
    char full[MAX_NAME];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    const lk_weight *w = weight(e, layer, full, LK_VECTOR(n));
    (void)snprintf(full, sizeof full, "%s.bias", name);
    return lk_graph_layer_norm(e->graph, x, w, weight(e, layer, full, LK_VECTOR(n)), e->eps);
}

/* Files have kernels as [tap, in, out] and biases as [1, out]. */
static lk_value convolve(const encoder *e, lk_value x, const char *name, uint32_t n_in,
                         uint32_t stride) {
    const uint32_t n_out = e->hparams->n_embd;
    char full[MAX_NAME];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    const lk_weight *w = weight(e, -1, full, LK_EXPERTS(N_TAPS, n_in, n_out));
    (void)snprintf(full, sizeof full, "%s.bias", name);
    const lk_weight *b = weight(e, -1, full, LK_MATRIX(1, n_out));
    w = lk_graph_weight_shape(e->graph, w, (uint64_t)N_TAPS * n_in, n_out);
    b = lk_graph_weight_shape(e->graph, b, n_out, 0);
    x = lk_graph_neighbours(e->graph, x, N_TAPS, stride);
    x = lk_graph_bias(e->graph, lk_graph_matmul(e->graph, x, w), b);
    return lk_graph_gelu_erf(e->graph, x);
}

static lk_value attend(const encoder *e, lk_value x, int32_t layer) {
    const lk_hparams *h = e->hparams;
    const uint32_t n = h->n_embd;
    const lk_value in = norm(e, x, layer, "ln1");
    lk_value q = project(e, in, layer, "attn_q", n, n);
    const lk_value k = project(e, in, layer, "attn_k", n, n);
    lk_value v = project(e, in, layer, "attn_v", n, n);
    q = add_bias(e, q, layer, "attn_q", n);
    v = add_bias(e, v, layer, "attn_v", n);
    const lk_attention attention = {.n_heads = h->n_heads,
                                    .n_kv_heads = h->n_heads,
                                    .head_dim = h->head_dim,
                                    .scale = (float)(1.0 / sqrt((double)h->head_dim))};
    lk_value o = lk_graph_run_attention(e->graph, q, k, v, &attention);
    o = add_bias(e, project(e, o, layer, "attn_out", n, n), layer, "attn_out", n);
    return lk_graph_add(e->graph, x, o);
}

static lk_value feed(const encoder *e, lk_value x, int32_t layer) {
    const uint32_t n = e->hparams->n_embd;
    const uint32_t n_ff = e->hparams->n_ff;
    lk_value y = norm(e, x, layer, "ln2");
    y = add_bias(e, project(e, y, layer, "ffn_up", n, n_ff), layer, "ffn_up", n_ff);
    y = lk_graph_gelu_erf(e->graph, y);
    y = add_bias(e, project(e, y, layer, "ffn_down", n_ff, n), layer, "ffn_down", n);
    return lk_graph_add(e->graph, x, y);
}

/* What belongs to a vision encoder in the same file. */
static void leave_vision(lk_loader *loader) {
    static const char *const tensors[] = {"v.", "mm.0.", "mm.1.", "mm.2."};
    if (lk_loader_u32_or(loader, "has_vision_encoder", 0) == 0) {
        return;
    }
    lk_loader_ignore_all(loader, "vision.", NULL);
    lk_loader_ignore_all(loader, "use_", NULL);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        lk_loader_ignore_all(loader, NULL, tensors[i]);
    }
}

static void read_hparams(lk_loader *loader, lk_hparams *h) {
    lk_loader_expect(loader, "has_audio_encoder", 1);
    lk_loader_ignore(loader, "projector_type"); /* which brought us here */
    lk_loader_ignore(loader, "audio.projector_type");
    h->n_layers = lk_loader_size(loader, "audio.block_count", MAX_LAYERS);
    h->n_embd = lk_loader_size(loader, "audio.embedding_length", 1u << 16);
    h->n_ff = lk_loader_size(loader, "audio.feed_forward_length", 1u << 18);
    h->n_heads = lk_loader_size(loader, "audio.attention.head_count", 1u << 12);
    h->n_kv_heads = h->n_heads;
    h->head_dim = h->n_heads != 0 ? h->n_embd / h->n_heads : 0;
    if (h->head_dim == 0 || h->head_dim % 8 != 0 || h->head_dim > LK_MAX_HEAD_DIM ||
        h->head_dim * h->n_heads != h->n_embd) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, "audio.attention.head_count",
                       "%u heads share %u values (key clip.audio.attention.head_count), expected "
                       "heads of a multiple of 8 up to %d",
                       h->n_heads, h->n_embd, LK_MAX_HEAD_DIM);
    }
}

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *h) {
    read_hparams(loader, h);
    leave_vision(loader);
    const uint32_t n_mels = lk_loader_size(loader, "audio.num_mel_bins", 1u << 12);
    const uint32_t n_out = lk_loader_size(loader, "audio.projection_dim", 1u << 20);
    const encoder e = {.loader = loader,
                       .graph = graph,
                       .hparams = h,
                       .eps = (float)lk_loader_float(loader, "audio.attention.layer_norm_epsilon")};
    lk_value x = lk_graph_input(graph, n_mels, WINDOW_FRAMES);
    x = convolve(&e, x, "a.conv1d.1", n_mels, 1);
    x = convolve(&e, x, "a.conv1d.2", h->n_embd, 2);
    x = lk_graph_position(graph, x,
                          weight(&e, -1, "a.position_embd.weight", LK_MATRIX(h->n_embd, 0)));
    lk_graph_tap(graph, x, 0);
    for (uint32_t i = 0; i < h->n_layers; i++) {
        lk_graph_set_layer(graph, (int32_t)i);
        x = attend(&e, x, (int32_t)i);
        x = feed(&e, x, (int32_t)i);
        lk_graph_tap(graph, x, i + 1);
    }
    lk_graph_set_layer(graph, -1);
    x = norm(&e, lk_graph_mean_of_two(graph, x), -1, "a.post_ln");
    x = project(&e, x, -1, "mm.a.fc", h->n_embd, n_out);
    graph->logits = add_bias(&e, x, -1, "mm.a.fc", n_out);
}

const lk_arch lk_projector_qwen25o = {.name = "clip", .build = build};
