/* bert: an encoder. Every token sees every other, so a text is evaluated as one batch, and what comes out is
 * one vector a token for pooling; there are no logits. Norms stand behind the residual additions. */
#include "model/arch.h"

#include <inttypes.h>
#include <stdio.h>

static rdg_value_id norm(rdg_plan *p, const rdg_hparams *h, rdg_value_id x, const char *name)
{
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    if (p->layer < 0)
        return rdg_plan_layernorm(p, x, rdg_plan_weight(p, weight, h->n_embd, 0, 0),
                                  rdg_plan_weight(p, bias, h->n_embd, 0, 0), h->norm_eps, name);
    return rdg_plan_layernorm(p, x, rdg_plan_block_weight(p, weight, h->n_embd, 0, 0),
                              rdg_plan_block_weight(p, bias, h->n_embd, 0, 0), h->norm_eps, name);
}

static rdg_value_id linear(rdg_plan *p, rdg_value_id x, const char *name, int64_t n_in, int64_t n_out)
{
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    return rdg_plan_linear(p, rdg_plan_block_weight(p, weight, n_in, n_out, 0), x,
                           rdg_plan_block_weight(p, bias, n_out, 0, 0), name);
}

/* Word + position + the row of token type 0: text of one segment. */
static rdg_value_id embedding(rdg_plan *p, const rdg_hparams *h)
{
    rdg_value_id words = rdg_plan_weight(p, "token_embd.weight", h->n_embd, h->n_vocab, 0);
    rdg_value_id positions = rdg_plan_weight(p, "position_embd.weight", h->n_embd, h->n_ctx_train, 0);
    rdg_value_id x = rdg_plan_embed(p, words, p->tokens, 1.0f, "token_embd");
    x = rdg_plan_add(p, x, 1.0f, rdg_plan_embed(p, positions, p->positions, 1.0f, "position_embd"), 1.0f,
                     "embd_sum");
    const rdg_gguf_tensor *t = rdg_gguf_tensor_find(p->gguf, "token_types.weight");
    if (t) {
        rdg_value_id types = rdg_plan_weight(p, "token_types.weight", h->n_embd, t->dim[1], 0);
        if (t->type != RDG_TYPE_F32)
            rdg_plan_fail(p, RDG_E_UNSUPPORTED, "tensor 'token_types.weight' is %s, only F32 is supported",
                          rdg_type_name(t->type));
        types = rdg_plan_slice(p, rdg_plan_reshape(p, types, h->n_embd * t->dim[1], 0, 0), 0, h->n_embd);
        x = rdg_plan_add(p, x, 1.0f, types, 1.0f, "token_type");
    }
    return norm(p, h, x, "token_embd_norm");
}

static rdg_value_id block(rdg_plan *p, const rdg_hparams *h, rdg_value_id x)
{
    int64_t n_tokens = p->options.n_tokens;
    rdg_value_id q = linear(p, x, "attn_q", h->n_embd, h->n_head * h->head_dim_k);
    rdg_value_id k = linear(p, x, "attn_k", h->n_embd, h->n_head_kv * h->head_dim_k);
    rdg_value_id v = linear(p, x, "attn_v", h->n_embd, h->n_head_kv * h->head_dim_v);
    q = rdg_plan_reshape(p, q, h->head_dim_k, h->n_head, n_tokens);
    k = rdg_plan_reshape(p, k, h->head_dim_k, h->n_head_kv, n_tokens);
    v = rdg_plan_reshape(p, v, h->head_dim_v, h->n_head_kv, n_tokens);
    rdg_attention_spec spec = {
        .scale = (float)(1.0 / sqrt((double)h->head_dim_k)), .causal = h->causal, .sinks = RDG_NO_VALUE};
    rdg_value_id a = rdg_plan_attention(p, q, k, v, &spec);
    a = linear(p, a, "attn_output", h->n_head * h->head_dim_v, h->n_embd);
    x = norm(p, h, rdg_plan_add(p, x, 1.0f, a, 1.0f, "attn_residual"), "attn_output_norm");
    rdg_value_id f =
        rdg_plan_act(p, linear(p, x, "ffn_up", h->n_embd, h->n_ff), RDG_ACT_GELU_ERF, 1.0f, "ffn_act");
    f = linear(p, f, "ffn_down", h->n_ff, h->n_embd);
    return norm(p, h, rdg_plan_add(p, x, 1.0f, f, 1.0f, "ffn_residual"), "layer_output_norm");
}

static void build_bert(rdg_plan *p, const rdg_hparams *h)
{
    if (!p->options.embeddings) {
        rdg_plan_fail(p, RDG_E_UNSUPPORTED,
                      "bert is an encoder: it has no logits and cannot generate; use it for embeddings");
        return;
    }
    if (p->options.n_tokens > h->n_ctx_train)
        rdg_plan_fail(p, RDG_E_LIMIT,
                      "a text of %" PRId64 " tokens does not fit: this model has positions for %" PRId64,
                      p->options.n_tokens, h->n_ctx_train);
    rdg_plan_set_layer(p, -1);
    rdg_value_id x = embedding(p, h);
    for (int64_t il = 0; il < h->n_layer && !rdg_plan_failed(p); il++) {
        rdg_plan_set_layer(p, (int32_t)il);
        x = block(p, h, x);
    }
    rdg_plan_set_layer(p, -1);
    rdg_plan_set_hidden(p, x);
}

static void bert_hparams(rdg_keys *k, rdg_hparams *h)
{
    h->causal = rdg_key_bool(k, "attention.causal", false);
}

const rdg_arch rdg_arch_bert = {
    .name = "bert",
    .norm_eps_key = "attention.layer_norm_epsilon",
    .hparams = bert_hparams,
    .build = build_bert,
};
