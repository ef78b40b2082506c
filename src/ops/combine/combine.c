#include "ops/combine/combine.h"
#include "ops/combine/combine_cases.h"
#include "ops/combine/combine_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *x = &call->operand[RDG_COMBINE_X];
    for (int i = RDG_COMBINE_X; i <= RDG_COMBINE_OUT; i++) rdg_want_type(&k, i, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_COMBINE_X, -1, -1, -1, 1);
    rdg_want_dims(&k, RDG_COMBINE_WEIGHTS, x->dim[1], x->dim[2], 1, 1);
    rdg_want_dims(&k, RDG_COMBINE_RESIDUAL, x->dim[0], x->dim[2], 1, 1);
    rdg_want_dims(&k, RDG_COMBINE_OUT, x->dim[0], x->dim[2], 1, 1);
    rdg_want_apart(&k, RDG_COMBINE_OUT, RDG_COMBINE_X);
    rdg_want_apart(&k, RDG_COMBINE_OUT, RDG_COMBINE_WEIGHTS);
    rdg_want_in_place_or_apart(&k, RDG_COMBINE_OUT, RDG_COMBINE_RESIDUAL);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_operands(call, c);
    c->flops = 2.0 * (double)rdg_tensor_n_elements(&call->operand[RDG_COMBINE_X]);
}

/* The sum, or with `sizes` that of the magnitudes: what its rounding is measured by when the terms cancel. */
static void sum_terms(const rdg_op_call *call, bool sizes, double *o)
{
    const rdg_tensor *x = &call->operand[RDG_COMBINE_X], *w = &call->operand[RDG_COMBINE_WEIGHTS],
                     *residual = &call->operand[RDG_COMBINE_RESIDUAL];
    for (int64_t t = 0; t < x->dim[2]; t++)
        for (int64_t i = 0; i < x->dim[0]; i++) {
            double sum = rdg_tensor_present(residual) ? rdg_tensor_get(residual, i, t, 0, 0) : 0.0;
            if (sizes) sum = fabs(sum);
            for (int64_t k = 0; k < x->dim[1]; k++) {
                const double term = rdg_tensor_get(w, k, t, 0, 0) * rdg_tensor_get(x, i, k, t, 0);
                sum += sizes ? fabs(term) : term;
            }
            *o++ = sum;
        }
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    (void)e;
    sum_terms(call, false, out[RDG_COMBINE_OUT]);
    return RDG_OK;
}

static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    (void)rounding;
    (void)e;
    sum_terms(call, true, out[RDG_COMBINE_OUT]);
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {{"x", RDG_OPERAND_IN},
                                            {"weights", RDG_OPERAND_IN},
                                            {"residual", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                            {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_combine_c, &rdg_combine_vulkan, NULL};

const rdg_op rdg_op_combine = {
    .name = "combine",
    .summary = "out[:, t] = residual[:, t] + sum_k weights[k, t] * x[:, k, t]",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 1e-6},
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_combine_cases,
};
