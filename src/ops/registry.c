/* The operations, and how a call finds its variant. */
#include "ops/act/act.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/combine/combine.h"
#include "ops/embed/embed.h"
#include "ops/experts/experts.h"
#include "ops/glu/glu.h"
#include "ops/kv_store/kv_store.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/mul/mul.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rope/rope.h"
#include "ops/route/route.h"
#include "ops/sample/sample.h"
#include "ops/sumsq/sumsq.h"

#include <string.h>

/* In the order a forward pass meets them. */
static const rdg_op *const ops[] = {
    &rdg_op_embed,    &rdg_op_rmsnorm,   &rdg_op_layernorm, &rdg_op_matvec, &rdg_op_matmul, &rdg_op_rope,
    &rdg_op_kv_store, &rdg_op_attention, &rdg_op_glu,       &rdg_op_act,    &rdg_op_add,    &rdg_op_mul,
    &rdg_op_route,    &rdg_op_experts,   &rdg_op_combine,   &rdg_op_sumsq,  &rdg_op_sample,
};

int rdg_op_count(void)
{
    return RDG_COUNTOF(ops);
}

const rdg_op *rdg_op_at(int i)
{
    return i >= 0 && i < RDG_COUNTOF(ops) ? ops[i] : NULL;
}

const rdg_op *rdg_op_find(const char *name)
{
    for (int i = 0; i < RDG_COUNTOF(ops); i++)
        if (!strcmp(ops[i]->name, name)) return ops[i];
    return NULL;
}

const rdg_variant *rdg_op_select(const rdg_op_call *call, rdg_backend backend, uint32_t features,
                                 const char *wanted)
{
    const rdg_variant *first = NULL;
    for (const rdg_variant *const *v = call->op->variants; *v; v++) {
        if ((*v)->backend != backend || ((*v)->requires_mask & ~features) != 0) continue;
        if ((*v)->accepts && !(*v)->accepts(call)) continue;
        if (!first) first = *v;
        if (!wanted) break;
        if (!strcmp((*v)->name, wanted)) return *v;
    }
    return first;
}

static rdg_err check_operand(const rdg_op_call *call, int i, rdg_error *e)
{
    const rdg_tensor *t = &call->operand[i];
    const char *op = call->op->name, *name = call->op->operands[i].name;
    if (!rdg_tensor_present(t)) {
        if (call->op->operands[i].flags & RDG_OPERAND_OPTIONAL) return RDG_OK;
        return rdg_fail(e, RDG_E_ARGUMENT, "%s: operand %s is missing", op, name);
    }
    if (!rdg_type_valid(t->type))
        return rdg_fail(e, RDG_E_ARGUMENT, "%s: operand %s has no valid type (%d)", op, name, (int)t->type);
    for (int d = 0; d < 4; d++)
        if (t->dim[d] < 1)
            return rdg_fail(e, RDG_E_ARGUMENT, "%s: %s: dim[%d] is %lld, it must be positive", op, name, d,
                            (long long)t->dim[d]);
    int64_t row_bytes = rdg_type_row_bytes(t->type, t->dim[0]);
    if (row_bytes < 0)
        return rdg_fail(
            e, RDG_E_ARGUMENT, "%s: %s: dim[0] is %lld, not a multiple of the %lld elements of a %s block",
            op, name, (long long)t->dim[0], (long long)rdg_type_block_elems(t->type), rdg_type_name(t->type));
    if (t->stride[0] != rdg_type_block_bytes(t->type))
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "%s: %s: rows are not contiguous: stride[0] is %lld, a %s block has %lld bytes", op,
                        name, (long long)t->stride[0], rdg_type_name(t->type),
                        (long long)rdg_type_block_bytes(t->type));
    for (int d = 1; d < 4; d++) {
        if (t->dim[d] > 1 && t->stride[d] < row_bytes)
            return rdg_fail(e, RDG_E_ARGUMENT,
                            "%s: %s: stride[%d] is %lld, less than the %lld bytes of a row", op, name, d,
                            (long long)t->stride[d], (long long)row_bytes);
        if (t->dim[d] > 1 && !rdg_type_is_quantised(t->type) && t->stride[d] % t->stride[0] != 0)
            return rdg_fail(e, RDG_E_ARGUMENT, "%s: %s: stride[%d] is %lld, not a multiple of %lld", op, name,
                            d, (long long)t->stride[d], (long long)t->stride[0]);
    }
    return RDG_OK;
}

rdg_err rdg_op_check(const rdg_op_call *call, rdg_error *e)
{
    if (!call->op) return rdg_fail(e, RDG_E_ARGUMENT, "the call names no operation");
    for (int i = 0; i < call->op->n_operands; i++) {
        rdg_err err = check_operand(call, i, e);
        if (err) return err;
    }
    return call->op->check(call, e);
}
