/* qwen2, qwen3 and their mixtures of experts. qwen2 has biases on q, k and v; qwen3 normalises each head of q
 * and k instead. qwen2moe keeps the router's probabilities as they are and has a shared expert; qwen3moe
 * renormalises. */
#include "model/decoder.h"

static const rdg_decoder qwen2 = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .rope = RDG_ROPE_NEOX,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_SILU},
    .route = RDG_ROUTE_SOFTMAX,
};
static const rdg_decoder qwen3 = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .rope = RDG_ROPE_NEOX,
    .qk_norm = RDG_QK_NORM_HEAD,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_SILU},
    .route = RDG_ROUTE_RENORMALISED,
};

static void build_qwen2(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &qwen2);
}

static void build_qwen3(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &qwen3);
}

/* Without its own key an expert's width is an even share of feed_forward_length, which then means the shared
 * expert. */
static void qwen2moe_hparams(rdg_keys *k, rdg_hparams *h)
{
    if (k->failed || rdg_key_find(k, "expert_feed_forward_length")) return;
    h->n_ff_expert = h->n_expert_used > 0 ? h->n_ff / h->n_expert_used : 0;
}

const rdg_arch rdg_arch_qwen2 = {
    .name = "qwen2", .norm_eps_key = "attention.layer_norm_rms_epsilon", .build = build_qwen2};
const rdg_arch rdg_arch_qwen2moe = {.name = "qwen2moe",
                                    .norm_eps_key = "attention.layer_norm_rms_epsilon",
                                    .hparams = qwen2moe_hparams,
                                    .build = build_qwen2};
const rdg_arch rdg_arch_qwen3 = {
    .name = "qwen3", .norm_eps_key = "attention.layer_norm_rms_epsilon", .build = build_qwen3};
const rdg_arch rdg_arch_qwen3moe = {
    .name = "qwen3moe", .norm_eps_key = "attention.layer_norm_rms_epsilon", .build = build_qwen3};
