/* mistral3.c - Mistral 3 (Ministral 3 and others): as llama, with YaRN whose magnitude has a factor
 * of its own, and queries that grow with the position beyond the original context. */
#include "model/arch/decoder.h"
#include "ops/math.h"

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    lk_loader_expect(loader, "expert_count", 0);
    lk_rope_params *rope = &hparams->rope;
    const double log_multiplier = lk_loader_float_or(loader, "rope.scaling.yarn_log_multiplier", 0);
    if (rope->scaling == LK_ROPE_SCALING_YARN && log_multiplier != 0.0) {
        rope->attn_factor /= 1.0 + 0.1 * log_multiplier * lk_log(rope->factor);
    }
    d.temperature = lk_loader_float_or(loader, "attention.temperature_scale", 0.0);
    d.temperature_step = (uint32_t)rope->original_context;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NORMAL);
    lk_decoder_build(&d);
}

const lk_arch lk_arch_mistral3 = {.name = "mistral3", .build = build};
