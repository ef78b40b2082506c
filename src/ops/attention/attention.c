#include "ops/attention/attention.h"
#include "ops/attention/attention_cases.h"
#include "ops/attention/attention_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"
#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q], *keys = &call->operand[RDG_ATTENTION_K],
                     *v = &call->operand[RDG_ATTENTION_V];
    const rdg_attention_params *p = RDG_PARAMS(call, rdg_attention_params);
    rdg_want_type(&k, RDG_ATTENTION_Q, RDG_TYPE_F32);
    rdg_want_cache(&k, RDG_ATTENTION_K);
    rdg_want_cache(&k, RDG_ATTENTION_V);
    rdg_want_type(&k, RDG_ATTENTION_POS, RDG_TYPE_I32);
    rdg_want_type(&k, RDG_ATTENTION_SINKS, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_ATTENTION_OUT, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_ATTENTION_Q, -1, -1, -1, 1);
    rdg_want_dims(&k, RDG_ATTENTION_K, q->dim[0], -1, -1, 1);
    rdg_want_dims(&k, RDG_ATTENTION_V, -1, keys->dim[1], keys->dim[2], 1);
    rdg_want(&k, q->dim[1] % keys->dim[2] == 0, "q: %lld heads are not a multiple of the %lld heads of k",
             (long long)q->dim[1], (long long)keys->dim[2]);
    rdg_want_dims(&k, RDG_ATTENTION_POS, q->dim[2], 1, 1, 1);
    rdg_want_dims(&k, RDG_ATTENTION_SINKS, q->dim[1], 1, 1, 1);
    rdg_want_dims(&k, RDG_ATTENTION_OUT, v->dim[0], q->dim[1], q->dim[2], 1);
    rdg_want(&k, p->softcap >= 0.0f, "softcap is %g, it must not be negative", (double)p->softcap);
    rdg_want(&k, p->window >= 0, "window is %d, it must not be negative", (int)p->window);
    rdg_want(&k, p->causal || (call->n_visible >= 0 && call->n_visible <= keys->dim[1]),
             "n_visible is %lld, there are %lld slots", (long long)call->n_visible, (long long)keys->dim[1]);
    for (int i = 0; i < RDG_ATTENTION_OUT; i++) rdg_want_apart(&k, RDG_ATTENTION_OUT, i);
    return k.err;
}

/* With the tokens of a call at consecutive positions, of which the last sees n_visible keys. */
static void cost(const rdg_op_call *call, rdg_cost *c)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q], *keys = &call->operand[RDG_ATTENTION_K],
                     *v = &call->operand[RDG_ATTENTION_V], *sinks = &call->operand[RDG_ATTENTION_SINKS];
    const rdg_attention_params *p = RDG_PARAMS(call, rdg_attention_params);
    const int64_t n_tokens = q->dim[2], window = p->causal && p->window > 0 ? p->window : INT64_MAX / 2;
    int64_t touched = RDG_MIN(call->n_visible, keys->dim[1]), pairs = 0;
    touched = RDG_MIN(touched, p->causal ? window + n_tokens - 1 : touched);
    for (int64_t t = 0; t < n_tokens; t++) {
        int64_t visible = p->causal ? call->n_visible - (n_tokens - 1 - t) : call->n_visible;
        pairs += RDG_MIN(RDG_MAX(visible, 0), window);
    }
    int64_t slot_bytes =
        rdg_type_row_bytes(keys->type, keys->dim[0]) + rdg_type_row_bytes(v->type, v->dim[0]);
    c->bytes_read = (double)(slot_bytes * touched * keys->dim[2]) + (double)rdg_tensor_bytes(q) +
                    (double)rdg_tensor_bytes(&call->operand[RDG_ATTENTION_POS]);
    if (rdg_tensor_present(sinks)) c->bytes_read += (double)rdg_tensor_bytes(sinks);
    c->bytes_written = (double)rdg_tensor_bytes(&call->operand[RDG_ATTENTION_OUT]);
    /* a score, its scale, difference, exp and sum, and the weighted value */
    c->flops = (double)pairs * (double)q->dim[1] * (2.0 * (double)(q->dim[0] + v->dim[0]) + 4.0);
}

/* One head of one token. score, doubt: room for the visible keys; row: for a key or a value. o: the output,
 * or with `sizes` what its rounding is measured by: each term p_j v_j has its own rounding and that of its
 * score, which is as wrong as the products of q and k are large (doubt), and terms may cancel. */
static void attend(const rdg_op_call *call, int64_t h, int64_t t, bool sizes, double *score, double *doubt,
                   float *row, double *o)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q], *k = &call->operand[RDG_ATTENTION_K],
                     *v = &call->operand[RDG_ATTENTION_V], *sinks = &call->operand[RDG_ATTENTION_SINKS];
    const rdg_attention_params *p = RDG_PARAMS(call, rdg_attention_params);
    const float *query = rdg_tensor_row(q, h, t, 0);
    const int64_t g = h / (q->dim[1] / k->dim[2]), n_slots = k->dim[1];
    const int64_t pos = ((const int32_t *)call->operand[RDG_ATTENTION_POS].data)[t];
    int64_t first = 0, end = p->causal ? pos + 1 : call->n_visible;
    if (p->causal && p->window > 0) first = RDG_MAX(0, pos - p->window + 1);
    for (int64_t i = 0; i < v->dim[0]; i++) o[i] = 0.0;
    if (pos < 0 || end <= first) return;
    double best = rdg_tensor_present(sinks) ? rdg_tensor_get(sinks, h, 0, 0, 0) : -INFINITY, sum = 0.0;
    for (int64_t j = first; j < end; j++) {
        double s = 0.0;
        rdg_quant_ops[k->type].dequantise(rdg_tensor_row(k, j % n_slots, g, 0), row, k->dim[0]);
        for (int64_t i = 0; i < q->dim[0]; i++) s += (double)query[i] * (double)row[i];
        s *= (double)p->scale;
        if (p->softcap > 0.0f) s = (double)p->softcap * tanh(s / (double)p->softcap);
        if (sizes) doubt[j - first] = fabs((double)p->scale) * rdg_product_size(query, row, NULL, q->dim[0]);
        score[j - first] = s;
        best = fmax(best, s);
    }
    if (rdg_tensor_present(sinks)) sum = exp(rdg_tensor_get(sinks, h, 0, 0, 0) - best);
    for (int64_t j = first; j < end; j++) sum += score[j - first] = exp(score[j - first] - best);
    for (int64_t j = first; j < end; j++) {
        const double weight = score[j - first] / sum;
        rdg_quant_ops[v->type].dequantise(rdg_tensor_row(v, j % n_slots, g, 0), row, v->dim[0]);
        for (int64_t i = 0; i < v->dim[0]; i++)
            o[i] +=
                sizes ? pow(weight * (double)row[i] * (1.0 + doubt[j - first]), 2) : weight * (double)row[i];
    }
    for (int64_t i = 0; sizes && i < v->dim[0]; i++) o[i] = sqrt(o[i]);
}

static rdg_err attend_all(const rdg_op_call *call, bool sizes, double *out, rdg_error *e)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q], *pos = &call->operand[RDG_ATTENTION_POS];
    const int64_t dim_v = call->operand[RDG_ATTENTION_V].dim[0];
    int64_t most = RDG_MAX(call->n_visible, 1);
    rdg_err err = RDG_OK;
    for (int64_t t = 0; t < q->dim[2]; t++)
        most = RDG_MAX(most, (int64_t)rdg_tensor_get(pos, t, 0, 0, 0) + 1);
    double *score = rdg_alloc_array((size_t)most, 2 * sizeof *score);
    float *row = rdg_alloc_array((size_t)RDG_MAX(q->dim[0], dim_v), sizeof *row);
    if (!score || !row) err = rdg_fail(e, RDG_E_NOMEM, "no memory for %lld scores", (long long)most);
    for (int64_t t = 0; !err && t < q->dim[2]; t++)
        for (int64_t h = 0; h < q->dim[1]; h++)
            attend(call, h, t, sizes, score, score + most, row, out + (t * q->dim[1] + h) * dim_v);
    rdg_free(row);
    rdg_free(score);
    return err;
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    return attend_all(call, false, out[RDG_ATTENTION_OUT], e);
}

static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    (void)rounding;
    return attend_all(call, true, out[RDG_ATTENTION_OUT], e);
}

static const rdg_operand_spec operands[] = {{"q", RDG_OPERAND_IN},
                                            {"k", RDG_OPERAND_IN},
                                            {"v", RDG_OPERAND_IN},
                                            {"pos", RDG_OPERAND_IN},
                                            {"sinks", RDG_OPERAND_IN | RDG_OPERAND_OPTIONAL},
                                            {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {
#if defined(__x86_64__)
    &rdg_attention_avx512,
    &rdg_attention_avx2,
#endif
    &rdg_attention_c,
    &rdg_attention_flash_vulkan,
    &rdg_attention_vulkan,
    &rdg_attention_flash_emulated,
    NULL};

const rdg_op rdg_op_attention = {
    .name = "attention",
    .summary = "out[:, h, t] = sum_j softmax_j(cap(scale * q[:, h, t] . k[:, j])) v[:, j]",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_attention_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 3e-6},
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_attention_cases,
};
