/* Passes over the node list. Each looks for one pattern, rewrites it in place and leaves dead nodes behind,
 * which the last pass drops. A pass changes what is launched, never what is computed beyond rounding. */
#include "graph/plan_internal.h"
#include "ops/add/add.h"
#include "ops/combine/combine.h"
#include "ops/matmul/matmul.h"

#include <string.h>

/* How many operands read the memory of a value. */
static int count_reads(const rdg_plan *p, rdg_value_id v)
{
    int reads = 0;
    for (size_t i = 0; i < p->n_nodes; i++) {
        const rdg_node *n = &p->nodes[i];
        for (int k = 0; k < n->op->n_operands; k++)
            if ((n->op->operands[k].flags & RDG_OPERAND_IN) && n->operand[k] != RDG_NO_VALUE &&
                rdg_plan_base(p, n->operand[k]) == v)
                reads++;
    }
    return reads;
}

static bool same_shape(const rdg_plan *p, rdg_value_id a, rdg_value_id b)
{
    const rdg_tensor *x = &p->values[a].shape, *y = &p->values[b].shape;
    return !memcmp(x->dim, y->dim, sizeof x->dim) && !memcmp(x->stride, y->stride, sizeof x->stride);
}

/* x + W y: the add right behind a product (or a combine) becomes its residual operand. */
static void fuse_residual(rdg_plan *p)
{
    for (size_t i = 1; i < p->n_nodes; i++) {
        rdg_node *add = &p->nodes[i], *product = &p->nodes[i - 1];
        if (add->op != &rdg_op_add) continue;
        int residual_slot, out_slot;
        if (product->op == &rdg_op_matvec || product->op == &rdg_op_matmul) {
            residual_slot = RDG_MATMUL_RESIDUAL;
            out_slot = RDG_MATMUL_OUT;
        } else if (product->op == &rdg_op_combine) {
            residual_slot = RDG_COMBINE_RESIDUAL;
            out_slot = RDG_COMBINE_OUT;
        } else {
            continue;
        }
        const rdg_add_params *ap = (const rdg_add_params *)add->params;
        rdg_value_id result = product->operand[out_slot], a = add->operand[RDG_ADD_A],
                     b = add->operand[RDG_ADD_B];
        rdg_value_id other = b == result ? a : b;
        if (product->operand[residual_slot] != RDG_NO_VALUE || (a != result && b != result) ||
            other == RDG_NO_VALUE || other == result || ap->a_scale != 1.0f || ap->b_scale != 1.0f)
            continue;
        if (!same_shape(p, other, result) || count_reads(p, result) != 1 ||
            p->values[result].kind != RDG_VALUE_SCRATCH)
            continue;
        product->operand[residual_slot] = other;
        product->operand[out_slot] = add->operand[RDG_ADD_OUT];
        memmove(add, add + 1, (p->n_nodes - i - 1) * sizeof *add);
        p->n_nodes--;
    }
}

/* Nodes that write only scratch nobody reads are dropped, last ones first. */
static void drop_dead(rdg_plan *p)
{
    int32_t *reads = rdg_alloc_array(p->n_values + 1, sizeof *reads);
    bool *dead = rdg_alloc_array(p->n_nodes + 1, sizeof *dead);
    if (!reads || !dead) {
        rdg_plan_fail(p, RDG_E_NOMEM, "no memory for a pass over %zu operations", p->n_nodes);
        goto done;
    }
    for (size_t i = p->n_nodes; i-- > 0;) {
        const rdg_node *n = &p->nodes[i];
        bool needed = false;
        for (int k = 0; k < n->op->n_operands; k++) {
            rdg_value_id v = rdg_plan_base(p, n->operand[k]);
            if (v == RDG_NO_VALUE || !(n->op->operands[k].flags & RDG_OPERAND_OUT)) continue;
            if (p->values[v].kind != RDG_VALUE_SCRATCH || reads[v] > 0) needed = true;
        }
        dead[i] = !needed;
        for (int k = 0; k < n->op->n_operands && needed; k++) {
            rdg_value_id v = rdg_plan_base(p, n->operand[k]);
            if (v != RDG_NO_VALUE && (n->op->operands[k].flags & RDG_OPERAND_IN)) reads[v]++;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < p->n_nodes; i++)
        if (!dead[i]) p->nodes[kept++] = p->nodes[i];
    p->n_nodes = kept;
done:
    rdg_free(dead);
    rdg_free(reads);
}

void rdg_plan_fuse(rdg_plan *p, bool merge)
{
    if (merge) fuse_residual(p);
    drop_dead(p);
}
