/* The shared decoder: embedding, blocks, head. Which norms, which FFN and which rotation is in the row of
 * traits; which layers are local and how far they see is in the hyper-parameters; biases are used wherever
 * the file has them. */
#include "model/decoder.h"

#include <stdio.h>

typedef struct build {
    rdg_plan *p;
    const rdg_hparams *h;
    const rdg_decoder *d;
    rdg_value_id rope_factors;
} build;

enum { NAME_CAP = 96 };

static rdg_value_id norm_with(build *b, rdg_value_id x, rdg_value_id weight, rdg_value_id bias,
                              const char *tag)
{
    if (b->d->norm == RDG_NORM_LAYER) return rdg_plan_layernorm(b->p, x, weight, bias, b->h->norm_eps, tag);
    return rdg_plan_rmsnorm(b->p, x, weight, b->h->norm_eps, tag);
}

/* "<name>.weight" of the block, and "<name>.bias" for LayerNorm. */
static rdg_value_id block_norm(build *b, rdg_value_id x, const char *name)
{
    char full[NAME_CAP];
    rdg_value_id bias = RDG_NO_VALUE;
    if (b->d->norm == RDG_NORM_LAYER) {
        snprintf(full, sizeof full, "%s.bias", name);
        bias = rdg_plan_block_weight_optional(b->p, full, b->h->n_embd, 0, 0);
    }
    snprintf(full, sizeof full, "%s.weight", name);
    return norm_with(b, x, rdg_plan_block_weight(b->p, full, b->h->n_embd, 0, 0), bias, name);
}

/* W x + b with the block's "<name>.weight" and, where the file has it, "<name>.bias". */
static rdg_value_id block_linear(build *b, rdg_value_id x, const char *name, int64_t n_in, int64_t n_out)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "%s.bias", name);
    rdg_value_id bias = rdg_plan_block_weight_optional(b->p, full, n_out, 0, 0);
    snprintf(full, sizeof full, "%s.weight", name);
    return rdg_plan_linear(b->p, rdg_plan_block_weight(b->p, full, n_in, n_out, 0), x, bias, name);
}

static int64_t n_rows(const build *b, rdg_value_id x)
{
    return rdg_plan_shape(b->p, x)->dim[1];
}

/* Attention
 * --------------------------------------------------------------------------------------------------- */

static void project_qkv(build *b, rdg_value_id u, rdg_value_id *q, rdg_value_id *k, rdg_value_id *v)
{
    const rdg_hparams *h = b->h;
    int64_t nq = h->n_head * h->head_dim_k, nk = h->n_head_kv * h->head_dim_k,
            nv = h->n_head_kv * h->head_dim_v;
    if (rdg_plan_block_weight_optional(b->p, "attn_qkv.weight", h->n_embd, nq + nk + nv, 0) != RDG_NO_VALUE) {
        rdg_value_id qkv = block_linear(b, u, "attn_qkv", h->n_embd, nq + nk + nv);
        *q = rdg_plan_slice(b->p, qkv, 0, nq);
        *k = rdg_plan_slice(b->p, qkv, nq, nk);
        *v = rdg_plan_slice(b->p, qkv, nq + nk, nv);
    } else {
        *q = block_linear(b, u, "attn_q", h->n_embd, nq);
        *k = block_linear(b, u, "attn_k", h->n_embd, nk);
        *v = block_linear(b, u, "attn_v", h->n_embd, nv);
    }
}

/* q or k: the norm that the row asks for, and the split into heads. */
static rdg_value_id split_heads(build *b, rdg_value_id x, const char *norm, int64_t n_head, int64_t head_dim)
{
    const rdg_hparams *h = b->h;
    rdg_value_id w = RDG_NO_VALUE;
    int64_t n_tokens = n_rows(b, x);
    if (norm && b->d->qk_norm == RDG_QK_NORM_WHOLE) {
        w = rdg_plan_block_weight(b->p, norm, n_head * head_dim, 0, 0);
        x = rdg_plan_rmsnorm(b->p, x, w, h->norm_eps, norm);
    }
    x = rdg_plan_reshape(b->p, x, head_dim, n_head, n_tokens);
    if (norm && b->d->qk_norm == RDG_QK_NORM_HEAD) {
        w = rdg_plan_block_weight(b->p, norm, head_dim, 0, 0);
        x = rdg_plan_rmsnorm(b->p, x, w, h->norm_eps, norm);
    }
    if (norm && b->d->qk_norm == RDG_QK_NORM_EACH) {
        w = rdg_plan_block_weight_optional(b->p, norm, head_dim, n_head, 0);
        if (w != RDG_NO_VALUE) x = rdg_plan_layernorm(b->p, x, w, RDG_NO_VALUE, h->norm_eps, norm);
    }
    return x;
}

static rdg_value_id attention(build *b, rdg_value_id u, int64_t il)
{
    const rdg_hparams *h = b->h;
    bool local = (h->layer_flags[il] & RDG_LAYER_LOCAL) && h->window > 0;
    rdg_value_id q, k, v;
    project_qkv(b, u, &q, &k, &v);
    q = split_heads(b, q, "attn_q_norm.weight", h->n_head, h->head_dim_k);
    k = split_heads(b, k, "attn_k_norm.weight", h->n_head_kv, h->head_dim_k);
    v = split_heads(b, v, NULL, h->n_head_kv, h->head_dim_v);
    if (!b->d->learned_positions && h->n_rot > 0 && !(h->layer_flags[il] & RDG_LAYER_NO_ROPE)) {
        rdg_rope_params rope = local ? h->rope_local : h->rope;
        rope.style = b->d->rope;
        q = rdg_plan_rope(b->p, q, b->rope_factors, &rope, "q_rope");
        k = rdg_plan_rope(b->p, k, b->rope_factors, &rope, "k_rope");
    }
    rdg_attention_spec spec = {
        .scale = h->attention_scale > 0 ? h->attention_scale : (float)(1.0 / sqrt((double)h->head_dim_k)),
        .softcap = h->attn_softcap,
        .window = local ? (int32_t)h->window : 0,
        .causal = h->causal,
        .sinks =
            b->d->sinks ? rdg_plan_block_weight(b->p, "attn_sinks.weight", h->n_head, 0, 0) : RDG_NO_VALUE,
    };
    rdg_value_id a = rdg_plan_attention(b->p, q, k, v, &spec);
    return block_linear(b, a, "attn_output", h->n_head * h->head_dim_v, h->n_embd);
}

/* Feed-forward
 * ------------------------------------------------------------------------------------------------- */

static rdg_value_id dense_ffn(build *b, rdg_value_id w)
{
    const rdg_hparams *h = b->h;
    rdg_value_id y;
    if (b->d->ffn == RDG_FFN_PLAIN) {
        y = rdg_plan_act(b->p, block_linear(b, w, "ffn_up", h->n_embd, h->n_ff), b->d->act.act, 1.0f,
                         "ffn_act");
    } else if (b->d->ffn == RDG_FFN_GATED_FUSED) {
        rdg_value_id z = block_linear(b, w, "ffn_up", h->n_embd, 2 * h->n_ff);
        y = rdg_plan_glu(b->p, rdg_plan_slice(b->p, z, 0, h->n_ff), rdg_plan_slice(b->p, z, h->n_ff, h->n_ff),
                         &b->d->act, "ffn_act");
    } else {
        rdg_value_id gate = block_linear(b, w, "ffn_gate", h->n_embd, h->n_ff);
        y = rdg_plan_glu(b->p, gate, block_linear(b, w, "ffn_up", h->n_embd, h->n_ff), &b->d->act, "ffn_act");
    }
    return block_linear(b, y, "ffn_down", h->n_ff, h->n_embd);
}

static rdg_value_id experts(build *b, rdg_value_id x, rdg_value_id ids, const char *name, int64_t n_in,
                            int64_t n_out)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "%s.bias", name);
    rdg_value_id bias = rdg_plan_block_weight_optional(b->p, full, n_out, b->h->n_expert, 0);
    snprintf(full, sizeof full, "%s.weight", name);
    rdg_value_id w = rdg_plan_block_weight(b->p, full, n_in, n_out, b->h->n_expert);
    return rdg_plan_experts(b->p, w, x, ids, bias, name);
}

/* A gated FFN that every token passes, weighted by the sigmoid of its own gate; NO_VALUE if the file has
 * none. */
static rdg_value_id shared_expert(build *b, rdg_value_id w)
{
    const rdg_hparams *h = b->h;
    if (h->n_ff_shared == 0 || rdg_plan_block_weight_optional(b->p, "ffn_up_shexp.weight", h->n_embd,
                                                              h->n_ff_shared, 0) == RDG_NO_VALUE)
        return RDG_NO_VALUE;
    rdg_value_id gate = block_linear(b, w, "ffn_gate_shexp", h->n_embd, h->n_ff_shared);
    rdg_value_id up = block_linear(b, w, "ffn_up_shexp", h->n_embd, h->n_ff_shared);
    rdg_value_id y = rdg_plan_glu(b->p, gate, up, &b->d->act, "ffn_act_shexp");
    y = block_linear(b, y, "ffn_down_shexp", h->n_ff_shared, h->n_embd);
    /* written as [n_embd] or [n_embd, 1]: the same shape */
    rdg_value_id g = block_linear(b, w, "ffn_gate_inp_shexp", h->n_embd, 1);
    return rdg_plan_mul(b->p, y, rdg_plan_act(b->p, g, RDG_ACT_SIGMOID, 1.0f, "shexp_gate"), "shexp_scaled");
}

static rdg_value_id expert_ffn(build *b, rdg_value_id w)
{
    const rdg_hparams *h = b->h;
    rdg_value_id logits = block_linear(b, w, "ffn_gate_inp", h->n_embd, h->n_expert), ids, weights;
    rdg_plan_route(b->p, logits, h->n_expert_used, b->d->route, 1.0f, &ids, &weights);
    rdg_value_id gate = experts(b, w, ids, "ffn_gate_exps", h->n_embd, h->n_ff_expert);
    rdg_value_id up = experts(b, w, ids, "ffn_up_exps", h->n_embd, h->n_ff_expert);
    rdg_value_id y = rdg_plan_glu(b->p, gate, up, &b->d->act, "ffn_act");
    y = experts(b, y, ids, "ffn_down_exps", h->n_ff_expert, h->n_embd);
    return rdg_plan_combine(b->p, y, weights, shared_expert(b, w), "ffn_combine");
}

/* Blocks
 * ------------------------------------------------------------------------------------------------------- */

/* After the last attention only the rows whose logits are wanted matter. Statistics and embeddings want all.
 */
static bool rows_can_go(const build *b, int64_t il)
{
    const rdg_plan_options *o = &b->p->options;
    return il == b->h->n_layer - 1 && !o->collect_imatrix && !o->embeddings && o->n_outputs < o->n_tokens;
}

static rdg_value_id add_branch(build *b, rdg_value_id x, rdg_value_id branch, const char *post_norm,
                               const char *tag)
{
    if (post_norm) branch = block_norm(b, branch, post_norm);
    return rdg_plan_add(b->p, x, 1.0f, branch, b->h->residual_scale, tag);
}

static rdg_value_id block(build *b, rdg_value_id x, int64_t il)
{
    const rdg_decoder *d = b->d;
    rdg_plan_set_layer(b->p, (int32_t)il);
    rdg_value_id u = d->attn_norm ? block_norm(b, x, d->attn_norm) : x;
    rdg_value_id a = attention(b, u, il);
    if (rows_can_go(b, il)) {
        if (b->p->options.n_outputs == 0) return x; /* the caches are filled; nobody reads the rest */
        x = rdg_plan_keep_outputs(b->p, x);
        a = rdg_plan_keep_outputs(b->p, a);
        if (d->parallel_allowed) u = rdg_plan_keep_outputs(b->p, u);
    }
    x = add_branch(b, x, a, d->attn_post_norm, "attn_residual");

    char name[NAME_CAP];
    rdg_value_id w = x;
    snprintf(name, sizeof name, "%s.weight", d->ffn_norm ? d->ffn_norm : "");
    if (d->parallel_allowed && rdg_plan_block_weight_optional(b->p, name, b->h->n_embd, 0, 0) == RDG_NO_VALUE)
        w = u;
    else if (d->ffn_norm)
        w = block_norm(b, x, d->ffn_norm);
    rdg_value_id f = b->h->n_expert > 0 ? expert_ffn(b, w) : dense_ffn(b, w);
    return add_branch(b, x, f, d->ffn_post_norm, "ffn_residual");
}

static rdg_value_id embedding(build *b)
{
    const rdg_hparams *h = b->h;
    rdg_value_id table = rdg_plan_weight(b->p, "token_embd.weight", h->n_embd, h->n_vocab, 0);
    rdg_value_id x = rdg_plan_embed(b->p, table, b->p->tokens, h->embedding_scale, "token_embd");
    if (!b->d->learned_positions) return x;
    if (b->p->options.n_ctx > h->n_ctx_train)
        rdg_plan_fail(
            b->p, RDG_E_LIMIT,
            "a context of %lld positions is asked for; this model has learned positions for %lld only",
            (long long)b->p->options.n_ctx, (long long)h->n_ctx_train);
    rdg_value_id positions = rdg_plan_weight(b->p, "position_embd.weight", h->n_embd, h->n_ctx_train, 0);
    return rdg_plan_add(b->p, x, 1.0f,
                        rdg_plan_embed(b->p, positions, b->p->positions, 1.0f, "position_embd"), 1.0f,
                        "embd_sum");
}

/* Divisors of the angles: llama3 scaling, or longrope's set for this session's context. */
static rdg_value_id rope_factors(build *b)
{
    const rdg_hparams *h = b->h;
    if (!h->longrope) return rdg_plan_weight_optional(b->p, "rope_freqs.weight", h->n_rot / 2, 0, 0);
    const char *name =
        b->p->options.n_ctx > h->n_ctx_orig ? "rope_factors_long.weight" : "rope_factors_short.weight";
    return rdg_plan_weight(b->p, name, h->n_rot / 2, 0, 0);
}

static void head(build *b, rdg_value_id x)
{
    const rdg_hparams *h = b->h;
    const rdg_plan_options *o = &b->p->options;
    rdg_plan_set_layer(b->p, -1);
    if (!o->embeddings && o->n_outputs == 0) return;
    if (!o->embeddings && n_rows(b, x) != o->n_outputs) x = rdg_plan_keep_outputs(b->p, x);
    rdg_value_id bias = RDG_NO_VALUE;
    if (b->d->norm == RDG_NORM_LAYER)
        bias = rdg_plan_weight_optional(b->p, "output_norm.bias", h->n_embd, 0, 0);
    x = norm_with(b, x, rdg_plan_weight(b->p, "output_norm.weight", h->n_embd, 0, 0), bias, "output_norm");
    if (o->embeddings) {
        rdg_plan_set_hidden(b->p, x);
        return;
    }
    rdg_value_id w = rdg_plan_weight_optional(b->p, "output.weight", h->n_embd, h->n_vocab, 0);
    if (w == RDG_NO_VALUE) w = rdg_plan_weight(b->p, "token_embd.weight", h->n_embd, h->n_vocab, 0);
    rdg_value_id output_bias = rdg_plan_weight_optional(b->p, "output.bias", h->n_vocab, 0, 0);
    rdg_value_id y = rdg_plan_linear(b->p, w, x, output_bias, "output");
    if (h->logit_scale != 1.0f)
        y = rdg_plan_add(b->p, y, 1.0f / h->logit_scale, RDG_NO_VALUE, 0.0f, "logit_scale");
    if (h->final_softcap > 0) y = rdg_plan_act(b->p, y, RDG_ACT_TANH, h->final_softcap, "logit_softcap");
    rdg_plan_set_logits(b->p, y);
}

void rdg_decoder_build(rdg_plan *p, const rdg_hparams *h, const rdg_decoder *d)
{
    build b = {.p = p, .h = h, .d = d, .rope_factors = RDG_NO_VALUE};
    rdg_plan_set_layer(p, -1);
    rdg_value_id x = embedding(&b);
    if (!d->learned_positions && h->n_rot > 0) b.rope_factors = rope_factors(&b);
    for (int64_t il = 0; il < h->n_layer && !rdg_plan_failed(p); il++) x = block(&b, x, il);
    head(&b, x);
}
