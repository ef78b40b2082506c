/* llama, mistral and mixtral (one architecture in the file), granite and smollm3: the plain pre-norm block.
 * Rows of q and k are permuted by the converter, hence the NORM rotation of neighbouring pairs. */
#include "model/decoder.h"

#include <inttypes.h>

static const rdg_decoder llama = {
    .norm = RDG_NORM_RMS,
    .attn_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .rope = RDG_ROPE_NORM,
    .ffn = RDG_FFN_GATED,
    .act = {.act = RDG_ACT_SILU},
    .route = RDG_ROUTE_RENORMALISED,
};

static void build_llama(rdg_plan *p, const rdg_hparams *h)
{
    rdg_decoder_build(p, h, &llama);
}

static void llama_hparams(rdg_keys *k, rdg_hparams *h)
{
    if (h->n_rot != h->head_dim_k)
        rdg_keys_fail(k, RDG_E_MALFORMED,
                      "key '%s.rope.dimension_count' is %" PRId64 ", it must equal the head size %" PRId64,
                      k->arch, h->n_rot, h->head_dim_k);
}

const rdg_arch rdg_arch_llama = {
    .name = "llama",
    .norm_eps_key = "attention.layer_norm_rms_epsilon",
    .hparams = llama_hparams,
    .build = build_llama,
};

/* granite differs by four multipliers, all of them common keys. A file may say that it was trained without
 * rotation. */
static void granite_hparams(rdg_keys *k, rdg_hparams *h)
{
    llama_hparams(k, h);
    if (rdg_key_bool(k, "rope.scaling.finetuned", true)) return;
    for (int64_t il = 0; il < h->n_layer; il++) h->layer_flags[il] |= RDG_LAYER_NO_ROPE;
}

const rdg_arch rdg_arch_granite = {
    .name = "granite",
    .norm_eps_key = "attention.layer_norm_rms_epsilon",
    .hparams = granite_hparams,
    .build = build_llama,
};

/* Every fourth layer of smollm3 is not rotated; files do not say so. */
static void smollm3_hparams(rdg_keys *k, rdg_hparams *h)
{
    llama_hparams(k, h);
    for (int64_t il = 3; il < h->n_layer; il += 4) h->layer_flags[il] |= RDG_LAYER_NO_ROPE;
}

const rdg_arch rdg_arch_smollm3 = {
    .name = "smollm3",
    .norm_eps_key = "attention.layer_norm_rms_epsilon",
    .hparams = smollm3_hparams,
    .build = build_llama,
};
