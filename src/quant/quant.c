/* The table of formats, and the public row functions on top of it. */
#include "quant/quant.h"
#include "format/verify.h"
#include "quant/search.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/half.h"

#include <float.h>
#include <math.h>
#include <string.h>

const rdg_quant_op rdg_quant_ops[RDG_TYPE_COUNT] = {
    [RDG_TYPE_F32] = {rdg_f32_dequantise, rdg_f32_quantise},
    [RDG_TYPE_F16] = {rdg_f16_dequantise, rdg_f16_quantise, 1, {0}},
    [RDG_TYPE_BF16] = {rdg_bf16_dequantise, rdg_bf16_quantise},
    [RDG_TYPE_Q4_0] = {rdg_q4_0_dequantise, rdg_q4_0_quantise, 1, {0}},
    [RDG_TYPE_Q4_1] = {rdg_q4_1_dequantise, rdg_q4_1_quantise, 2, {0, 2}},
    [RDG_TYPE_Q5_0] = {rdg_q5_0_dequantise, rdg_q5_0_quantise, 1, {0}},
    [RDG_TYPE_Q5_1] = {rdg_q5_1_dequantise, rdg_q5_1_quantise, 2, {0, 2}},
    [RDG_TYPE_Q8_0] = {rdg_q8_0_dequantise, rdg_q8_0_quantise, 1, {0}},
    [RDG_TYPE_Q8_1] = {rdg_q8_1_dequantise, rdg_q8_1_quantise, 2, {0, 2}},
    [RDG_TYPE_Q8_K] = {rdg_q8_k_dequantise, rdg_q8_k_quantise},
    [RDG_TYPE_Q2_K] = {rdg_q2_k_dequantise, rdg_q2_k_quantise, 2, {80, 82}},
    [RDG_TYPE_Q3_K] = {rdg_q3_k_dequantise, rdg_q3_k_quantise, 1, {108}},
    [RDG_TYPE_Q4_K] = {rdg_q4_k_dequantise, rdg_q4_k_quantise, 2, {0, 2}},
    [RDG_TYPE_Q5_K] = {rdg_q5_k_dequantise, rdg_q5_k_quantise, 2, {0, 2}},
    [RDG_TYPE_Q6_K] = {rdg_q6_k_dequantise, rdg_q6_k_quantise, 1, {208}},
    [RDG_TYPE_IQ4_NL] = {rdg_iq4_nl_dequantise, rdg_iq4_nl_quantise, 1, {0}},
    [RDG_TYPE_IQ4_XS] = {rdg_iq4_xs_dequantise, rdg_iq4_xs_quantise, 1, {0}},
    [RDG_TYPE_MXFP4] = {rdg_mxfp4_dequantise, rdg_mxfp4_quantise},
    [RDG_TYPE_NVFP4] = {rdg_nvfp4_dequantise, rdg_nvfp4_quantise},
    [RDG_TYPE_Q1_0] = {rdg_q1_0_dequantise, rdg_q1_0_quantise, 1, {0}},
    [RDG_TYPE_Q2_0] = {rdg_q2_0_dequantise, rdg_q2_0_quantise, 1, {0}},
    [RDG_TYPE_TQ1_0] = {rdg_tq1_0_dequantise, NULL, 1, {52}},
    [RDG_TYPE_TQ2_0] = {rdg_tq2_0_dequantise, rdg_tq2_0_quantise, 1, {64}},
};

bool rdg_type_can_dequantise(rdg_type t)
{
    return rdg_type_valid(t) && rdg_quant_ops[t].dequantise;
}

bool rdg_type_can_quantise(rdg_type t)
{
    return rdg_type_valid(t) && rdg_quant_ops[t].quantise;
}

static rdg_err row_bytes(rdg_type t, int64_t n_rows, int64_t n_columns, int64_t *bytes, rdg_error *e)
{
    *bytes = rdg_type_row_bytes(t, n_columns);
    if (*bytes < 0)
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "%lld columns are not a positive multiple of the %lld elements of a %s block",
                        (long long)n_columns, (long long)rdg_type_block_elems(t), rdg_type_name(t));
    if (n_rows < 0) return rdg_fail(e, RDG_E_ARGUMENT, "number of rows is %lld", (long long)n_rows);
    return RDG_OK;
}

rdg_err rdg_dequantise_rows(rdg_type t, const void *src, float *dst, int64_t n_rows, int64_t n_columns,
                            rdg_error *e)
{
    int64_t bytes;
    if (!rdg_type_can_dequantise(t))
        return rdg_fail(e, RDG_E_UNSUPPORTED, "type %s (%d) cannot be dequantised", rdg_type_name(t), (int)t);
    rdg_err err = row_bytes(t, n_rows, n_columns, &bytes, e);
    if (err) return err;
    for (int64_t r = 0; r < n_rows; r++)
        rdg_quant_ops[t].dequantise((const unsigned char *)src + r * bytes, dst + r * n_columns, n_columns);
    return RDG_OK;
}

/* The first element that is not finite or beyond limit, or -1. */
static int64_t find_outside(const float *x, int64_t n, float limit)
{
    for (int64_t i = 0; i < n;) { /* branch-free pieces, so that the usual case is fast */
        int64_t end = i + 1024 < n ? i + 1024 : n, j = i;
        int outside = 0;
        for (; j < end; j++) outside |= !(fabsf(x[j]) <= limit);
        if (outside)
            for (j = i; j < end; j++)
                if (!(fabsf(x[j]) <= limit)) return j;
        i = end;
    }
    return -1;
}

/* Beyond these the sums of a search could overflow; the first is also more than any f16 scale can reach. */
static const float max_element = 1e9f, max_importance = 1e15f;

rdg_err rdg_importance_check(const float *importance, int64_t n_columns, rdg_error *e)
{
    for (int64_t i = 0; i < n_columns; i++)
        if (!(importance[i] >= 0.0f && importance[i] <= max_importance))
            return rdg_fail(e, RDG_E_MALFORMED, "importance of column %lld is %g, not in 0 … %g",
                            (long long)i, importance[i], max_importance);
    return RDG_OK;
}

rdg_err rdg_quantise_row(const rdg_search *search, rdg_type t, const float *src, void *dst, int64_t n_columns,
                         const float *importance, int64_t row, rdg_error *e)
{
    float limit = rdg_quant_ops[t].n_halves && rdg_type_is_quantised(t) ? max_element : FLT_MAX;
    int64_t bad = find_outside(src, n_columns, limit);
    if (bad >= 0)
        return rdg_fail(e, RDG_E_MALFORMED, "row %lld column %lld: the value %g cannot be stored as %s",
                        (long long)row, (long long)bad, src[bad], rdg_type_name(t));
    rdg_quant_ops[t].quantise(search, src, dst, n_columns, importance);
    if (rdg_blocks_not_finite(t, dst, n_columns / rdg_type_block_elems(t), &bad))
        return rdg_fail(e, RDG_E_MALFORMED,
                        "row %lld, columns from %lld: the values are too large for the f16 scales of %s",
                        (long long)row, (long long)(bad * rdg_type_block_elems(t)), rdg_type_name(t));
    return RDG_OK;
}

rdg_err rdg_quantise_rows(rdg_type t, const float *src, void *dst, int64_t n_rows, int64_t n_columns,
                          const float *importance, rdg_error *e)
{
    int64_t bytes;
    if (!rdg_type_can_quantise(t))
        return rdg_fail(e, RDG_E_UNSUPPORTED, "quantising to type %s (%d) is not supported", rdg_type_name(t),
                        (int)t);
    rdg_err err = row_bytes(t, n_rows, n_columns, &bytes, e);
    if (!err && importance) err = rdg_importance_check(importance, n_columns, e);
    if (err) return err;
    const rdg_search *search = rdg_search_best(rdg_cpu_features());
    for (int64_t r = 0; r < n_rows && !err; r++)
        err = rdg_quantise_row(search, t, src + r * n_columns, (unsigned char *)dst + r * bytes, n_columns,
                               importance, r, e);
    return err;
}
