/* The operations a model file can append to a plan: each computes the output's shape, appends one node
 * (attention: three) and leaves all checking of shapes to the operation's own contract. */
#include "graph/plan_internal.h"
#include "ops/act/act.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/combine/combine.h"
#include "ops/embed/embed.h"
#include "ops/experts/experts.h"
#include "ops/kv_store/kv_store.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/mul/mul.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/sumsq/sumsq.h"

#include <string.h>

/* A fresh scratch value named after its producer. */
static rdg_value_id scratch(rdg_plan *p, const char *tag, rdg_type type, int64_t d0, int64_t d1, int64_t d2)
{
    rdg_tensor s;
    rdg_tensor_init(&s, type, d0, d1, d2, 1);
    return rdg_plan_new_value(p, RDG_VALUE_SCRATCH, tag, &s);
}

static rdg_value_id scratch_like(rdg_plan *p, const char *tag, rdg_value_id x)
{
    const rdg_tensor *s = rdg_plan_shape(p, x);
    return scratch(p, tag, RDG_TYPE_F32, s->dim[0], s->dim[1], s->dim[2]);
}

rdg_value_id rdg_plan_embed(rdg_plan *p, rdg_value_id table, rdg_value_id ids, float scale, const char *tag)
{
    rdg_embed_params ep = {.scale = scale};
    rdg_value_id out =
        scratch(p, tag, RDG_TYPE_F32, rdg_plan_shape(p, table)->dim[0], rdg_plan_shape(p, ids)->dim[0], 1);
    rdg_plan_append(p, &rdg_op_embed, (rdg_value_id[]){table, ids, out}, &ep, tag);
    return out;
}

rdg_value_id rdg_plan_rmsnorm(rdg_plan *p, rdg_value_id x, rdg_value_id weight, float eps, const char *tag)
{
    rdg_rmsnorm_params np = {.eps = eps};
    rdg_value_id out = scratch_like(p, tag, x);
    rdg_plan_append(p, &rdg_op_rmsnorm, (rdg_value_id[]){x, weight, out}, &np, tag);
    return out;
}

rdg_value_id rdg_plan_layernorm(rdg_plan *p, rdg_value_id x, rdg_value_id weight, rdg_value_id bias,
                                float eps, const char *tag)
{
    rdg_layernorm_params np = {.eps = eps};
    rdg_value_id out = scratch_like(p, tag, x);
    rdg_plan_append(p, &rdg_op_layernorm, (rdg_value_id[]){x, weight, bias, out}, &np, tag);
    return out;
}

/* A state value: the same memory in every plan of a session. */
static rdg_value_id state(rdg_plan *p, rdg_state_kind kind, int32_t index, const rdg_tensor *shape,
                          const char *weight)
{
    if (rdg_plan_failed(p)) return RDG_NO_VALUE;
    if (!rdg_grow(&p->states, p->n_states, &p->cap_states, sizeof *p->states)) {
        rdg_plan_fail(p, RDG_E_NOMEM, "no memory for a plan of %zu states", p->n_states);
        return RDG_NO_VALUE;
    }
    rdg_value_id v = rdg_plan_new_value(p, RDG_VALUE_STATE,
                                        weight                ? weight
                                        : kind == RDG_STATE_K ? "k_cache"
                                                              : "v_cache",
                                        shape);
    if (v == RDG_NO_VALUE) return v;
    p->values[v].state_key = (int32_t)p->n_states;
    p->states[p->n_states++] = (rdg_state){.kind = kind, .index = index, .shape = *shape, .weight = weight};
    return v;
}

/* The sumsq node in front of a weight of a block. Weights outside blocks are not collected, as is the field's
 * custom. */
static void collect(rdg_plan *p, rdg_value_id weight, rdg_value_id x, rdg_value_id ids)
{
    if (!p->options.collect_imatrix || p->layer < 0 || rdg_plan_failed(p)) return;
    const rdg_value *w = &p->values[rdg_plan_base(p, weight)];
    size_t n = w->weight ? strlen(w->weight->name) : 0;
    if (n < 7 || strcmp(w->weight->name + n - 7, ".weight") != 0) return;
    const char *name = w->weight->name;
    rdg_tensor s;
    int64_t n_matrices = w->shape.dim[2];
    rdg_tensor_init(&s, RDG_TYPE_F32, w->shape.dim[0], n_matrices, 1, 1);
    int32_t index = (int32_t)p->n_states;
    rdg_value_id sums = state(p, RDG_STATE_IMATRIX_SUMS, index, &s, name);
    rdg_tensor_init(&s, RDG_TYPE_F32, n_matrices, 1, 1, 1);
    rdg_value_id counts = state(p, RDG_STATE_IMATRIX_COUNTS, index, &s, name);
    const rdg_tensor *xs = rdg_plan_shape(p, x);
    rdg_value_id rows = ids == RDG_NO_VALUE ? rdg_plan_reshape(p, x, xs->dim[0], 1, xs->dim[1]) : x;
    rdg_plan_append(p, &rdg_op_sumsq, (rdg_value_id[]){rows, ids, sums, counts}, NULL, name);
}

rdg_value_id rdg_plan_linear(rdg_plan *p, rdg_value_id weight, rdg_value_id x, rdg_value_id bias,
                             const char *tag)
{
    int64_t n_tokens = rdg_plan_shape(p, x)->dim[1];
    const rdg_op *op = n_tokens <= RDG_MATVEC_MAX_TOKENS ? &rdg_op_matvec : &rdg_op_matmul;
    collect(p, weight, x, RDG_NO_VALUE);
    rdg_value_id out = scratch(p, tag, RDG_TYPE_F32, rdg_plan_shape(p, weight)->dim[1], n_tokens, 1);
    rdg_plan_append(p, op, (rdg_value_id[]){weight, x, bias, RDG_NO_VALUE, out}, NULL, tag);
    return out;
}

rdg_value_id rdg_plan_rope(rdg_plan *p, rdg_value_id x, rdg_value_id factors, const rdg_rope_params *rp,
                           const char *tag)
{
    rdg_value_id out = scratch_like(p, tag, x);
    rdg_plan_append(p, &rdg_op_rope, (rdg_value_id[]){x, p->positions, factors, out}, rp, tag);
    return out;
}

/* Slots of a layer's cache: a window layer needs its window and one batch (a batch is stored before it is
 * attended). Kernels on matrix units read whole groups of 16 keys. */
static int64_t cache_slots(const rdg_plan *p, int32_t window)
{
    int64_t need = window > 0 ? window + p->options.n_batch : p->options.n_ctx;
    return rdg_round_up(RDG_MIN(need, p->options.n_ctx), 32);
}

static rdg_value_id store(rdg_plan *p, rdg_value_id x, rdg_state_kind kind, rdg_type type, int64_t n_slots)
{
    const rdg_tensor *xs = rdg_plan_shape(p, x);
    rdg_tensor s;
    if (rdg_type_row_bytes(type, xs->dim[0]) < 0) {
        rdg_plan_fail(p, RDG_E_UNSUPPORTED,
                      "a %s KV cache needs heads of a multiple of %d elements, this model has %d; use F16",
                      rdg_type_name(type), (int)rdg_type_block_elems(type), (int)xs->dim[0]);
        return RDG_NO_VALUE;
    }
    rdg_tensor_init(&s, type, xs->dim[0], n_slots, xs->dim[1], 1);
    rdg_value_id cache = state(p, kind, p->layer, &s, NULL);
    rdg_plan_append(p, &rdg_op_kv_store, (rdg_value_id[]){x, p->positions, cache}, NULL,
                    kind == RDG_STATE_K ? "k_store" : "v_store");
    return cache;
}

/* [head_dim, n_heads, n_tokens] → [head_dim, n_tokens, n_heads] as a view, for attention without a cache. */
static rdg_value_id tokens_inside(rdg_plan *p, rdg_value_id x)
{
    rdg_value_id v = rdg_plan_slice(p, x, 0, rdg_plan_shape(p, x)->dim[0]);
    if (v == RDG_NO_VALUE) return v;
    rdg_tensor *s = &p->values[v].shape;
    int64_t dim = s->dim[1], stride = s->stride[1];
    s->dim[1] = s->dim[2];
    s->stride[1] = s->stride[2];
    s->dim[2] = dim;
    s->stride[2] = stride;
    s->stride[3] = stride * dim;
    return v;
}

rdg_value_id rdg_plan_attention(rdg_plan *p, rdg_value_id q, rdg_value_id k, rdg_value_id v,
                                const rdg_attention_spec *spec)
{
    if (rdg_plan_failed(p)) return RDG_NO_VALUE;
    rdg_attention_params ap = {
        .scale = spec->scale, .softcap = spec->softcap, .window = spec->window, .causal = spec->causal};
    const rdg_tensor *qs = rdg_plan_shape(p, q);
    int64_t n_heads = qs->dim[1], n_tokens = qs->dim[2], head_dim_v = rdg_plan_shape(p, v)->dim[0];
    rdg_value_id keys, values;
    if (spec->causal) {
        int64_t n_slots = cache_slots(p, spec->window);
        keys = store(p, k, RDG_STATE_K, p->options.kv_type_k, n_slots);
        values = store(p, v, RDG_STATE_V, p->options.kv_type_v, n_slots);
    } else {
        keys = tokens_inside(p, k);
        values = tokens_inside(p, v);
    }
    rdg_value_id out = scratch(p, "attn", RDG_TYPE_F32, head_dim_v, n_heads, n_tokens);
    rdg_plan_append(p, &rdg_op_attention, (rdg_value_id[]){q, keys, values, p->positions, spec->sinks, out},
                    &ap, "attn");
    return rdg_plan_reshape(p, out, head_dim_v * n_heads, n_tokens, 1);
}

rdg_value_id rdg_plan_glu(rdg_plan *p, rdg_value_id gate, rdg_value_id up, const rdg_glu_params *gp,
                          const char *tag)
{
    rdg_value_id out = scratch_like(p, tag, gate);
    rdg_plan_append(p, &rdg_op_glu, (rdg_value_id[]){gate, up, out}, gp, tag);
    return out;
}

rdg_value_id rdg_plan_act(rdg_plan *p, rdg_value_id x, rdg_act_kind act, float cap, const char *tag)
{
    rdg_act_params ap = {.act = act, .cap = cap};
    rdg_value_id out = scratch_like(p, tag, x);
    rdg_plan_append(p, &rdg_op_act, (rdg_value_id[]){x, out}, &ap, tag);
    return out;
}

rdg_value_id rdg_plan_add(rdg_plan *p, rdg_value_id a, float a_scale, rdg_value_id b, float b_scale,
                          const char *tag)
{
    rdg_add_params ap = {.a_scale = a_scale, .b_scale = b_scale};
    rdg_value_id out = scratch_like(p, tag, a);
    rdg_plan_append(p, &rdg_op_add, (rdg_value_id[]){a, b, out}, &ap, tag);
    return out;
}

rdg_value_id rdg_plan_mul(rdg_plan *p, rdg_value_id a, rdg_value_id b, const char *tag)
{
    rdg_value_id out = scratch_like(p, tag, a);
    rdg_plan_append(p, &rdg_op_mul, (rdg_value_id[]){a, b, out}, NULL, tag);
    return out;
}

void rdg_plan_route(rdg_plan *p, rdg_value_id logits, int64_t n_used, rdg_route_kind kind, float scale,
                    rdg_value_id *ids, rdg_value_id *weights)
{
    rdg_route_params rp = {.kind = kind, .scale = scale};
    int64_t n_tokens = rdg_plan_shape(p, logits)->dim[1];
    *ids = scratch(p, "route_ids", RDG_TYPE_I32, n_used, n_tokens, 1);
    *weights = scratch(p, "route_weights", RDG_TYPE_F32, n_used, n_tokens, 1);
    rdg_plan_append(p, &rdg_op_route, (rdg_value_id[]){logits, *ids, *weights}, &rp, "route");
}

rdg_value_id rdg_plan_experts(rdg_plan *p, rdg_value_id weight, rdg_value_id x, rdg_value_id ids,
                              rdg_value_id bias, const char *tag)
{
    const rdg_tensor *id = rdg_plan_shape(p, ids), *xs = rdg_plan_shape(p, x);
    /* [n_columns, n_tokens] serves every chosen expert of its token. */
    if (xs->dim[2] != id->dim[1]) x = rdg_plan_reshape(p, x, xs->dim[0], 1, xs->dim[1]);
    collect(p, weight, x, ids);
    rdg_value_id out = scratch(p, tag, RDG_TYPE_F32, rdg_plan_shape(p, weight)->dim[1],
                               rdg_plan_shape(p, ids)->dim[0], rdg_plan_shape(p, ids)->dim[1]);
    rdg_plan_append(p, &rdg_op_experts, (rdg_value_id[]){weight, x, ids, bias, out}, NULL, tag);
    return out;
}

rdg_value_id rdg_plan_combine(rdg_plan *p, rdg_value_id x, rdg_value_id weights, rdg_value_id residual,
                              const char *tag)
{
    const rdg_tensor *xs = rdg_plan_shape(p, x);
    rdg_value_id out = scratch(p, tag, RDG_TYPE_F32, xs->dim[0], xs->dim[2], 1);
    rdg_plan_append(p, &rdg_op_combine, (rdg_value_id[]){x, weights, residual, out}, NULL, tag);
    return out;
}

rdg_value_id rdg_plan_keep_outputs(rdg_plan *p, rdg_value_id x)
{
    if (p->options.n_outputs == 0 || p->options.n_outputs == p->options.n_tokens) return x;
    return rdg_plan_embed(p, x, p->output_rows, 1.0f, "output_rows");
}

static void declare_output(rdg_plan *p, rdg_value_id x, rdg_value_id *slot)
{
    if (rdg_plan_failed(p)) return;
    if (x == RDG_NO_VALUE || p->values[x].kind != RDG_VALUE_SCRATCH) {
        rdg_plan_fail(p, RDG_E_INTERNAL, "the output of a plan must be the result of an operation");
        return;
    }
    p->values[x].kind = RDG_VALUE_OUTPUT;
    *slot = x;
}

void rdg_plan_set_logits(rdg_plan *p, rdg_value_id x)
{
    /* No row is wanted: what computes them has no use and is dropped by rdg_plan_finish. */
    if (p->options.n_outputs > 0) declare_output(p, x, &p->logits);
}

void rdg_plan_set_hidden(rdg_plan *p, rdg_value_id x)
{
    declare_output(p, x, &p->hidden);
}
