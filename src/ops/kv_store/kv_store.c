#include "ops/kv_store/kv_store.h"
#include "ops/kv_store/kv_store_cases.h"
#include "ops/kv_store/kv_store_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"
#include "base/mem.h"
#include "quant/quant.h"

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *x = &call->operand[RDG_KV_STORE_X];
    rdg_want_type(&k, RDG_KV_STORE_X, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_KV_STORE_POS, RDG_TYPE_I32);
    rdg_want_cache(&k, RDG_KV_STORE_CACHE);
    rdg_want_dims(&k, RDG_KV_STORE_X, -1, -1, -1, 1);
    rdg_want_dims(&k, RDG_KV_STORE_POS, x->dim[2], 1, 1, 1);
    rdg_want_dims(&k, RDG_KV_STORE_CACHE, x->dim[0], -1, x->dim[1], 1);
    rdg_want(&k, x->dim[2] <= call->operand[RDG_KV_STORE_CACHE].dim[1],
             "x: %lld tokens do not fit the %lld slots of the cache", (long long)x->dim[2],
             (long long)call->operand[RDG_KV_STORE_CACHE].dim[1]);
    rdg_want_apart(&k, RDG_KV_STORE_CACHE, RDG_KV_STORE_X);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    const rdg_tensor *x = &call->operand[RDG_KV_STORE_X], *cache = &call->operand[RDG_KV_STORE_CACHE];
    /* only the slots of these tokens are touched */
    *c = (rdg_cost){
        .bytes_read =
            (double)rdg_tensor_bytes(x) + (double)rdg_tensor_bytes(&call->operand[RDG_KV_STORE_POS]),
        .bytes_written = (double)(rdg_type_row_bytes(cache->type, cache->dim[0]) * x->dim[1] * x->dim[2]),
        .flops = rdg_type_is_quantised(cache->type) ? 3.0 * (double)rdg_tensor_n_elements(x) : 0.0};
}

/* The values a cache of this type can hold are defined by the conversion itself, so the reference runs it. */
static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *x = &call->operand[RDG_KV_STORE_X], *pos = &call->operand[RDG_KV_STORE_POS],
                     *cache = &call->operand[RDG_KV_STORE_CACHE];
    const int64_t n = x->dim[0], n_slots = cache->dim[1];
    float *values = rdg_alloc_array((size_t)n, sizeof *values);
    void *stored = rdg_alloc((size_t)rdg_type_row_bytes(cache->type, n));
    rdg_err err = values && stored
                      ? RDG_OK
                      : rdg_fail(e, RDG_E_NOMEM, "no memory for a row of %lld elements", (long long)n);
    for (int64_t t = 0; !err && t < x->dim[2]; t++) {
        int64_t p = (int64_t)rdg_tensor_get(pos, t, 0, 0, 0);
        for (int64_t h = 0; !err && p >= 0 && h < x->dim[1]; h++) {
            double *o = out[RDG_KV_STORE_CACHE] + (h * n_slots + p % n_slots) * n;
            rdg_quant_ops[cache->type].quantise(NULL, rdg_tensor_row(x, h, t, 0), stored, n, NULL);
            err = rdg_dequantise_rows(cache->type, stored, values, 1, n, e);
            for (int64_t i = 0; i < n; i++) o[i] = (double)values[i];
        }
    }
    rdg_free(stored);
    rdg_free(values);
    return err;
}

static const rdg_operand_spec operands[] = {
    {"x", RDG_OPERAND_IN}, {"pos", RDG_OPERAND_IN}, {"cache", RDG_OPERAND_INOUT}};
static const rdg_variant *const variants[] = {&rdg_kv_store_c, &rdg_kv_store_vulkan, NULL};

const rdg_op rdg_op_kv_store = {
    .name = "kv_store",
    .summary = "cache[:, pos[t] mod n_slots, h] = x[:, h, t]",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_EXACT, 0},
    .variants = variants,
    .cases = &rdg_kv_store_cases,
};
