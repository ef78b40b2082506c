#include "ops/act/act.h"
#include "ops/act/act_cases.h"
#include "ops/act/act_variants.h"
#include "ops/glu/activation.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_act_params *p = RDG_PARAMS(call, rdg_act_params);
    rdg_want_type(&k, RDG_ACT_X, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_ACT_OUT, RDG_TYPE_F32);
    rdg_want_same_dims(&k, RDG_ACT_OUT, RDG_ACT_X);
    rdg_want_in_place_or_apart(&k, RDG_ACT_OUT, RDG_ACT_X);
    rdg_want(&k, p->act >= RDG_ACT_SILU && p->act <= RDG_ACT_TANH,
             "activation %d takes a gate or is not known", (int)p->act);
    rdg_want(&k, p->cap > 0.0f, "cap is %g, it must be positive", (double)p->cap);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_elementwise(call, 6, c);
}

/* The value of every element, or with `sizes` what its rounding is measured by. */
static void elements(const rdg_op_call *call, bool sizes, double *o)
{
    const rdg_tensor *x = &call->operand[RDG_ACT_X];
    const rdg_act_params *p = RDG_PARAMS(call, rdg_act_params);
    const double cap = (double)p->cap;
    for (int64_t i3 = 0; i3 < x->dim[3]; i3++)
        for (int64_t i2 = 0; i2 < x->dim[2]; i2++)
            for (int64_t i1 = 0; i1 < x->dim[1]; i1++)
                for (int64_t i0 = 0; i0 < x->dim[0]; i0++) {
                    const double z = rdg_tensor_get(x, i0, i1, i2, i3) / cap;
                    *o++ = cap * (sizes ? rdg_activation_size : rdg_activation)((rdg_act_kind)p->act, z);
                }
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    (void)e;
    elements(call, false, out[RDG_ACT_OUT]);
    return RDG_OK;
}

static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    (void)rounding;
    (void)e;
    elements(call, true, out[RDG_ACT_OUT]);
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {{"x", RDG_OPERAND_IN}, {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {
#if defined(__x86_64__)
    &rdg_act_avx512, &rdg_act_avx2,
#endif
    &rdg_act_c, &rdg_act_vulkan, NULL};

const rdg_op rdg_op_act = {
    .name = "act",
    .summary = "out = cap * act(x / cap)",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_act_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_ULP, 1}, /* evaluated in double, rounded once */
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_act_cases,
};
