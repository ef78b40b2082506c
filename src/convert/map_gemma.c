/* Gemma 2 and 3. The stored norm weights are offsets from 1: 1 is added here, so that the engine has one kind
 * of norm. */
#include "convert/hf.h"

static const rdg_map_rule ends[] = {
    {"embed_tokens.weight", "token_embd.weight", 0},
    {"norm.weight", "output_norm.weight", RDG_MAP_PLUS_ONE},
    {"lm_head.*", "output.*", RDG_MAP_HEAD},
    {NULL, NULL, 0},
};
static const rdg_map_rule norms[] = {
    {"layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", RDG_MAP_PLUS_ONE},
    {"layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight", RDG_MAP_PLUS_ONE},
    {"layers.{i}.pre_feedforward_layernorm.weight", "blk.{i}.ffn_norm.weight", RDG_MAP_PLUS_ONE},
    {"layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight", RDG_MAP_PLUS_ONE},
    {NULL, NULL, 0},
};
static const rdg_map_rule qk_norms[] = {
    {"layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight", RDG_MAP_PLUS_ONE},
    {"layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight", RDG_MAP_PLUS_ONE},
    {NULL, NULL, 0},
};
static const rdg_map_rule towers[] = {
    {"vision_tower.**", NULL, RDG_MAP_DROP},
    {"multi_modal_projector.**", NULL, RDG_MAP_DROP},
    {NULL, NULL, 0},
};

/* Field files have no key for query_pre_attn_scalar and guess it from the number of layers; ours says it. */
static void gemma_keys(rdg_hf *c)
{
    double scalar = rdg_hf_real(c, "query_pre_attn_scalar", 0.0);
    if (scalar > 0) rdg_hf_set_real(c, "attention.scale", 1.0 / sqrt(scalar));
    rdg_hf_expect_bool(c, "use_bidirectional_attention", false, "only causal gemma models are supported");
}

static void gemma2_keys(rdg_hf *c)
{
    gemma_keys(c);
    double attn = rdg_hf_real(c, "attn_logit_softcapping", 0.0),
           final = rdg_hf_real(c, "final_logit_softcapping", 0.0);
    if (attn > 0) rdg_hf_set_real(c, "attn_logit_softcapping", attn);
    if (final > 0) rdg_hf_set_real(c, "final_logit_softcapping", final);
}

const rdg_hf_class rdg_hf_gemma2 = {
    .name = "Gemma2ForCausalLM",
    .arch = "gemma2",
    .activations = "gelu_pytorch_tanh",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {ends, norms, rdg_map_attention, rdg_map_gated_mlp},
    .defaults = "{\"head_dim\": 256, \"rms_norm_eps\": 1e-6}",
    .always_tied = true,
    .window_period = 2,
    .keys = gemma2_keys,
};

/* The local layers' base has a key only in newer files; readers assume 10000. */
static void gemma3_keys(rdg_hf *c)
{
    gemma2_keys(c);
    double local = rdg_hf_real(c, "rope_local_base_freq", 10000.0);
    const json_t *rope = rdg_hf_find(c, "rope_parameters");
    const json_t *sliding = json_is_object(rope) ? json_object_get(rope, "sliding_attention") : NULL;
    if (json_is_object(sliding)) {
        rdg_error why = {0};
        rdg_err err = rdg_json_real(sliding, "rope_theta", &local, &why);
        if (err)
            rdg_hf_fail(c, err, "%s/config.json, rope_parameters.sliding_attention: %s", c->dir, why.message);
    }
    if (local != 10000.0) rdg_hf_set_real(c, "rope.freq_base_swa", local);
}

#define GEMMA3_DEFAULTS                                                                                      \
    "{\"max_position_embeddings\": 131072, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "         \
    "\"head_dim\": 256, "                                                                                    \
    "\"rms_norm_eps\": 1e-6, \"rope_theta\": 1000000.0, \"query_pre_attn_scalar\": 256}"

const rdg_hf_class rdg_hf_gemma3 = {
    .name = "Gemma3ForCausalLM",
    .arch = "gemma3",
    .activations = "gelu_pytorch_tanh",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {ends, norms, qk_norms, rdg_map_attention, rdg_map_gated_mlp},
    .defaults = GEMMA3_DEFAULTS,
    .always_tied = true,
    .window_period = 6,
    .keys = gemma3_keys,
};
const rdg_hf_class rdg_hf_gemma3_vision = {
    .name = "Gemma3ForConditionalGeneration",
    .arch = "gemma3",
    .activations = "gelu_pytorch_tanh",
    .prefixes = {"model.language_model.", "language_model.model.", "language_model.", "model."},
    .groups = {ends, norms, qk_norms, rdg_map_attention, rdg_map_gated_mlp, towers},
    .defaults = GEMMA3_DEFAULTS,
    .always_tied = true,
    .window_period = 6,
    .keys = gemma3_keys,
};
