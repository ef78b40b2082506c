/* The table of formats, and the public row functions on top of it. */
#include "quant/quant.h"
#include "base/err.h"

const rdg_quant_op rdg_quant_ops[RDG_TYPE_COUNT] = {
    [RDG_TYPE_F32] = {rdg_f32_dequantise},       [RDG_TYPE_F16] = {rdg_f16_dequantise},
    [RDG_TYPE_BF16] = {rdg_bf16_dequantise},     [RDG_TYPE_Q4_0] = {rdg_q4_0_dequantise},
    [RDG_TYPE_Q4_1] = {rdg_q4_1_dequantise},     [RDG_TYPE_Q5_0] = {rdg_q5_0_dequantise},
    [RDG_TYPE_Q5_1] = {rdg_q5_1_dequantise},     [RDG_TYPE_Q8_0] = {rdg_q8_0_dequantise},
    [RDG_TYPE_Q8_1] = {rdg_q8_1_dequantise},     [RDG_TYPE_Q8_K] = {rdg_q8_k_dequantise},
    [RDG_TYPE_Q2_K] = {rdg_q2_k_dequantise},     [RDG_TYPE_Q3_K] = {rdg_q3_k_dequantise},
    [RDG_TYPE_Q4_K] = {rdg_q4_k_dequantise},     [RDG_TYPE_Q5_K] = {rdg_q5_k_dequantise},
    [RDG_TYPE_Q6_K] = {rdg_q6_k_dequantise},     [RDG_TYPE_IQ4_NL] = {rdg_iq4_nl_dequantise},
    [RDG_TYPE_IQ4_XS] = {rdg_iq4_xs_dequantise}, [RDG_TYPE_MXFP4] = {rdg_mxfp4_dequantise},
    [RDG_TYPE_NVFP4] = {rdg_nvfp4_dequantise},   [RDG_TYPE_Q1_0] = {rdg_q1_0_dequantise},
    [RDG_TYPE_Q2_0] = {rdg_q2_0_dequantise},     [RDG_TYPE_TQ1_0] = {rdg_tq1_0_dequantise},
    [RDG_TYPE_TQ2_0] = {rdg_tq2_0_dequantise},
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
