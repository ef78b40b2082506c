#include "ops/sumsq/sumsq.h"
#include "ops/sumsq/sumsq_cases.h"
#include "ops/sumsq/sumsq_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"
#include "base/mem.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *x = &call->operand[RDG_SUMSQ_X], *ids = &call->operand[RDG_SUMSQ_IDS],
                     *sums = &call->operand[RDG_SUMSQ_SUMS];
    rdg_want_type(&k, RDG_SUMSQ_X, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_SUMSQ_IDS, RDG_TYPE_I32);
    rdg_want_type(&k, RDG_SUMSQ_SUMS, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_SUMSQ_COUNTS, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_SUMSQ_X, -1, -1, -1, 1);
    rdg_want_dims(&k, RDG_SUMSQ_IDS, -1, x->dim[2], 1, 1);
    if (rdg_tensor_present(ids))
        rdg_want(&k, x->dim[1] == 1 || x->dim[1] == ids->dim[0], "x: dim[1] is %lld, it must be 1 or %lld",
                 (long long)x->dim[1], (long long)ids->dim[0]);
    rdg_want_dims(&k, RDG_SUMSQ_SUMS, x->dim[0], -1, 1, 1);
    rdg_want_dims(&k, RDG_SUMSQ_COUNTS, sums->dim[1], 1, 1, 1);
    rdg_want_apart(&k, RDG_SUMSQ_SUMS, RDG_SUMSQ_X);
    rdg_want_apart(&k, RDG_SUMSQ_COUNTS, RDG_SUMSQ_SUMS);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    const rdg_tensor *x = &call->operand[RDG_SUMSQ_X], *ids = &call->operand[RDG_SUMSQ_IDS],
                     *sums = &call->operand[RDG_SUMSQ_SUMS];
    int64_t n_picks = rdg_tensor_present(ids) ? ids->dim[0] * ids->dim[1] : x->dim[1] * x->dim[2];
    /* at most one column of sums a pick is touched */
    int64_t n_touched = rdg_tensor_present(ids) ? RDG_MIN(n_picks, sums->dim[1]) : 1;
    double state = (double)((x->dim[0] + 1) * n_touched) * sizeof(float);
    *c = (rdg_cost){.bytes_read = (double)rdg_tensor_bytes(x) + state, .bytes_written = state};
    if (rdg_tensor_present(ids)) c->bytes_read += (double)rdg_tensor_bytes(ids);
    c->flops = 2.0 * (double)x->dim[0] * (double)n_picks;
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *x = &call->operand[RDG_SUMSQ_X], *ids = &call->operand[RDG_SUMSQ_IDS];
    const int64_t n_matrices = call->operand[RDG_SUMSQ_SUMS].dim[1];
    (void)e;
    for (int64_t t = 0; t < x->dim[2]; t++)
        for (int64_t k = 0; k < (rdg_tensor_present(ids) ? ids->dim[0] : x->dim[1]); k++) {
            int64_t m = rdg_tensor_present(ids) ? (int64_t)rdg_tensor_get(ids, k, t, 0, 0) : 0;
            if (m < 0 || m >= n_matrices) continue;
            for (int64_t c = 0; c < x->dim[0]; c++)
                out[RDG_SUMSQ_SUMS][m * x->dim[0] + c] +=
                    pow(rdg_tensor_get(x, c, RDG_MIN(k, x->dim[1] - 1), t, 0), 2);
            out[RDG_SUMSQ_COUNTS][m] += 1.0;
        }
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {{"x", RDG_OPERAND_IN},
                                            {"ids", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                            {"sums", RDG_OPERAND_INOUT},
                                            {"counts", RDG_OPERAND_INOUT}};
static const rdg_variant *const variants[] = {&rdg_sumsq_c, &rdg_sumsq_vulkan, NULL};

const rdg_op rdg_op_sumsq = {
    .name = "sumsq",
    .summary = "sums[c, m] += sum of x[c, t]^2, counts[m] += number of those, m = ids[t]",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 5e-6}, /* one rounding a token, in order, by contract */
    .variants = variants,
    .cases = &rdg_sumsq_cases,
};
