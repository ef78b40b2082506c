/* gpt-oss: experts with a clamped activation, attention sinks, a window on every even layer. Its
 * post_attention_norm is, despite the name, the norm in front of the FFN. */
#include "model/decoder.h"

static const rdg_decoder gpt_oss = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .ffn_norm = "post_attention_norm",
    .rope = RDG_ROPE_NEOX,
    .sinks = true,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_SWIGLU_OAI, .alpha = 1.702f, .limit = 7.0f},
    .route = RDG_ROUTE_TOPK_SOFTMAX,
};

static void build_gpt_oss(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &gpt_oss);
}

const rdg_arch rdg_arch_gpt_oss = {
    .name = "gpt-oss",
    .norm_eps_key = "attention.layer_norm_rms_epsilon",
    .window_period = 2,
    .yarn_exact = true,
    .build = build_gpt_oss,
};
