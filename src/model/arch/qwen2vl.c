/* qwen2vl.c - the text half of Qwen 2.5 Omni (and of Qwen 2 and 2.5 VL): Qwen 2 with a rotary
 * position of three components (time, height, width), each of which turns its section of the
 * frequencies. Text and audio have three equal components, one more for each token, so that the
 * sections make no difference and the rotation is the plain one. Pictures and videos, whose
 * components differ, are not computed: nothing in a context can express them. */
#include "model/arch/decoder.h"

enum { N_SECTIONS = 4 };

/* Every frequency must belong to one of the three components; a fourth one would stand still. */
static void check_sections(lk_loader *loader, const lk_hparams *hparams) {
    static const char key[] = "rope.dimension_sections";
    uint32_t sections[N_SECTIONS];
    lk_loader_u32s(loader, key, sections, N_SECTIONS);
    const uint64_t sum = (uint64_t)sections[0] + sections[1] + sections[2];
    if (sections[3] != 0 || sum != hparams->n_rot / 2) {
        lk_loader_fail(loader, LK_E_UNSUPPORTED, key,
                       "key qwen2vl.%s is [%u, %u, %u, %u], expected three sections of together %u "
                       "frequencies",
                       key, sections[0], sections[1], sections[2], sections[3], hparams->n_rot / 2);
    }
}

static void build(lk_loader *loader, lk_graph *graph, lk_hparams *hparams) {
    lk_decoder d = lk_decoder_begin(loader, graph, hparams);
    lk_decoder_read_ffn(&d);
    check_sections(loader, hparams);
    d.qkv_bias = LK_DECODER_BIAS_REQUIRED;
    (void)lk_decoder_add_rope(&d, LK_ROPE_NEOX);
    lk_decoder_build(&d);
}

const lk_arch lk_arch_qwen2vl = {.name = "qwen2vl", .build = build};
