/* stablelm: LayerNorm and SwiGLU, rotation of the first dimensions of a head. The 12B model has a LayerNorm
 * for every head of q and k, and no ffn_norm: both branches then read the same norm and are added together.
 */
#include "model/decoder.h"

static const rdg_decoder stablelm = {
    .norm = RDG_NORM_LAYER,
    .attn_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .rope = RDG_ROPE_NEOX,
    .qk_norm = RDG_QK_NORM_EACH,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_SILU},
    .parallel_allowed = true,
};

static void build_stablelm(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &stablelm);
}

const rdg_arch rdg_arch_stablelm = {
    .name = "stablelm", .norm_eps_key = "attention.layer_norm_epsilon", .build = build_stablelm};
