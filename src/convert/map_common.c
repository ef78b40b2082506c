/* Groups of rules that several classes share, and the list of classes. */
#include "convert/hf.h"

#include <string.h>

const rdg_map_rule rdg_map_ends[] = {
    {"embed_tokens.weight", "token_embd.weight", 0},
    {"norm.*", "output_norm.*", 0},
    {"lm_head.*", "output.*", RDG_MAP_HEAD},
    {NULL, NULL, 0},
};

const rdg_map_rule rdg_map_attention[] = {
    {"layers.{i}.self_attn.q_proj.*", "blk.{i}.attn_q.*", 0},
    {"layers.{i}.self_attn.k_proj.*", "blk.{i}.attn_k.*", 0},
    {"layers.{i}.self_attn.v_proj.*", "blk.{i}.attn_v.*", 0},
    {"layers.{i}.self_attn.o_proj.*", "blk.{i}.attn_output.*", 0},
    {NULL, NULL, 0},
};

const rdg_map_rule rdg_map_pre_norms[] = {
    {"layers.{i}.input_layernorm.*", "blk.{i}.attn_norm.*", 0},
    {"layers.{i}.post_attention_layernorm.*", "blk.{i}.ffn_norm.*", 0},
    {NULL, NULL, 0},
};

const rdg_map_rule rdg_map_qk_norms[] = {
    {"layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight", 0},
    {"layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight", 0},
    {NULL, NULL, 0},
};

const rdg_map_rule rdg_map_gated_mlp[] = {
    {"layers.{i}.mlp.gate_proj.*", "blk.{i}.ffn_gate.*", 0},
    {"layers.{i}.mlp.up_proj.*", "blk.{i}.ffn_up.*", 0},
    {"layers.{i}.mlp.down_proj.*", "blk.{i}.ffn_down.*", 0},
    {NULL, NULL, 0},
};

const rdg_map_rule rdg_map_mlp_experts[] = {
    {"layers.{i}.mlp.gate.weight", "blk.{i}.ffn_gate_inp.weight", 0},
    {"layers.{i}.mlp.experts.{e}.gate_proj.weight", "blk.{i}.ffn_gate_exps.weight", RDG_MAP_STACK},
    {"layers.{i}.mlp.experts.{e}.up_proj.weight", "blk.{i}.ffn_up_exps.weight", RDG_MAP_STACK},
    {"layers.{i}.mlp.experts.{e}.down_proj.weight", "blk.{i}.ffn_down_exps.weight", RDG_MAP_STACK},
    /* newer checkpoints hold all experts of a layer in one tensor */
    {"layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_gate_exps.weight", RDG_MAP_FIRST},
    {"layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_up_exps.weight", RDG_MAP_SECOND},
    {"layers.{i}.mlp.experts.down_proj", "blk.{i}.ffn_down_exps.weight", RDG_MAP_FUSED},
    {NULL, NULL, 0},
};

extern const rdg_hf_class rdg_hf_llama, rdg_hf_mistral, rdg_hf_mixtral, rdg_hf_granite, rdg_hf_smollm3,
    rdg_hf_qwen2, rdg_hf_qwen2_moe, rdg_hf_qwen3, rdg_hf_qwen3_moe, rdg_hf_gemma2, rdg_hf_gemma3,
    rdg_hf_gemma3_vision, rdg_hf_phi3, rdg_hf_olmo2, rdg_hf_gpt_oss, rdg_hf_gpt2, rdg_hf_starcoder2,
    rdg_hf_stablelm, rdg_hf_glm4, rdg_hf_bert;

static const rdg_hf_class *const classes[] = {
    &rdg_hf_llama,  &rdg_hf_mistral,       &rdg_hf_mixtral,  &rdg_hf_granite,   &rdg_hf_smollm3,
    &rdg_hf_qwen2,  &rdg_hf_qwen2_moe,     &rdg_hf_qwen3,    &rdg_hf_qwen3_moe, &rdg_hf_gemma2,
    &rdg_hf_gemma3, &rdg_hf_gemma3_vision, &rdg_hf_phi3,     &rdg_hf_olmo2,     &rdg_hf_gpt_oss,
    &rdg_hf_gpt2,   &rdg_hf_starcoder2,    &rdg_hf_stablelm, &rdg_hf_glm4,      &rdg_hf_bert,
};
static const char class_names[] = /* as above; a test compares them */
    "LlamaForCausalLM MistralForCausalLM MixtralForCausalLM GraniteForCausalLM SmolLM3ForCausalLM "
    "Qwen2ForCausalLM "
    "Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM "
    "Gemma3ForConditionalGeneration Phi3ForCausalLM Olmo2ForCausalLM GptOssForCausalLM GPT2LMHeadModel "
    "Starcoder2ForCausalLM StableLmForCausalLM Glm4ForCausalLM BertModel";

const rdg_hf_class *rdg_hf_class_find(const char *name)
{
    for (int i = 0; i < RDG_COUNTOF(classes); i++)
        if (strcmp(classes[i]->name, name) == 0) return classes[i];
    return NULL;
}

const char *rdg_hf_class_list(void)
{
    return class_names;
}
