/* A part of a plan as a plan of its own, for models whose layers lie on more than one device. What crosses a
 * boundary is one value, the hidden state: the part behind it reads it as an input. */
#include "graph/plan_internal.h"

#include <string.h>

rdg_value_id rdg_plan_crossing(const rdg_plan *p, size_t node, rdg_error *e)
{
    rdg_value_id found = RDG_NO_VALUE;
    for (size_t i = 0; i < p->n_values; i++) {
        const rdg_value *v = &p->values[i];
        if (v->kind != RDG_VALUE_SCRATCH || v->first_use < 0 || (size_t)v->first_use >= node ||
            (size_t)v->last_use < node)
            continue;
        if (found != RDG_NO_VALUE || v->shape.type != RDG_TYPE_F32 || !rdg_tensor_dense(&v->shape)) {
            rdg_fail(
                e, RDG_E_UNSUPPORTED,
                "this model cannot be divided before operation %zu: more than the hidden state is needed "
                "on both sides",
                node);
            return RDG_NO_VALUE;
        }
        found = (rdg_value_id)i;
    }
    if (found == RDG_NO_VALUE)
        rdg_fail(e, RDG_E_UNSUPPORTED, "this model cannot be divided before operation %zu: nothing crosses",
                 node);
    return found;
}

typedef struct cutter {
    const rdg_plan *from;
    rdg_plan *to;
    rdg_value_id *map; /* by value of `from`; RDG_NO_VALUE = not needed so far */
    rdg_value_id in, out;
} cutter;

/* The state of the same name in the new plan. */
static int32_t carry_state(cutter *c, int32_t key)
{
    rdg_plan *p = c->to;
    if (!rdg_grow(&p->states, p->n_states, &p->cap_states, sizeof *p->states)) {
        rdg_plan_fail(p, RDG_E_NOMEM, "no memory for a plan of %zu states", p->n_states);
        return -1;
    }
    p->states[p->n_states] = c->from->states[key];
    return (int32_t)p->n_states++;
}

static rdg_value_id carry(cutter *c, rdg_value_id v)
{
    if (v == RDG_NO_VALUE || c->map[v] != RDG_NO_VALUE || rdg_plan_failed(c->to))
        return v == RDG_NO_VALUE ? v : c->map[v];
    rdg_value copy = c->from->values[v];
    if (copy.kind == RDG_VALUE_VIEW) copy.base = carry(c, copy.base);
    if (copy.kind == RDG_VALUE_STATE) copy.state_key = carry_state(c, copy.state_key);
    if (v == c->in) copy.kind = RDG_VALUE_INPUT;
    if (v == c->out) copy.kind = RDG_VALUE_OUTPUT;
    copy.place = copy.first_use = copy.last_use = -1;
    c->map[v] = rdg_plan_new_value(c->to, copy.kind, copy.name, &copy.shape);
    if (c->map[v] != RDG_NO_VALUE) c->to->values[c->map[v]] = copy;
    return c->map[v];
}

rdg_err rdg_plan_cut(const rdg_plan *p, size_t first, size_t end, rdg_value_id in, rdg_value_id out,
                     rdg_plan **part, rdg_error *e)
{
    rdg_err rc = rdg_plan_create(p->gguf, &p->options, part, e);
    if (rc) return rc;
    rdg_plan *to = *part;
    cutter c = {.from = p, .to = to, .in = in, .out = out};
    c.map = rdg_alloc_array(p->n_values, sizeof *c.map);
    if (!c.map) {
        rdg_plan_fail(to, RDG_E_NOMEM, "no memory for a plan of %zu values", p->n_values);
        goto done;
    }
    for (size_t i = 0; i < p->n_values; i++) c.map[i] = RDG_NO_VALUE;
    c.map[p->tokens] = to->tokens;
    c.map[p->positions] = to->positions;
    if (p->output_rows != RDG_NO_VALUE) c.map[p->output_rows] = to->output_rows;
    to->carried = carry(&c, in);
    for (size_t i = first; i < end && !rdg_plan_failed(to); i++) {
        const rdg_node *n = &p->nodes[i];
        rdg_value_id operands[RDG_MAX_OPERANDS];
        for (int k = 0; k < RDG_MAX_OPERANDS; k++) operands[k] = carry(&c, n->operand[k]);
        rdg_plan_set_layer(to, n->layer);
        rdg_plan_append(to, n->op, operands, n->params, n->tag);
    }
    if (out != RDG_NO_VALUE)
        to->hidden = c.map[out];
    else {
        if (p->hidden != RDG_NO_VALUE) to->hidden = c.map[p->hidden];
        if (p->logits != RDG_NO_VALUE) to->logits = c.map[p->logits];
    }
    if (!rdg_plan_failed(to)) rdg_plan_place(to);
done:
    rdg_free(c.map);
    if (!rdg_plan_failed(to)) return RDG_OK;
    rc = rdg_fail(e, to->error.code, "%s", to->error.message);
    rdg_plan_destroy(to);
    *part = NULL;
    return rc;
}
