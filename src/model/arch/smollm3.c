/* smollm3.c - SmolLM 3: as llama, but every fourth layer has no rotary embedding. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    const uint32_t i_rope = lk_decoder_add_rope(&d, LK_ROPE_NORMAL);
    lk_value x = lk_decoder_embed(&d);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        d.i_rope = (layer + 1) % 4 != 0 ? i_rope : LK_DECODER_NO_ROPE;
        x = lk_decoder_attend(&d, x, layer);
        x = lk_decoder_feed(&d, x, layer);
    }
    lk_decoder_finish(&d, x);
}

const lk_arch lk_arch_smollm3 = {.name = "smollm3", .build = build};
