/* The descriptor functions that matvec and matmul share. */
#ifndef RDG_OPS_MATMUL_CONTRACT_H
#define RDG_OPS_MATMUL_CONTRACT_H

#include "ops/matmul/matmul.h"

extern const rdg_operand_spec rdg_matmul_operands[5];
rdg_err rdg_matmul_check(const rdg_op_call *call, rdg_error *e);
void rdg_matmul_cost(const rdg_op_call *call, rdg_cost *cost);
rdg_err rdg_matmul_reference(const rdg_op_call *call, double *const *out, rdg_error *e);
rdg_err rdg_matmul_magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out,
                             rdg_error *e);

/* The plain C kernel: one weight row at a time is made f32 and multiplied with every token. */
extern const rdg_cpu_kernel rdg_matmul_any_c_kernel;

/* What every CPU variant ends with: bias and residual of one output element. residual may be out itself. */
static inline float rdg_matmul_finish(const rdg_op_call *call, float sum, int64_t row, int64_t token)
{
    const rdg_tensor *bias = &call->operand[RDG_MATMUL_BIAS], *residual = &call->operand[RDG_MATMUL_RESIDUAL];
    if (rdg_tensor_present(bias)) sum += ((const float *)bias->data)[row];
    if (rdg_tensor_present(residual)) sum += ((const float *)rdg_tensor_row(residual, token, 0, 0))[row];
    return sum;
}

#endif
