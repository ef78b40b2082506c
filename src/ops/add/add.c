#include "ops/add/add.h"
#include "ops/add/add_cases.h"
#include "ops/add/add_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    rdg_want_type(&k, RDG_ADD_A, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_ADD_B, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_ADD_OUT, RDG_TYPE_F32);
    rdg_want_broadcast(&k, RDG_ADD_B, RDG_ADD_A);
    rdg_want_same_dims(&k, RDG_ADD_OUT, RDG_ADD_A);
    rdg_want_in_place_or_apart(&k, RDG_ADD_OUT, RDG_ADD_A);
    if (rdg_tensor_n_elements(&call->operand[RDG_ADD_B]) == rdg_tensor_n_elements(&call->operand[RDG_ADD_A]))
        rdg_want_in_place_or_apart(&k, RDG_ADD_OUT, RDG_ADD_B);
    else
        rdg_want_apart(&k, RDG_ADD_OUT,
                       RDG_ADD_B); /* a broadcast row is read again after it would be overwritten */
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_elementwise(call, rdg_tensor_present(&call->operand[RDG_ADD_B]) ? 3 : 1, c);
}

/* Of b the element that broadcasting puts at i; 0 without b. */
static double addend(const rdg_tensor *b, int64_t i0, int64_t i1, int64_t i2, int64_t i3)
{
    if (!rdg_tensor_present(b)) return 0.0;
    return rdg_tensor_get(b, b->dim[0] == 1 ? 0 : i0, b->dim[1] == 1 ? 0 : i1, b->dim[2] == 1 ? 0 : i2,
                          b->dim[3] == 1 ? 0 : i3);
}

/* The sum, or with `sizes` that of the magnitudes: what its rounding is measured by when the terms cancel. */
static void sum_terms(const rdg_op_call *call, bool sizes, double *o)
{
    const rdg_tensor *a = &call->operand[RDG_ADD_A], *b = &call->operand[RDG_ADD_B];
    const rdg_add_params *p = RDG_PARAMS(call, rdg_add_params);
    for (int64_t i3 = 0; i3 < a->dim[3]; i3++)
        for (int64_t i2 = 0; i2 < a->dim[2]; i2++)
            for (int64_t i1 = 0; i1 < a->dim[1]; i1++)
                for (int64_t i0 = 0; i0 < a->dim[0]; i0++) {
                    const double x = (double)p->a_scale * rdg_tensor_get(a, i0, i1, i2, i3),
                                 y = (double)p->b_scale * addend(b, i0, i1, i2, i3);
                    *o++ = sizes ? fabs(x) + fabs(y) : x + y;
                }
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    (void)e;
    sum_terms(call, false, out[RDG_ADD_OUT]);
    return RDG_OK;
}

static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    (void)rounding;
    (void)e;
    sum_terms(call, true, out[RDG_ADD_OUT]);
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {
    {"a", RDG_OPERAND_IN}, {"b", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL}, {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_add_c, &rdg_add_vulkan, NULL};

const rdg_op rdg_op_add = {
    .name = "add",
    .summary = "out = a_scale * a + b_scale * b, b broadcast",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_add_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_SIZE, 1.8e-7}, /* three roundings of 2^-24 */
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_add_cases,
};
