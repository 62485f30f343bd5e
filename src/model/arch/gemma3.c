/* gemma3.c - Gemma 3, text: as gemma2 without the caps on scores, with a norm of every query and
 * key head; five of six layers have sliding windows and a rotary base of their own, not scaled. */
#include <math.h>

#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    enum { LAYERS_OF_27B = 62 };
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.norms = LK_DECODER_NORMS_BOTH;
    d.qk_norm = LK_DECODER_QK_NORM_HEADS;
    d.activation = LK_NODE_GELU_MUL;
    d.embedding_scale = (double)(float)sqrt((double)hparams->n_embd);
    d.logit_softcap = lk_loader_float_or(loader, "final_logit_softcapping", 0.0);
    if (hparams->n_layers == LAYERS_OF_27B) { /* the file does not say: that one differs */
        d.attention_scale = 1.0 / sqrt((double)hparams->n_embd / hparams->n_heads);
    }
    const lk_decoder_windows windows = lk_decoder_read_windows(&d, 6);
    const uint32_t far = lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    hparams->rope = LK_ROPE_PARAMS_DEFAULT;
    hparams->rope.base = lk_loader_float_or(loader, "rope.freq_base_swa", 10000.0);
    const uint32_t near = lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_value x = lk_decoder_embed(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        d.window = lk_decoder_window(&windows, layer);
        d.i_rope = d.window != 0 ? near : far;
        x = lk_decoder_attend(&d, x, layer);
        x = lk_decoder_feed(&d, x, layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_gemma3 = {.name = "gemma3", .build = build};
