/* gemma2.c - Gemma 2: norms before and after each block, GELU, the embedding times sqrt(width),
 * soft caps on scores and logits, sliding windows in every other layer. */
#include <math.h>

#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    enum { LAYERS_OF_27B = 46, USUAL_WINDOW = 4096 };
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.norms = LK_DECODER_NORMS_BOTH;
    d.activation = LK_NODE_GELU_MUL;
    d.embedding_scale = (double)(float)sqrt((double)hparams->n_embd);
    d.attention_softcap = lk_loader_float_or(loader, "attn_logit_softcapping", 50.0);
    d.logit_softcap = lk_loader_float_or(loader, "final_logit_softcapping", 30.0);
    if (hparams->n_layers == LAYERS_OF_27B) { /* the file does not say: that one differs */
        d.attention_scale = 1.0 / sqrt((double)hparams->n_embd / hparams->n_heads);
    }
    lk_decoder_windows windows = lk_decoder_read_windows(&d, 2);
    windows.window = windows.window != 0 ? windows.window : USUAL_WINDOW;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_value x = lk_decoder_embed(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        d.window = lk_decoder_window(&windows, layer);
        x = lk_decoder_attend(&d, x, layer);
        x = lk_decoder_feed(&d, x, layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_gemma2 = {.name = "gemma2", .build = build};
