/* phi3, phi-3.5, phi-4: q, k, v in one product and gate, up in another; longrope by two factor tensors. */
#include "model/decoder.h"

static const rdg_decoder phi3 = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .rope = RDG_ROPE_NEOX,
    .ffn = RDG_FFN_GATED_FUSED,
    .act = {.act = RDG_ACT_SILU},
};

static void build_phi3(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &phi3);
}

/* Files from before the window had a key. */
static int64_t legacy_window(const rdg_hparams *h)
{
    if ((h->n_layer == 32 || h->n_layer == 40) && h->n_ctx_train == 4096) return 2047;
    if (h->n_layer == 32 && h->n_head_kv == 32 && h->n_ctx_train == 131072) return 262144;
    if (h->n_layer == 40 && h->n_ctx_train == 131072) return 131072;
    return 0;
}

/* The factor tensors decide, not rope.scaling.type, which the field's files lack. */
static void phi3_hparams(rdg_keys *k, rdg_hparams *h)
{
    if (k->failed) return;
    if (!rdg_key_find(k, "attention.sliding_window")) h->window = legacy_window(h);
    if (rdg_gguf_tensor_find(k->gguf, "rope_factors_long.weight")) {
        h->longrope = true;
        h->rope.magnitude = rdg_key_float(k, "rope.scaling.attn_factor", 1e-6f, 1e6f, 1.0f);
        h->rope_local = h->rope;
    }
}

const rdg_arch rdg_arch_phi3 = {
    .name = "phi3",
    .norm_eps_key = "attention.layer_norm_rms_epsilon",
    .hparams = phi3_hparams,
    .build = build_phi3,
};
