/* LlamaForCausalLM and the classes that are it under another name: Mistral, Mixtral, Granite, SmolLM3. Their
 * checkpoints rotate halves of a head; GGUF rotates neighbours, so rows of q and k change places. */
#include "convert/hf.h"

#include <inttypes.h>

static const rdg_map_rule attention[] = {
    {"layers.{i}.self_attn.q_proj.*", "blk.{i}.attn_q.*", RDG_MAP_PERMUTE_Q},
    {"layers.{i}.self_attn.k_proj.*", "blk.{i}.attn_k.*", RDG_MAP_PERMUTE_K},
    {"layers.{i}.self_attn.v_proj.*", "blk.{i}.attn_v.*", 0},
    {"layers.{i}.self_attn.o_proj.*", "blk.{i}.attn_output.*", 0},
    {NULL, NULL, 0},
};

static const rdg_map_rule mixtral_experts[] = {
    {"layers.{i}.block_sparse_moe.gate.weight", "blk.{i}.ffn_gate_inp.weight", 0},
    {"layers.{i}.block_sparse_moe.experts.{e}.w1.weight", "blk.{i}.ffn_gate_exps.weight", RDG_MAP_STACK},
    {"layers.{i}.block_sparse_moe.experts.{e}.w3.weight", "blk.{i}.ffn_up_exps.weight", RDG_MAP_STACK},
    {"layers.{i}.block_sparse_moe.experts.{e}.w2.weight", "blk.{i}.ffn_down_exps.weight", RDG_MAP_STACK},
    {NULL, NULL, 0},
};

static void vocab_key(rdg_hf *c)
{
    rdg_hf_set_int(c, "vocab_size", rdg_hf_int(c, "vocab_size", 1, 1 << 22, RDG_HF_REQUIRED));
}

const rdg_hf_class rdg_hf_llama = {
    .name = "LlamaForCausalLM",
    .arch = "llama",
    .activations = "silu|swish",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, attention, rdg_map_gated_mlp},
    .writes_n_rot = true,
    .window_period = -1,
    .keys = vocab_key,
};
const rdg_hf_class rdg_hf_mistral = {
    .name = "MistralForCausalLM",
    .arch = "llama",
    .activations = "silu|swish",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, attention, rdg_map_gated_mlp},
    .writes_n_rot = true,
    .keys = vocab_key,
};
const rdg_hf_class rdg_hf_mixtral = {
    .name = "MixtralForCausalLM",
    .arch = "llama",
    .activations = "silu|swish",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, attention, mixtral_experts},
    .writes_n_rot = true,
    .keys = vocab_key,
};

static void granite_keys(rdg_hf *c)
{
    vocab_key(c);
    rdg_hf_set_real(c, "attention.scale", rdg_hf_real(c, "attention_multiplier", 1.0));
    rdg_hf_set_real(c, "embedding_scale", rdg_hf_real(c, "embedding_multiplier", 1.0));
    rdg_hf_set_real(c, "residual_scale", rdg_hf_real(c, "residual_multiplier", 1.0));
    rdg_hf_set_real(c, "logit_scale", rdg_hf_real(c, "logits_scaling", 1.0));
}

const rdg_hf_class rdg_hf_granite = {
    .name = "GraniteForCausalLM",
    .arch = "granite",
    .activations = "silu|swish",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, attention, rdg_map_gated_mlp},
    .writes_n_rot = true,
    .window_period = -1,
    .keys = granite_keys,
};

/* Readers know that every fourth layer is not rotated; a file cannot say anything else. */
static void smollm3_keys(rdg_hf *c)
{
    vocab_key(c);
    const json_t *list = rdg_hf_find(c, "no_rope_layers");
    int64_t interval = rdg_hf_int(c, "no_rope_layer_interval", 1, INT32_MAX, 4);
    for (int64_t i = 0; i < c->n_layer; i++) {
        bool rotated = (i + 1) % 4 != 0, config = (i + 1) % interval != 0;
        if (json_is_array(list)) config = json_integer_value(json_array_get(list, (size_t)i)) != 0;
        if (config == rotated) continue;
        rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                    "%s/config.json: fields 'no_rope_layers', 'no_rope_layer_interval' leave layer %" PRId64
                    " %srotated; only every fourth layer without rotation is supported",
                    c->dir, i, config ? "" : "un");
        return;
    }
}

const rdg_hf_class rdg_hf_smollm3 = {
    .name = "SmolLM3ForCausalLM",
    .arch = "smollm3",
    .activations = "silu|swish",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, attention, rdg_map_gated_mlp},
    .writes_n_rot = true,
    .window_period = -1,
    .keys = smollm3_keys,
};
