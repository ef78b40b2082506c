/* gpt2 and starcoder2: LayerNorm, and a feed-forward network without a gate. */
#include "model/decoder.h"

static const rdg_decoder gpt2 = {
    .norm = RDG_NORM_LAYER,
    .attn_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .learned_positions = true,
    .ffn = RDG_FFN_PLAIN,
    .act = {.act = RDG_ACT_GELU_TANH},
};
static const rdg_decoder starcoder2 = {
    .norm = RDG_NORM_LAYER,
    .attn_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .rope = RDG_ROPE_NEOX,
    .ffn = RDG_FFN_PLAIN,
    .act = {.act = RDG_ACT_GELU_TANH},
};

static void build_gpt2(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &gpt2);
}

static void build_starcoder2(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &starcoder2);
}

const rdg_arch rdg_arch_gpt2 = {
    .name = "gpt2", .norm_eps_key = "attention.layer_norm_epsilon", .build = build_gpt2};
const rdg_arch rdg_arch_starcoder2 = {
    .name = "starcoder2", .norm_eps_key = "attention.layer_norm_epsilon", .build = build_starcoder2};
