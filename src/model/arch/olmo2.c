/* olmo2.c - OLMo 2 and 3: norms after the blocks instead of before them, one norm over all query
 * heads and one over all key heads. OLMo 3 has sliding windows in three of four layers, whose
 * rotary embedding is not scaled. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.norms = LK_DECODER_NORMS_AFTER;
    d.qk_norm = LK_DECODER_QK_NORM_VECTOR;
    const lk_decoder_windows windows = lk_decoder_read_windows(&d, 4);
    const uint32_t scaled = lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    uint32_t plain = scaled;
    if (windows.window != 0 && hparams->rope.scaling != LK_ROPE_SCALING_NONE) {
        const double base = hparams->rope.base;
        hparams->rope = LK_ROPE_PARAMS_DEFAULT;
        hparams->rope.base = base;
        plain = lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    }
    lk_value x = lk_decoder_embed(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        d.window = lk_decoder_window(&windows, layer);
        d.i_rope = d.window != 0 ? plain : scaled;
        x = lk_decoder_attend(&d, x, layer);
        x = lk_decoder_feed(&d, x, layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_olmo2 = {.name = "olmo2", .build = build};
