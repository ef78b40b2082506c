/* glm4: norms around both branches, gate and up in one product, rotation of neighbouring pairs in the first
 * dimensions of a head (the checkpoints are made so: nothing is permuted). */
#include "model/decoder.h"

static const rdg_decoder glm4 = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .attn_post_norm = "post_attention_norm",
    .ffn_norm = "ffn_norm",
    .ffn_post_norm = "post_ffw_norm",
    .rope = RDG_ROPE_NORM,
    .ffn = RDG_FFN_GATED_FUSED,
    .act = {.act = RDG_ACT_SILU},
};

static void build_glm4(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &glm4);
}

const rdg_arch rdg_arch_glm4 = {
    .name = "glm4", .norm_eps_key = "attention.layer_norm_rms_epsilon", .build = build_glm4};
