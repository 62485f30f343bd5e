/* phi3.c - Phi 3, 3.5 and 4: query, key and value in one matrix, gate and up in another; rotary
 * over a part of the head. Frequency factors for long contexts are used where the model was trained
 * for more than its original context, whatever the length at hand: the key of a token must not
 * depend on tokens that come later. */
#include "model/arch/decoder.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    d.fused_qkv = true;
    d.fused_ffn = true;
    d.takes_long_rope = true;
    const lk_decoder_windows windows = lk_decoder_read_windows(&d, 0);
    d.window = windows.window < hparams->n_ctx_train ? windows.window : 0;
    const float *far = lk_decoder_rope_factors(&d, "rope_factors_long.weight");
    const float *near = lk_decoder_rope_factors(&d, "rope_factors_short.weight");
    const bool is_far = (double)hparams->n_ctx_train > hparams->rope.original_context;
    hparams->rope.factors = is_far ? far : near;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_decoder_build(&d);
}

const lk_arch lk_arch_phi3 = {.name = "phi3", .build = build};
