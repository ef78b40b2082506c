#include "ops/mul/mul.h"
#include "ops/mul/mul_cases.h"
#include "ops/mul/mul_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    rdg_want_type(&k, RDG_MUL_A, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_MUL_B, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_MUL_OUT, RDG_TYPE_F32);
    rdg_want_broadcast(&k, RDG_MUL_B, RDG_MUL_A);
    rdg_want_same_dims(&k, RDG_MUL_OUT, RDG_MUL_A);
    rdg_want_in_place_or_apart(&k, RDG_MUL_OUT, RDG_MUL_A);
    rdg_want_apart(&k, RDG_MUL_OUT, RDG_MUL_B);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    rdg_cost_elementwise(call, 1, c);
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *a = &call->operand[RDG_MUL_A], *b = &call->operand[RDG_MUL_B];
    double *o = out[RDG_MUL_OUT];
    (void)e;
    for (int64_t i3 = 0; i3 < a->dim[3]; i3++)
        for (int64_t i2 = 0; i2 < a->dim[2]; i2++)
            for (int64_t i1 = 0; i1 < a->dim[1]; i1++)
                for (int64_t i0 = 0; i0 < a->dim[0]; i0++)
                    *o++ = rdg_tensor_get(a, i0, i1, i2, i3) *
                           rdg_tensor_get(b, b->dim[0] == 1 ? 0 : i0, b->dim[1] == 1 ? 0 : i1,
                                          b->dim[2] == 1 ? 0 : i2, b->dim[3] == 1 ? 0 : i3);
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {
    {"a", RDG_OPERAND_IN}, {"b", RDG_OPERAND_IN}, {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_mul_c, &rdg_mul_vulkan, NULL};

const rdg_op rdg_op_mul = {
    .name = "mul",
    .summary = "out = a * b, b broadcast",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_ULP, 1},
    .variants = variants,
    .cases = &rdg_mul_cases,
};
