/* Architectures of one class each: phi3, olmo2, gpt-oss, gpt2, starcoder2, stablelm, glm4, bert. */
#include "convert/hf.h"

#include <inttypes.h>
#include <string.h>

/* phi3: q, k, v in one tensor and gate, up in another, kept as they are. */
static const rdg_map_rule phi3[] = {
    {"layers.{i}.self_attn.qkv_proj.*", "blk.{i}.attn_qkv.*", 0},
    {"layers.{i}.self_attn.o_proj.*", "blk.{i}.attn_output.*", 0},
    {"layers.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight", 0},
    {"layers.{i}.mlp.down_proj.weight", "blk.{i}.ffn_down.weight", 0},
    {NULL, NULL, 0},
};

/* Without the window's key readers guess one from the model's size, so 0 is written too. */
static void phi3_keys(rdg_hf *c)
{
    int64_t original = rdg_hf_int(c, "original_max_position_embeddings", 1, INT32_MAX, c->n_ctx);
    rdg_hf_set_int(c, "rope.scaling.original_context_length", original);
    rdg_hf_set_int(c, "attention.sliding_window", rdg_hf_int(c, "sliding_window", 0, INT32_MAX, 0));
}

const rdg_hf_class rdg_hf_phi3 = {
    .name = "Phi3ForCausalLM",
    .arch = "phi3",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, phi3},
    .writes_n_rot = true,
    .keys = phi3_keys,
};

static const rdg_map_rule olmo2_norms[] = {
    {"layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight", 0},
    {"layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight", 0},
    {NULL, NULL, 0},
};

const rdg_hf_class rdg_hf_olmo2 = {
    .name = "Olmo2ForCausalLM",
    .arch = "olmo2",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, olmo2_norms, rdg_map_attention, rdg_map_qk_norms, rdg_map_gated_mlp},
    .window_period = -1,
};

/* gpt-oss: fused experts stored (in, out) with gate and up in alternating columns; published ones are MXFP4,
 * (out, in). */
static const rdg_map_rule gpt_oss[] = {
    {"layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", 0},
    {"layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight", 0},
    {"layers.{i}.self_attn.sinks", "blk.{i}.attn_sinks.weight", 0},
    {"layers.{i}.mlp.router.*", "blk.{i}.ffn_gate_inp.*", 0},
    {"layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_gate_exps.weight", RDG_MAP_TRANSPOSE | RDG_MAP_EVEN},
    {"layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_up_exps.weight", RDG_MAP_TRANSPOSE | RDG_MAP_ODD},
    {"layers.{i}.mlp.experts.down_proj", "blk.{i}.ffn_down_exps.weight", RDG_MAP_TRANSPOSE},
    {"layers.{i}.mlp.experts.gate_up_proj_blocks", "blk.{i}.ffn_gate_exps.weight",
     RDG_MAP_MXFP4 | RDG_MAP_EVEN},
    {"layers.{i}.mlp.experts.gate_up_proj_blocks", "blk.{i}.ffn_up_exps.weight", RDG_MAP_MXFP4 | RDG_MAP_ODD},
    {"layers.{i}.mlp.experts.down_proj_blocks", "blk.{i}.ffn_down_exps.weight", RDG_MAP_MXFP4},
    {"layers.{i}.mlp.experts.gate_up_proj_scales", NULL, RDG_MAP_DROP}, /* read with its blocks */
    {"layers.{i}.mlp.experts.down_proj_scales", NULL, RDG_MAP_DROP},
    {"layers.{i}.mlp.experts.gate_up_proj_bias", "blk.{i}.ffn_gate_exps.bias", RDG_MAP_EVEN},
    {"layers.{i}.mlp.experts.gate_up_proj_bias", "blk.{i}.ffn_up_exps.bias", RDG_MAP_ODD},
    {"layers.{i}.mlp.experts.down_proj_bias", "blk.{i}.ffn_down_exps.bias", 0},
    {NULL, NULL, 0},
};

static void gpt_oss_keys(rdg_hf *c)
{
    rdg_hf_set_int(c, "expert_feed_forward_length", c->n_ff);
    double alpha = rdg_hf_real(c, "swiglu_alpha", 1.702), limit = rdg_hf_real(c, "swiglu_limit", 7.0);
    if (alpha != 1.702 || limit != 7.0)
        rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                    "%s/config.json: swiglu_alpha %g and swiglu_limit %g are not supported (1.702 and 7 are)",
                    c->dir, alpha, limit);
}

const rdg_hf_class rdg_hf_gpt_oss = {
    .name = "GptOssForCausalLM",
    .arch = "gpt-oss",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_attention, gpt_oss},
    .window_period = 2,
    .keys = gpt_oss_keys,
};

/* gpt2: its Conv1D weights are stored (in, out). ".attn.bias" of old files is a mask. */
static const rdg_map_rule gpt2[] = {
    {"wte.weight", "token_embd.weight", 0},
    {"wpe.weight", "position_embd.weight", 0},
    {"ln_f.*", "output_norm.*", 0},
    {"lm_head.weight", "output.weight", RDG_MAP_HEAD},
    {"h.{i}.ln_1.*", "blk.{i}.attn_norm.*", 0},
    {"h.{i}.ln_2.*", "blk.{i}.ffn_norm.*", 0},
    {"h.{i}.attn.c_attn.*", "blk.{i}.attn_qkv.*", RDG_MAP_TRANSPOSE},
    {"h.{i}.attn.c_proj.*", "blk.{i}.attn_output.*", RDG_MAP_TRANSPOSE},
    {"h.{i}.mlp.c_fc.*", "blk.{i}.ffn_up.*", RDG_MAP_TRANSPOSE},
    {"h.{i}.mlp.c_proj.*", "blk.{i}.ffn_down.*", RDG_MAP_TRANSPOSE},
    {"h.{i}.attn.bias", NULL, RDG_MAP_DROP},
    {"h.{i}.attn.masked_bias", NULL, RDG_MAP_DROP},
    {NULL, NULL, 0},
};

static void gpt2_keys(rdg_hf *c)
{
    rdg_hf_expect_bool(c, "scale_attn_weights", true, "attention without a scale is not supported");
    rdg_hf_expect_bool(c, "scale_attn_by_inverse_layer_idx", false,
                       "a scale that changes with the layer is not supported");
    rdg_hf_expect_bool(c, "add_cross_attention", false, "cross attention is not supported");
}

const rdg_hf_class rdg_hf_gpt2 = {
    .name = "GPT2LMHeadModel",
    .arch = "gpt2",
    .activations = "gelu_new|gelu_pytorch_tanh",
    .prefixes = {"transformer."},
    .groups = {gpt2},
    .four_times_ff = true,
    .layer_norm = true,
    .no_rope = true,
    .keys = gpt2_keys,
};

static const rdg_map_rule plain_mlp[] = {
    {"layers.{i}.mlp.c_fc.*", "blk.{i}.ffn_up.*", 0},
    {"layers.{i}.mlp.c_proj.*", "blk.{i}.ffn_down.*", 0},
    {NULL, NULL, 0},
};

const rdg_hf_class rdg_hf_starcoder2 = {
    .name = "Starcoder2ForCausalLM",
    .arch = "starcoder2",
    .activations = "gelu_pytorch_tanh|gelu_new",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_pre_norms, rdg_map_attention, plain_mlp},
    .layer_norm = true,
};

/* stablelm: the 12B model has one LayerNorm for each head, and no second norm in a block. */
static const rdg_map_rule stablelm[] = {
    {"layers.{i}.input_layernorm.*", "blk.{i}.attn_norm.*", 0},
    {"layers.{i}.post_attention_layernorm.*", "blk.{i}.ffn_norm.*", RDG_MAP_OPTIONAL},
    {"layers.{i}.self_attn.q_layernorm.norms.{h}.weight", "blk.{i}.attn_q_norm.weight",
     RDG_MAP_OPTIONAL | RDG_MAP_STACK},
    {"layers.{i}.self_attn.k_layernorm.norms.{g}.weight", "blk.{i}.attn_k_norm.weight",
     RDG_MAP_OPTIONAL | RDG_MAP_STACK},
    {NULL, NULL, 0},
};

static void stablelm_keys(rdg_hf *c)
{
    rdg_hf_set_bool(c, "use_parallel_residual", rdg_hf_bool(c, "use_parallel_residual", false));
}

const rdg_hf_class rdg_hf_stablelm = {
    .name = "StableLmForCausalLM",
    .arch = "stablelm",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, stablelm, rdg_map_attention, rdg_map_gated_mlp},
    .layer_norm = true,
    .writes_n_rot = true,
    .rotary_default = 0.25f,
    .window_period = -1,
    .keys = stablelm_keys,
};

static const rdg_map_rule glm4[] = {
    {"layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", 0},
    {"layers.{i}.post_self_attn_layernorm.weight", "blk.{i}.post_attention_norm.weight", 0},
    {"layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight", 0},
    {"layers.{i}.post_mlp_layernorm.weight", "blk.{i}.post_ffw_norm.weight", 0},
    {"layers.{i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight", 0},
    {"layers.{i}.mlp.down_proj.weight", "blk.{i}.ffn_down.weight", 0},
    {NULL, NULL, 0},
};

const rdg_hf_class rdg_hf_glm4 = {
    .name = "Glm4ForCausalLM",
    .arch = "glm4",
    .activations = "silu",
    .prefixes = RDG_HF_PREFIXES,
    .groups = {rdg_map_ends, rdg_map_attention, glm4},
    .writes_n_rot = true,
    .rotary_default = 0.5f,
    .window_period = -1,
};

static const rdg_map_rule bert[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight", 0},
    {"embeddings.position_embeddings.weight", "position_embd.weight", 0},
    {"embeddings.token_type_embeddings.weight", "token_types.weight", RDG_MAP_F32},
    {"embeddings.LayerNorm.*", "token_embd_norm.*", 0},
    {"embeddings.position_ids", NULL, RDG_MAP_DROP},
    {"pooler.**", NULL, RDG_MAP_DROP},
    {"cls.**", NULL, RDG_MAP_DROP},
    {"encoder.layer.{i}.attention.self.query.*", "blk.{i}.attn_q.*", 0},
    {"encoder.layer.{i}.attention.self.key.*", "blk.{i}.attn_k.*", 0},
    {"encoder.layer.{i}.attention.self.value.*", "blk.{i}.attn_v.*", 0},
    {"encoder.layer.{i}.attention.output.dense.*", "blk.{i}.attn_output.*", 0},
    {"encoder.layer.{i}.attention.output.LayerNorm.*", "blk.{i}.attn_output_norm.*", 0},
    {"encoder.layer.{i}.intermediate.dense.*", "blk.{i}.ffn_up.*", 0},
    {"encoder.layer.{i}.output.dense.*", "blk.{i}.ffn_down.*", 0},
    {"encoder.layer.{i}.output.LayerNorm.*", "blk.{i}.layer_output_norm.*", 0},
    {NULL, NULL, 0},
};

/* How a text's vector is made of its tokens': sentence-transformers keeps that beside the model. */
static int64_t pooling_type(rdg_hf *c)
{
    enum { POOLING_MEAN = 1, POOLING_CLS = 2 };
    int64_t type = POOLING_MEAN;
    bool cls = false;
    json_t *root = NULL;
    rdg_error why = {0};
    char *path = rdg_path_join(c->dir, "1_Pooling/config.json");
    if (path && rdg_file_exists(path)) {
        rdg_err err = rdg_json_load(path, NULL, &root, &why);
        if (!err) err = rdg_json_bool(root, "pooling_mode_cls_token", &cls, &why);
        if (err) rdg_hf_fail(c, err, "%s: %s", path, why.message);
        if (cls) type = POOLING_CLS;
    } else {
        rdg_hf_warn(c, "the folder has no 1_Pooling/config.json: mean pooling is noted as the model's own");
    }
    json_decref(root);
    rdg_free(path);
    return type;
}

static void bert_keys(rdg_hf *c)
{
    const char *positions = rdg_hf_str(c, "position_embedding_type", "absolute");
    if (strcmp(positions, "absolute") != 0)
        rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                    "%s/config.json: field 'position_embedding_type' is '%.40s', only absolute is supported",
                    c->dir, positions);
    rdg_hf_expect_bool(c, "is_decoder", false, "only encoders of this class are supported");
    rdg_hf_set_bool(c, "attention.causal", false);
    rdg_hf_set_int(c, "pooling_type", pooling_type(c));
    if (!c->failed)
        rdg_gguf_set_u32(c->writer, "tokenizer.ggml.token_type_count",
                         (uint32_t)rdg_hf_int(c, "type_vocab_size", 1, 1 << 20, 2));
}

const rdg_hf_class rdg_hf_bert = {
    .name = "BertModel",
    .arch = "bert",
    .activations = "gelu",
    .prefixes = {"bert."},
    .groups = {bert},
    .defaults = "{\"layer_norm_eps\": 1e-12}",
    .layer_norm = true,
    .no_rope = true,
    .keys = bert_keys,
};
