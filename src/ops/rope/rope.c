#include "ops/rope/rope.h"
#include "ops/rope/rope_cases.h"
#include "ops/rope/rope_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *x = &call->operand[RDG_ROPE_X];
    const rdg_rope_params *p = RDG_PARAMS(call, rdg_rope_params);
    rdg_want_type(&k, RDG_ROPE_X, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_ROPE_POS, RDG_TYPE_I32);
    rdg_want_type(&k, RDG_ROPE_FACTORS, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_ROPE_OUT, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_ROPE_X, -1, -1, -1, 1);
    rdg_want_dims(&k, RDG_ROPE_POS, x->dim[2], 1, 1, 1);
    rdg_want(&k, p->style == RDG_ROPE_NORM || p->style == RDG_ROPE_NEOX, "style %d is not known",
             (int)p->style);
    rdg_want(&k, p->n_dims > 0 && p->n_dims % 2 == 0 && p->n_dims <= x->dim[0],
             "n_dims is %d, it must be even and 2 … %lld (dim[0] of x)", (int)p->n_dims,
             (long long)x->dim[0]);
    rdg_want(&k, p->freq_base > 0.0f, "freq_base is %g, it must be positive", (double)p->freq_base);
    rdg_want_dims(&k, RDG_ROPE_FACTORS, p->n_dims / 2, 1, 1, 1);
    rdg_want_same_dims(&k, RDG_ROPE_OUT, RDG_ROPE_X);
    rdg_want_in_place_or_apart(&k, RDG_ROPE_OUT, RDG_ROPE_X);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_operands(call, c);
    c->flops = 3.0 * (double)RDG_PARAMS(call, rdg_rope_params)->n_dims *
               (double)rdg_tensor_n_rows(&call->operand[RDG_ROPE_X]);
}

static double angle(const rdg_rope_params *p, const rdg_tensor *factors, int64_t i, double pos)
{
    double theta = pos * pow((double)p->freq_base, -2.0 * (double)i / (double)p->n_dims);
    if (rdg_tensor_present(factors)) theta /= rdg_tensor_get(factors, i, 0, 0, 0);
    double interpolated = (double)p->freq_scale * theta;
    if (p->ext_factor == 0.0f) return interpolated;
    double y = ((double)i - (double)p->corr_low) / fmax(0.001, (double)p->corr_high - (double)p->corr_low);
    double ramp = (1.0 - fmin(1.0, fmax(0.0, y))) * (double)p->ext_factor;
    return interpolated * (1.0 - ramp) + theta * ramp;
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *x = &call->operand[RDG_ROPE_X], *pos = &call->operand[RDG_ROPE_POS],
                     *factors = &call->operand[RDG_ROPE_FACTORS];
    const rdg_rope_params *p = RDG_PARAMS(call, rdg_rope_params);
    double *o = out[RDG_ROPE_OUT], magnitude = (double)p->magnitude;
    (void)e;
    for (int64_t t = 0; t < x->dim[2]; t++)
        for (int64_t h = 0; h < x->dim[1]; h++, o += x->dim[0]) {
            for (int64_t i = p->n_dims; i < x->dim[0]; i++) o[i] = rdg_tensor_get(x, i, h, t, 0);
            for (int64_t i = 0; i < p->n_dims / 2; i++) {
                int64_t a = p->style == RDG_ROPE_NORM ? 2 * i : i,
                        b = p->style == RDG_ROPE_NORM ? a + 1 : i + p->n_dims / 2;
                double y = angle(p, factors, i, rdg_tensor_get(pos, t, 0, 0, 0));
                double u = rdg_tensor_get(x, a, h, t, 0), v = rdg_tensor_get(x, b, h, t, 0);
                o[a] = magnitude * (u * cos(y) - v * sin(y));
                o[b] = magnitude * (u * sin(y) + v * cos(y));
            }
        }
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {{"x", RDG_OPERAND_IN},
                                            {"pos", RDG_OPERAND_IN},
                                            {"factors", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                            {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_rope_c, &rdg_rope_vulkan, NULL};

const rdg_op rdg_op_rope = {
    .name = "rope",
    .summary = "out = x with the pairs of its first n_dims elements rotated by pos * freq_base^(-2i/n_dims)",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_rope_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 1e-6},
    .variants = variants,
    .cases = &rdg_rope_cases,
};
