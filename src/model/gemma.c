/* gemma2 and gemma3: norms around both branches, a scaled embedding, local and global layers. The converter
 * has added the 1 of gemma's norms to their weights. The scale of the scores is a matter of model size, not
 * of any field key. */
#include "model/decoder.h"

static const rdg_decoder gemma2 = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .attn_post_norm = "post_attention_norm",
    .ffn_norm = "ffn_norm",
    .ffn_post_norm = "post_ffw_norm",
    .rope = RDG_ROPE_NEOX,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_GELU_TANH},
};
static const rdg_decoder gemma3 = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .attn_post_norm = "post_attention_norm",
    .ffn_norm = "ffn_norm",
    .ffn_post_norm = "post_ffw_norm",
    .rope = RDG_ROPE_NEOX,
    .qk_norm = RDG_QK_NORM_HEAD,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_GELU_TANH},
};

static void build_gemma2(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &gemma2);
}

static void build_gemma3(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &gemma3);
}

/* The largest size of each generation, known by its number of layers, scales by the average head. */
static void gemma_common(rdg_hparams *h, int64_t n_layer_27b)
{
    h->embedding_scale = sqrtf((float)h->n_embd);
    if (h->attention_scale == 0 && h->n_layer == n_layer_27b)
        h->attention_scale = (float)(1.0 / sqrt((double)h->n_embd / (double)h->n_head));
}

static void gemma2_hparams(rdg_keys *k, rdg_hparams *h)
{
    if (!k->failed) gemma_common(h, 46);
}

/* Local layers rotate with a base of their own and without the scaling of the global ones. */
static void gemma3_hparams(rdg_keys *k, rdg_hparams *h)
{
    if (k->failed) return;
    gemma_common(h, 62);
    h->rope_base_local = rdg_key_float(k, "rope.freq_base_swa", 1e-6f, 1e12f, 10000.0f);
    h->rope_local = (rdg_rope_params){
        .n_dims = h->rope.n_dims, .freq_base = h->rope_base_local, .freq_scale = 1.0f, .magnitude = 1.0f};
}

const rdg_arch rdg_arch_gemma2 = {
    .name = "gemma2",
    .norm_eps_key = "attention.layer_norm_rms_epsilon",
    .window_period = 2,
    .hparams = gemma2_hparams,
    .build = build_gemma2,
};
const rdg_arch rdg_arch_gemma3 = {
    .name = "gemma3",
    .norm_eps_key = "attention.layer_norm_rms_epsilon",
    .window_period = 6,
    .hparams = gemma3_hparams,
    .build = build_gemma3,
};
