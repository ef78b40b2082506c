#include "ops/layernorm/layernorm.h"
#include "ops/layernorm/layernorm_cases.h"
#include "ops/layernorm/layernorm_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *x = &call->operand[RDG_LAYERNORM_X];
    rdg_want_type(&k, RDG_LAYERNORM_X, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_LAYERNORM_OUT, RDG_TYPE_F32);
    for (int i = RDG_LAYERNORM_WEIGHT; i <= RDG_LAYERNORM_BIAS; i++) {
        rdg_want_type(&k, i, RDG_TYPE_F32);
        rdg_want_dims(&k, i, x->dim[0], call->operand[i].dim[1] == 1 ? 1 : x->dim[1], 1, 1);
    }
    rdg_want_same_dims(&k, RDG_LAYERNORM_OUT, RDG_LAYERNORM_X);
    rdg_want_in_place_or_apart(&k, RDG_LAYERNORM_OUT, RDG_LAYERNORM_X);
    rdg_want(&k, RDG_PARAMS(call, rdg_layernorm_params)->eps >= 0.0f, "eps is %g, it must not be negative",
             (double)RDG_PARAMS(call, rdg_layernorm_params)->eps);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_elementwise(call, 8, c); /* sum, difference, square and add, three for scale, weight and bias */
}

static double affine(const rdg_tensor *t, int64_t i, int64_t i1, double absent)
{
    return rdg_tensor_present(t) ? rdg_tensor_get(t, i, t->dim[1] == 1 ? 0 : i1, 0, 0) : absent;
}

typedef struct moments {
    double mean, scale, rms; /* scale: 1 / sqrt(variance + eps); rms: of x itself */
} moments;

static moments moments_of(const rdg_op_call *call, int64_t i1, int64_t i2, int64_t i3)
{
    const rdg_tensor *x = &call->operand[RDG_LAYERNORM_X];
    const double n = (double)x->dim[0], eps = (double)RDG_PARAMS(call, rdg_layernorm_params)->eps;
    double sum = 0, squares = 0, variance = 0;
    for (int64_t i = 0; i < x->dim[0]; i++) {
        sum += rdg_tensor_get(x, i, i1, i2, i3);
        squares += pow(rdg_tensor_get(x, i, i1, i2, i3), 2);
    }
    for (int64_t i = 0; i < x->dim[0]; i++) variance += pow(rdg_tensor_get(x, i, i1, i2, i3) - sum / n, 2);
    return (moments){.mean = sum / n, .scale = 1.0 / sqrt(variance / n + eps), .rms = sqrt(squares / n)};
}

/* The value of every element, or with `sizes` what its rounding is measured by: the mean is as wrong as the
 * elements are large, however near they are to each other, and the bias may take nearly all of an element
 * away. */
static void elements(const rdg_op_call *call, bool sizes, double *o)
{
    const rdg_tensor *x = &call->operand[RDG_LAYERNORM_X], *weight = &call->operand[RDG_LAYERNORM_WEIGHT],
                     *bias = &call->operand[RDG_LAYERNORM_BIAS];
    for (int64_t i3 = 0; i3 < x->dim[3]; i3++)
        for (int64_t i2 = 0; i2 < x->dim[2]; i2++)
            for (int64_t i1 = 0; i1 < x->dim[1]; i1++) {
                const moments m = moments_of(call, i1, i2, i3);
                for (int64_t i = 0; i < x->dim[0]; i++) {
                    const double d = rdg_tensor_get(x, i, i1, i2, i3) - m.mean,
                                 w = affine(weight, i, i1, 1.0), b = affine(bias, i, i1, 0.0);
                    *o++ = sizes ? fabs(w) * fmax(fabs(d), m.rms) * m.scale + fabs(b) : w * d * m.scale + b;
                }
            }
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    (void)e;
    elements(call, false, out[RDG_LAYERNORM_OUT]);
    return RDG_OK;
}

static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    (void)rounding;
    (void)e;
    elements(call, true, out[RDG_LAYERNORM_OUT]);
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {{"x", RDG_OPERAND_IN},
                                            {"weight", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                            {"bias", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                            {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_layernorm_c, &rdg_layernorm_vulkan, NULL};

const rdg_op rdg_op_layernorm = {
    .name = "layernorm",
    .summary = "out = weight * (x - mean(x)) / sqrt(var(x) + eps) + bias",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_layernorm_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 1e-6},
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_layernorm_cases,
};
