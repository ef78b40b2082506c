#include "ops/experts/experts.h"
#include "ops/experts/experts_cases.h"
#include "ops/experts/experts_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"
#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *x = &call->operand[RDG_EXPERTS_X],
                     *ids = &call->operand[RDG_EXPERTS_IDS];
    rdg_want_weight(&k, RDG_EXPERTS_WEIGHT);
    rdg_want_type(&k, RDG_EXPERTS_X, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_EXPERTS_IDS, RDG_TYPE_I32);
    rdg_want_type(&k, RDG_EXPERTS_BIAS, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_EXPERTS_OUT, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_EXPERTS_WEIGHT, -1, -1, -1, 1);
    rdg_want_dims(&k, RDG_EXPERTS_IDS, -1, -1, 1, 1);
    rdg_want_dims(&k, RDG_EXPERTS_X, weight->dim[0], x->dim[1] == 1 ? 1 : ids->dim[0], ids->dim[1], 1);
    rdg_want_dims(&k, RDG_EXPERTS_BIAS, weight->dim[1], weight->dim[2], 1, 1);
    rdg_want_dims(&k, RDG_EXPERTS_OUT, weight->dim[1], ids->dim[0], ids->dim[1], 1);
    for (int i = 0; i < RDG_EXPERTS_OUT; i++) rdg_want_apart(&k, RDG_EXPERTS_OUT, i);
    return k.err;
}

/* Every token may pick other experts, up to all of them: the weights read are counted for the most matrices
 * that n_used * n_tokens picks can name. */
static void cost(const rdg_op_call *call, rdg_cost *c)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *ids = &call->operand[RDG_EXPERTS_IDS],
                     *bias = &call->operand[RDG_EXPERTS_BIAS];
    int64_t n_picks = ids->dim[0] * ids->dim[1], n_read = RDG_MIN(n_picks, weight->dim[2]);
    double matrix = (double)weight->dim[0] * (double)weight->dim[1];
    *c = (rdg_cost){0};
    c->bytes_read =
        (double)rdg_type_row_bytes(weight->type, weight->dim[0]) * (double)(weight->dim[1] * n_read) +
        (double)rdg_tensor_bytes(&call->operand[RDG_EXPERTS_X]) + (double)rdg_tensor_bytes(ids);
    c->bytes_written = (double)rdg_tensor_bytes(&call->operand[RDG_EXPERTS_OUT]);
    c->flops = 2.0 * matrix * (double)n_picks;
    if (rdg_tensor_present(bias)) {
        c->bytes_read += (double)(weight->dim[1] * n_read) * sizeof(float);
        c->flops += (double)(weight->dim[1] * n_picks);
    }
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *x = &call->operand[RDG_EXPERTS_X],
                     *ids = &call->operand[RDG_EXPERTS_IDS], *bias = &call->operand[RDG_EXPERTS_BIAS];
    const int64_t n_columns = weight->dim[0], n_rows = weight->dim[1];
    double *o = out[RDG_EXPERTS_OUT];
    float *w = rdg_alloc_array((size_t)n_columns, sizeof *w);
    rdg_err err =
        w ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for a row of %lld columns", (long long)n_columns);
    for (int64_t t = 0; !err && t < ids->dim[1]; t++)
        for (int64_t k = 0; !err && k < ids->dim[0]; k++) {
            int64_t id = (int64_t)rdg_tensor_get(ids, k, t, 0, 0);
            const float *v = rdg_tensor_row(x, RDG_MIN(k, x->dim[1] - 1), t, 0);
            for (int64_t r = 0; !err && r < n_rows; r++) {
                double sum = 0.0;
                err = rdg_dequantise_rows(weight->type, rdg_tensor_row(weight, r, id, 0), w, 1, n_columns, e);
                for (int64_t c = 0; c < n_columns; c++) sum += (double)w[c] * (double)v[c];
                if (rdg_tensor_present(bias)) sum += rdg_tensor_get(bias, r, id, 0, 0);
                *o++ = sum;
            }
        }
    rdg_free(w);
    return err;
}

static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *x = &call->operand[RDG_EXPERTS_X],
                     *ids = &call->operand[RDG_EXPERTS_IDS], *bias = &call->operand[RDG_EXPERTS_BIAS];
    const int64_t n_columns = weight->dim[0];
    double *o = out[RDG_EXPERTS_OUT], *variance;
    rdg_err err = rdg_rounding_variances(x, weight->type, rounding, &variance, e);
    if (err) return err;
    const double added = variance ? 1e-6 : 1.0;
    float *w = rdg_alloc_array((size_t)n_columns, sizeof *w);
    if (!w) err = rdg_fail(e, RDG_E_NOMEM, "no memory for a row of %lld columns", (long long)n_columns);
    for (int64_t t = 0; !err && t < ids->dim[1]; t++)
        for (int64_t k = 0; k < ids->dim[0]; k++) {
            const int64_t id = (int64_t)rdg_tensor_get(ids, k, t, 0, 0), kx = RDG_MIN(k, x->dim[1] - 1);
            const double *lost = variance ? variance + (t * x->dim[1] + kx) * n_columns : NULL;
            for (int64_t r = 0; r < weight->dim[1]; r++) {
                rdg_quant_ops[weight->type].dequantise(rdg_tensor_row(weight, r, id, 0), w, n_columns);
                *o = rdg_product_size(w, rdg_tensor_row(x, kx, t, 0), lost, n_columns);
                if (rdg_tensor_present(bias)) *o += added * fabs(rdg_tensor_get(bias, r, id, 0, 0));
                o++;
            }
        }
    rdg_free(w);
    rdg_free(variance);
    return err;
}

static const rdg_operand_spec operands[] = {{"weight", RDG_OPERAND_IN},
                                            {"x", RDG_OPERAND_IN},
                                            {"ids", RDG_OPERAND_IN},
                                            {"bias", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                            {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {
#if defined(__x86_64__)
    &rdg_experts_q8_avx512, &rdg_experts_q8_avx2,
#endif
    &rdg_experts_any_c, &rdg_experts_vulkan, NULL};

const rdg_op rdg_op_experts = {
    .name = "experts",
    .summary = "out[r, k, t] = sum_c weight[c, r, ids[k, t]] * x[c, k or 0, t] + bias[r, ids[k, t]]",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 2e-6},
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_experts_cases,
};
