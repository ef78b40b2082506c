#include "ops/glu/glu.h"
#include "ops/glu/glu_cases.h"
#include "ops/glu/glu_variants.h"
#include "ops/glu/activation.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_glu_params *p = RDG_PARAMS(call, rdg_glu_params);
    rdg_want_type(&k, RDG_GLU_GATE, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_GLU_UP, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_GLU_OUT, RDG_TYPE_F32);
    rdg_want_same_dims(&k, RDG_GLU_UP, RDG_GLU_GATE);
    rdg_want_same_dims(&k, RDG_GLU_OUT, RDG_GLU_GATE);
    rdg_want_in_place_or_apart(&k, RDG_GLU_OUT, RDG_GLU_GATE);
    rdg_want_in_place_or_apart(&k, RDG_GLU_OUT, RDG_GLU_UP);
    rdg_want(&k, p->act >= RDG_ACT_SILU && p->act <= RDG_ACT_SWIGLU_OAI, "activation %d is not known",
             (int)p->act);
    rdg_want(&k, p->act != RDG_ACT_SWIGLU_OAI || p->limit > 0.0f, "limit is %g, it must be positive",
             (double)p->limit);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_elementwise(call, 5, c); /* exp counted as one, 1 + , / , *, * */
}

static double gated(const rdg_glu_params *p, bool size, double g, double u)
{
    if (p->act == RDG_ACT_SWIGLU_OAI) {
        const double limit = (double)p->limit, alpha = (double)p->alpha;
        g = fmin(g, limit);
        u = fmax(-limit, fmin(u, limit));
        return size ? rdg_swish_size(g, alpha) * fabs(u + 1.0) : rdg_swish(g, alpha) * (u + 1.0);
    }
    const rdg_act_kind kind = (rdg_act_kind)p->act;
    return size ? rdg_activation_size(kind, g) * fabs(u) : rdg_activation(kind, g) * u;
}

/* The value of every element, or with `sizes` what its rounding is measured by. */
static void elements(const rdg_op_call *call, bool sizes, double *o)
{
    const rdg_tensor *g = &call->operand[RDG_GLU_GATE], *u = &call->operand[RDG_GLU_UP];
    const rdg_glu_params *p = RDG_PARAMS(call, rdg_glu_params);
    for (int64_t i3 = 0; i3 < g->dim[3]; i3++)
        for (int64_t i2 = 0; i2 < g->dim[2]; i2++)
            for (int64_t i1 = 0; i1 < g->dim[1]; i1++)
                for (int64_t i0 = 0; i0 < g->dim[0]; i0++)
                    *o++ =
                        gated(p, sizes, rdg_tensor_get(g, i0, i1, i2, i3), rdg_tensor_get(u, i0, i1, i2, i3));
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    (void)e;
    elements(call, false, out[RDG_GLU_OUT]);
    return RDG_OK;
}

static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    (void)rounding;
    (void)e;
    elements(call, true, out[RDG_GLU_OUT]);
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {
    {"gate", RDG_OPERAND_IN}, {"up", RDG_OPERAND_IN}, {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {
#if defined(__x86_64__)
    &rdg_glu_avx512, &rdg_glu_avx2,
#endif
    &rdg_glu_c, &rdg_glu_vulkan, NULL};

const rdg_op rdg_op_glu = {
    .name = "glu",
    .summary = "out = act(gate) * up",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_glu_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_ULP, 1}, /* evaluated in double, rounded once */
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_glu_cases,
};
