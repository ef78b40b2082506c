/* Qwen2, Qwen3 and their mixtures of experts. */
#include "convert/hf.h"

#include <inttypes.h>

const rdg_hf_class rdg_hf_qwen2 = {
    .name = "Qwen2ForCausalLM",
    .arch = "qwen2",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, rdg_map_attention, rdg_map_gated_mlp},
    .window_period = -1,
};
const rdg_hf_class rdg_hf_qwen3 = {
    .name = "Qwen3ForCausalLM",
    .arch = "qwen3",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, rdg_map_attention, rdg_map_qk_norms, rdg_map_gated_mlp},
    .window_period = -1,
};

/* Readers of the file assume experts in every layer. */
static void all_layers_sparse(rdg_hf *c)
{
    const json_t *dense = rdg_hf_find(c, "mlp_only_layers");
    if (json_is_array(dense) && json_array_size(dense) > 0)
        rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                    "%s/config.json: field 'mlp_only_layers' names %zu layers; only models with experts in "
                    "every layer are supported",
                    c->dir, json_array_size(dense));
    int64_t step = rdg_hf_int(c, "decoder_sparse_step", 0, INT32_MAX, 1);
    if (step != 1)
        rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                    "%s/config.json: field 'decoder_sparse_step' is %" PRId64 ", only 1 is supported", c->dir,
                    step);
}

static const rdg_map_rule shared_expert[] = {
    {"layers.{i}.mlp.shared_expert.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight", 0},
    {"layers.{i}.mlp.shared_expert.up_proj.weight", "blk.{i}.ffn_up_shexp.weight", 0},
    {"layers.{i}.mlp.shared_expert.down_proj.weight", "blk.{i}.ffn_down_shexp.weight", 0},
    {"layers.{i}.mlp.shared_expert_gate.weight", "blk.{i}.ffn_gate_inp_shexp.weight", 0},
    {NULL, NULL, 0},
};

static void qwen2_moe_keys(rdg_hf *c)
{
    all_layers_sparse(c);
    rdg_hf_expect_bool(c, "norm_topk_prob", false,
                       "qwen2moe readers never renormalise the chosen experts' weights");
    rdg_hf_set_int(c, "expert_shared_feed_forward_length",
                   rdg_hf_int(c, "shared_expert_intermediate_size", 1, INT32_MAX, c->n_ff));
}

const rdg_hf_class rdg_hf_qwen2_moe = {
    .name = "Qwen2MoeForCausalLM",
    .arch = "qwen2moe",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, rdg_map_attention, rdg_map_mlp_experts, shared_expert},
    .window_period = -1,
    .keys = qwen2_moe_keys,
};

static void qwen3_moe_keys(rdg_hf *c)
{
    all_layers_sparse(c);
    rdg_hf_expect_bool(c, "norm_topk_prob", true,
                       "qwen3moe readers always renormalise the chosen experts' weights");
}

const rdg_hf_class rdg_hf_qwen3_moe = {
    .name = "Qwen3MoeForCausalLM",
    .arch = "qwen3moe",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, rdg_map_attention, rdg_map_qk_norms, rdg_map_mlp_experts},
    .window_period = -1,
    .keys = qwen3_moe_keys,
};
