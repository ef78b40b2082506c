/* olmo2: no norm in front of a branch, one behind it; q and k are normalised over their whole width. */
#include "model/decoder.h"

static const rdg_decoder olmo2 = {
    .norm = RDG_NORM_RMS,
    .attn_post_norm = "post_attention_norm",
    .ffn_post_norm = "post_ffw_norm",
    .rope = RDG_ROPE_NEOX,
    .qk_norm = RDG_QK_NORM_WHOLE,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_SILU},
};

static void build_olmo2(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &olmo2);
}

const rdg_arch rdg_arch_olmo2 = {
    .name = "olmo2", .norm_eps_key = "attention.layer_norm_rms_epsilon", .build = build_olmo2};
