#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_contract.h"
#include "ops/matmul/matmul_cases.h"
#include "ops/matmul/matmul_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"
#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>

const rdg_operand_spec rdg_matmul_operands[5] = {{"weight", RDG_OPERAND_IN},
                                                 {"x", RDG_OPERAND_IN},
                                                 {"bias", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                                 {"residual", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                                 {"out", RDG_OPERAND_OUT}};

rdg_err rdg_matmul_check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *x = &call->operand[RDG_MATMUL_X];
    rdg_want_weight(&k, RDG_MATMUL_WEIGHT);
    for (int i = RDG_MATMUL_X; i <= RDG_MATMUL_OUT; i++) rdg_want_type(&k, i, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_MATMUL_WEIGHT, -1, -1, 1, 1);
    rdg_want(&k, rdg_tensor_dense(weight),
             "weight: rows are not contiguous (stride[1] is %lld, a row has %lld bytes)",
             (long long)weight->stride[1], (long long)rdg_type_row_bytes(weight->type, weight->dim[0]));
    rdg_want_dims(&k, RDG_MATMUL_X, weight->dim[0], -1, 1, 1);
    rdg_want_dims(&k, RDG_MATMUL_BIAS, weight->dim[1], 1, 1, 1);
    rdg_want_dims(&k, RDG_MATMUL_RESIDUAL, weight->dim[1], x->dim[1], 1, 1);
    rdg_want_dims(&k, RDG_MATMUL_OUT, weight->dim[1], x->dim[1], 1, 1);
    rdg_want(&k, call->op != &rdg_op_matvec || x->dim[1] <= RDG_MATVEC_MAX_TOKENS,
             "x: %lld tokens are too many, matvec takes up to %d", (long long)x->dim[1],
             RDG_MATVEC_MAX_TOKENS);
    rdg_want_apart(&k, RDG_MATMUL_OUT, RDG_MATMUL_WEIGHT);
    rdg_want_apart(&k, RDG_MATMUL_OUT, RDG_MATMUL_X);
    rdg_want_apart(&k, RDG_MATMUL_OUT, RDG_MATMUL_BIAS);
    rdg_want_in_place_or_apart(&k, RDG_MATMUL_OUT, RDG_MATMUL_RESIDUAL);
    return k.err;
}

void rdg_matmul_cost(const rdg_op_call *call, rdg_cost *cost)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *out = &call->operand[RDG_MATMUL_OUT];
    double n_out = (double)rdg_tensor_n_elements(out);
    rdg_cost_operands(call, cost);
    cost->flops = 2.0 * (double)weight->dim[0] * n_out;
    if (rdg_tensor_present(&call->operand[RDG_MATMUL_BIAS])) cost->flops += n_out;
    if (rdg_tensor_present(&call->operand[RDG_MATMUL_RESIDUAL])) cost->flops += n_out;
}

rdg_err rdg_matmul_reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *x = &call->operand[RDG_MATMUL_X],
                     *bias = &call->operand[RDG_MATMUL_BIAS], *residual = &call->operand[RDG_MATMUL_RESIDUAL];
    const int64_t n_columns = weight->dim[0], n_rows = weight->dim[1], n_tokens = x->dim[1];
    float *w = rdg_alloc_array((size_t)n_columns, sizeof *w);
    rdg_err err =
        w ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for a row of %lld columns", (long long)n_columns);
    for (int64_t r = 0; !err && r < n_rows; r++) {
        err = rdg_dequantise_rows(weight->type, rdg_tensor_row(weight, r, 0, 0), w, 1, n_columns, e);
        for (int64_t t = 0; !err && t < n_tokens; t++) {
            const float *v = rdg_tensor_row(x, t, 0, 0);
            double sum = 0.0;
            for (int64_t c = 0; c < n_columns; c++) sum += (double)w[c] * (double)v[c];
            if (rdg_tensor_present(bias)) sum += rdg_tensor_get(bias, r, 0, 0, 0);
            if (rdg_tensor_present(residual)) sum += rdg_tensor_get(residual, r, t, 0, 0);
            out[RDG_MATMUL_OUT][t * n_rows + r] = sum;
        }
    }
    rdg_free(w);
    return err;
}

static void largest_of_block(float *w, int64_t n)
{
    for (int64_t first = 0; first < n; first += 32) {
        const int64_t end = RDG_MIN(first + 32, n);
        float largest = 0.0f;
        for (int64_t i = first; i < end; i++) largest = fmaxf(largest, fabsf(w[i]));
        for (int64_t i = first; i < end; i++) w[i] = largest;
    }
}

/* rdg_product_size of each sum, with what f32 may lose of bias and residual on top. */
rdg_err rdg_matmul_magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *x = &call->operand[RDG_MATMUL_X],
                     *bias = &call->operand[RDG_MATMUL_BIAS], *residual = &call->operand[RDG_MATMUL_RESIDUAL];
    const int64_t n_columns = weight->dim[0], n_rows = weight->dim[1];
    double *variance;
    rdg_err err = rdg_rounding_variances(x, weight->type, rounding, &variance, e);
    if (err) return err;
    const double added = variance ? 1e-6 : 1.0;
    float *w = rdg_alloc_array((size_t)n_columns, sizeof *w);
    if (!w) err = rdg_fail(e, RDG_E_NOMEM, "no memory for a row of %lld columns", (long long)n_columns);
    for (int64_t r = 0; !err && r < n_rows; r++) {
        rdg_quant_ops[weight->type].dequantise(rdg_tensor_row(weight, r, 0, 0), w, n_columns);
        if (rounding == RDG_ROUNDS_TO_HALF && rdg_type_is_quantised(weight->type))
            largest_of_block(w, n_columns);
        for (int64_t t = 0; t < x->dim[1]; t++) {
            double size = rdg_product_size(w, rdg_tensor_row(x, t, 0, 0),
                                           variance ? variance + t * n_columns : NULL, n_columns);
            if (rdg_tensor_present(bias)) size += added * fabs(rdg_tensor_get(bias, r, 0, 0, 0));
            if (rdg_tensor_present(residual)) size += added * fabs(rdg_tensor_get(residual, r, t, 0, 0));
            out[RDG_MATMUL_OUT][t * n_rows + r] = size;
        }
    }
    rdg_free(w);
    rdg_free(variance);
    return err;
}

static const rdg_variant *const variants[] = {
#if defined(__x86_64__)
    &rdg_matmul_q8_avx512, &rdg_matmul_float_avx512, &rdg_matmul_q8_avx2, &rdg_matmul_float_avx2,
#endif
    &rdg_matmul_any_c,     &rdg_matmul_f16_vulkan,   &rdg_matmul_vulkan,  NULL};

const rdg_op rdg_op_matmul = {
    .name = "matmul",
    .summary = "out[r, t] = sum_c weight[c, r] * x[c, t] + bias[r] + residual[r, t], many tokens",
    .operands = rdg_matmul_operands,
    .n_operands = RDG_COUNTOF(rdg_matmul_operands),
    .check = rdg_matmul_check,
    .cost = rdg_matmul_cost,
    .reference = rdg_matmul_reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 2e-6},
    .magnitude = rdg_matmul_magnitude,
    .variants = variants,
    .cases = &rdg_matmul_cases,
};
