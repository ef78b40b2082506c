/* The plan's container: values, nodes, states, and the generic part of building. The operations that model
 * files append are in build.c, memory placement in memory.c. */
#include "graph/plan_internal.h"
#include "ops/attention/attention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

rdg_err rdg_plan_create(const rdg_gguf *g, const rdg_plan_options *o, rdg_plan **out, rdg_error *e)
{
    *out = NULL;
    if (o->n_tokens < 1 || o->n_outputs < 0 || o->n_outputs > o->n_tokens || o->n_ctx < o->n_tokens ||
        o->n_batch < o->n_tokens)
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "a plan for %" PRId64 " tokens, %" PRId64 " outputs, context %" PRId64
                        ", batch %" PRId64 " is not possible",
                        o->n_tokens, o->n_outputs, o->n_ctx, o->n_batch);
    rdg_plan *p = rdg_alloc(sizeof *p);
    if (!p) return rdg_fail(e, RDG_E_NOMEM, "no memory for a plan");
    rdg_arena_init(&p->arena);
    p->gguf = g;
    p->options = *o;
    p->layer = -1;
    p->logits = p->hidden = p->output_rows = p->carried = RDG_NO_VALUE;
    rdg_tensor shape;
    rdg_tensor_init(&shape, RDG_TYPE_I32, o->n_tokens, 1, 1, 1);
    p->tokens = rdg_plan_new_value(p, RDG_VALUE_INPUT, "tokens", &shape);
    p->positions = rdg_plan_new_value(p, RDG_VALUE_INPUT, "positions", &shape);
    if (o->n_outputs > 0) {
        rdg_tensor_init(&shape, RDG_TYPE_I32, o->n_outputs, 1, 1, 1);
        p->output_rows = rdg_plan_new_value(p, RDG_VALUE_INPUT, "output_rows", &shape);
    }
    if (rdg_plan_failed(p)) {
        rdg_err err = rdg_fail(e, p->error.code, "%s", p->error.message);
        rdg_plan_destroy(p);
        return err;
    }
    *out = p;
    return RDG_OK;
}

void rdg_plan_destroy(rdg_plan *p)
{
    if (!p) return;
    rdg_free(p->states);
    rdg_free(p->nodes);
    rdg_free(p->values);
    rdg_arena_finish(&p->arena);
    rdg_free(p);
}

bool rdg_plan_failed(const rdg_plan *p)
{
    return p->error.code != RDG_OK;
}

rdg_err rdg_plan_fail(rdg_plan *p, rdg_err code, const char *fmt, ...)
{
    if (rdg_plan_failed(p)) return p->error.code;
    char text[sizeof p->error.message];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return rdg_fail(&p->error, code, "%s", text);
}

rdg_value_id rdg_plan_new_value(rdg_plan *p, rdg_value_kind kind, const char *name, const rdg_tensor *shape)
{
    if (rdg_plan_failed(p)) return RDG_NO_VALUE;
    if (p->n_values >= INT32_MAX || !rdg_grow(&p->values, p->n_values, &p->cap_values, sizeof *p->values)) {
        rdg_plan_fail(p, RDG_E_NOMEM, "no memory for a plan of %zu values", p->n_values);
        return RDG_NO_VALUE;
    }
    p->values[p->n_values] = (rdg_value){.kind = kind,
                                         .name = name,
                                         .shape = *shape,
                                         .base = RDG_NO_VALUE,
                                         .place = -1,
                                         .first_use = -1,
                                         .last_use = -1};
    return (rdg_value_id)p->n_values++;
}

void rdg_plan_append(rdg_plan *p, const rdg_op *op, const rdg_value_id *operands, const void *params,
                     const char *tag)
{
    if (rdg_plan_failed(p)) return;
    if (!rdg_grow(&p->nodes, p->n_nodes, &p->cap_nodes, sizeof *p->nodes)) {
        rdg_plan_fail(p, RDG_E_NOMEM, "no memory for a plan of %zu operations", p->n_nodes);
        return;
    }
    rdg_node *node = &p->nodes[p->n_nodes++];
    *node = (rdg_node){.op = op, .layer = p->layer, .tag = tag};
    for (int i = 0; i < RDG_MAX_OPERANDS; i++)
        node->operand[i] = i < op->n_operands ? operands[i] : RDG_NO_VALUE;
    if (params) memcpy(node->params, params, op->param_bytes);
}

void rdg_plan_set_layer(rdg_plan *p, int32_t layer)
{
    p->layer = layer;
}

const rdg_tensor *rdg_plan_shape(const rdg_plan *p, rdg_value_id v)
{
    static const rdg_tensor none;
    return v >= 0 && (size_t)v < p->n_values ? &p->values[v].shape : &none;
}

/* Weights
 * ----------------------------------------------------------------------------------------------------- */

static rdg_value_id find_weight(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2,
                                bool required)
{
    if (rdg_plan_failed(p)) return RDG_NO_VALUE;
    const rdg_gguf_tensor *t = rdg_gguf_tensor_find(p->gguf, name);
    if (!t) {
        if (required)
            rdg_plan_fail(p, RDG_E_MALFORMED,
                          "tensor '%s' is missing; the file is incomplete or was converted for another "
                          "architecture",
                          name);
        return RDG_NO_VALUE;
    }
    int64_t want[4] = {d0, d1 ? d1 : 1, d2 ? d2 : 1, 1};
    for (int i = 0; i < 4; i++) {
        if (t->dim[i] == want[i]) continue;
        rdg_plan_fail(p, RDG_E_MALFORMED,
                      "tensor '%s' has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                      "], the hyper-parameters ask for [%" PRId64 ", %" PRId64 ", %" PRId64 ", 1]",
                      name, t->dim[0], t->dim[1], t->dim[2], t->dim[3], want[0], want[1], want[2]);
        return RDG_NO_VALUE;
    }
    for (size_t i = 0; i < p->n_values; i++)
        if (p->values[i].weight == t) return (rdg_value_id)i;
    rdg_tensor shape;
    rdg_tensor_init(&shape, t->type, t->dim[0], t->dim[1], t->dim[2], t->dim[3]);
    rdg_value_id v = rdg_plan_new_value(p, RDG_VALUE_WEIGHT, t->name, &shape);
    if (v != RDG_NO_VALUE) p->values[v].weight = t;
    return v;
}

rdg_value_id rdg_plan_weight(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    return find_weight(p, name, d0, d1, d2, true);
}

rdg_value_id rdg_plan_weight_optional(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    return find_weight(p, name, d0, d1, d2, false);
}

static rdg_value_id find_block_weight(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2,
                                      bool required)
{
    char full[128];
    snprintf(full, sizeof full, "blk.%d.%s", p->layer, name);
    return find_weight(p, full, d0, d1, d2, required);
}

rdg_value_id rdg_plan_block_weight(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    return find_block_weight(p, name, d0, d1, d2, true);
}

rdg_value_id rdg_plan_block_weight_optional(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    return find_block_weight(p, name, d0, d1, d2, false);
}

/* Views
 * ------------------------------------------------------------------------------------------------------- */

static rdg_value_id new_view(rdg_plan *p, rdg_value_id x, int64_t offset_bytes, const rdg_tensor *shape)
{
    const rdg_value *from = &p->values[x];
    rdg_value_id base = from->kind == RDG_VALUE_VIEW ? from->base : x;
    int64_t offset = (from->kind == RDG_VALUE_VIEW ? from->offset_bytes : 0) + offset_bytes;
    rdg_value_id v = rdg_plan_new_value(p, RDG_VALUE_VIEW, from->name, shape);
    if (v == RDG_NO_VALUE) return v;
    p->values[v].base = base;
    p->values[v].offset_bytes = offset;
    return v;
}

rdg_value_id rdg_plan_reshape(rdg_plan *p, rdg_value_id x, int64_t d0, int64_t d1, int64_t d2)
{
    if (rdg_plan_failed(p)) return RDG_NO_VALUE;
    const rdg_tensor *s = rdg_plan_shape(p, x);
    rdg_tensor fresh;
    rdg_tensor_init(&fresh, s->type, d0, d1 ? d1 : 1, d2 ? d2 : 1, 1);
    if (rdg_tensor_n_elements(&fresh) != rdg_tensor_n_elements(s)) {
        rdg_plan_fail(p, RDG_E_INTERNAL, "reshape of '%s' changes the number of elements", p->values[x].name);
        return RDG_NO_VALUE;
    }
    if (rdg_tensor_dense(s)) return new_view(p, x, 0, &fresh);
    /* Rows apart from each other (a slice of a fused product): dim 0 may be split into heads, nothing else.
     */
    if (s->dim[2] != 1 || s->dim[3] != 1 || fresh.dim[0] * fresh.dim[1] != s->dim[0] ||
        fresh.dim[2] != s->dim[1]) {
        rdg_plan_fail(p, RDG_E_INTERNAL, "reshape of the strided value '%s' is not possible",
                      p->values[x].name);
        return RDG_NO_VALUE;
    }
    fresh.stride[2] = s->stride[1];
    fresh.stride[3] = s->stride[1] * fresh.dim[2];
    return new_view(p, x, 0, &fresh);
}

rdg_value_id rdg_plan_slice(rdg_plan *p, rdg_value_id x, int64_t first, int64_t n)
{
    if (rdg_plan_failed(p)) return RDG_NO_VALUE;
    rdg_tensor s = *rdg_plan_shape(p, x);
    if (rdg_type_is_quantised(s.type) || first < 0 || n < 1 || first + n > s.dim[0]) {
        rdg_plan_fail(p, RDG_E_INTERNAL, "slice %" PRId64 " + %" PRId64 " of '%s' is out of range", first, n,
                      p->values[x].name);
        return RDG_NO_VALUE;
    }
    s.dim[0] = n;
    return new_view(p, x, first * s.stride[0], &s);
}

/* Calls
 * ------------------------------------------------------------------------------------------------------- */

void rdg_plan_call(const rdg_plan *p, size_t i, rdg_op_call *call)
{
    const rdg_node *node = &p->nodes[i];
    memset(call, 0, sizeof *call);
    call->op = node->op;
    for (int k = 0; k < node->op->n_operands; k++)
        if (node->operand[k] != RDG_NO_VALUE) call->operand[k] = p->values[node->operand[k]].shape;
    memcpy(call->params.bytes, node->params, RDG_OP_PARAM_BYTES);
    call->n_visible = p->options.n_ctx;
    rdg_attention_params ap;
    memcpy(&ap, node->params, sizeof ap);
    if (node->op == &rdg_op_attention && !ap.causal)
        call->n_visible = call->operand[RDG_ATTENTION_K].dim[1]; /* no cache: the tokens of the batch */
}

rdg_err rdg_plan_finish(rdg_plan *p, bool fuse, rdg_error *e)
{
    if (!rdg_plan_failed(p) && p->logits == RDG_NO_VALUE && p->options.n_outputs > 0 &&
        !p->options.embeddings)
        rdg_plan_fail(p, RDG_E_INTERNAL, "the model file declared no logits");
    if (!rdg_plan_failed(p)) rdg_plan_fuse(p, fuse);
    for (size_t i = 0; i < p->n_nodes && !rdg_plan_failed(p); i++) {
        rdg_op_call call;
        rdg_error why = {0};
        rdg_plan_call(p, i, &call);
        if (rdg_op_check(&call, &why))
            rdg_plan_fail(p, why.code, "operation %zu (%s %s, block %d): %s", i, p->nodes[i].op->name,
                          p->nodes[i].tag ? p->nodes[i].tag : "", p->nodes[i].layer, why.message);
    }
    if (!rdg_plan_failed(p)) rdg_plan_place(p);
    if (rdg_plan_failed(p)) {
        if (e) *e = p->error;
        return p->error.code;
    }
    return RDG_OK;
}

void rdg_plan_describe(const rdg_plan *p, rdg_buf *out)
{
    for (size_t i = 0; i < p->n_nodes; i++) {
        const rdg_node *n = &p->nodes[i];
        rdg_buf_printf(out, "%4zu  %3d  %-10s %-14s", i, n->layer, n->op->name, n->tag ? n->tag : "");
        for (int k = 0; k < n->op->n_operands; k++) {
            if (n->operand[k] == RDG_NO_VALUE) continue;
            const rdg_value *v = &p->values[n->operand[k]];
            rdg_buf_printf(out, " %s=%s%s[%" PRId64 ",%" PRId64 ",%" PRId64 "]", n->op->operands[k].name,
                           v->name ? v->name : "", rdg_type_name(v->shape.type), v->shape.dim[0],
                           v->shape.dim[1], v->shape.dim[2]);
        }
        rdg_buf_putc(out, '\n');
    }
}
