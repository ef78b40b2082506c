#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rmsnorm/rmsnorm_cases.h"
#include "ops/rmsnorm/rmsnorm_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *x = &call->operand[RDG_RMSNORM_X], *weight = &call->operand[RDG_RMSNORM_WEIGHT];
    rdg_want_type(&k, RDG_RMSNORM_X, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_RMSNORM_WEIGHT, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_RMSNORM_OUT, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_RMSNORM_WEIGHT, x->dim[0], weight->dim[1] == 1 ? 1 : x->dim[1], 1, 1);
    rdg_want_same_dims(&k, RDG_RMSNORM_OUT, RDG_RMSNORM_X);
    rdg_want_in_place_or_apart(&k, RDG_RMSNORM_OUT, RDG_RMSNORM_X);
    rdg_want(&k, RDG_PARAMS(call, rdg_rmsnorm_params)->eps >= 0.0f, "eps is %g, it must not be negative",
             (double)RDG_PARAMS(call, rdg_rmsnorm_params)->eps);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_elementwise(call, 4, c); /* square and add, two products */
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *x = &call->operand[RDG_RMSNORM_X], *w = &call->operand[RDG_RMSNORM_WEIGHT];
    const double eps = (double)RDG_PARAMS(call, rdg_rmsnorm_params)->eps;
    double *o = out[RDG_RMSNORM_OUT];
    int64_t n = x->dim[0];
    (void)e;
    for (int64_t i3 = 0; i3 < x->dim[3]; i3++)
        for (int64_t i2 = 0; i2 < x->dim[2]; i2++)
            for (int64_t i1 = 0; i1 < x->dim[1]; i1++) {
                double sum = 0;
                for (int64_t i = 0; i < n; i++) sum += pow(rdg_tensor_get(x, i, i1, i2, i3), 2);
                double scale = 1.0 / sqrt(sum / (double)n + eps);
                for (int64_t i = 0; i < n; i++)
                    *o++ =
                        rdg_tensor_get(x, i, i1, i2, i3) * scale *
                        (rdg_tensor_present(w) ? rdg_tensor_get(w, i, w->dim[1] == 1 ? 0 : i1, 0, 0) : 1.0);
            }
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {
    {"x", RDG_OPERAND_IN}, {"weight", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL}, {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_rmsnorm_c, &rdg_rmsnorm_vulkan, NULL};

const rdg_op rdg_op_rmsnorm = {
    .name = "rmsnorm",
    .summary = "out = weight * x / sqrt(mean(x^2) + eps)",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_rmsnorm_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 1e-6},
    .variants = variants,
    .cases = &rdg_rmsnorm_cases,
};
