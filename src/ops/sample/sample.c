#include "ops/sample/sample.h"
#include "ops/sample/sample_cases.h"
#include "ops/sample/sample_variants.h"
#include "ops/sample/sample_weight.h"
#include "ops/contract.h"
#include "ops/gpu_rows.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_sample_params *p = RDG_PARAMS(call, rdg_sample_params);
    rdg_want_type(&k, RDG_SAMPLE_LOGITS, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_SAMPLE_DRAW, RDG_TYPE_I32);
    rdg_want_type(&k, RDG_SAMPLE_ID, RDG_TYPE_I32);
    rdg_want_dims(&k, RDG_SAMPLE_LOGITS, -1, 1, 1, 1);
    rdg_want_dims(&k, RDG_SAMPLE_DRAW, 3, 1, 1, 1);
    rdg_want_dims(&k, RDG_SAMPLE_ID, 1, 1, 1, 1);
    rdg_want(&k, call->operand[RDG_SAMPLE_LOGITS].dim[0] <= RDG_SAMPLE_MAX_LOGITS,
             "logits: dim[0] is %lld, more than %d", (long long)call->operand[RDG_SAMPLE_LOGITS].dim[0],
             RDG_SAMPLE_MAX_LOGITS);
    rdg_want(&k,
             isfinite(p->temperature) && p->top_k >= 0 && p->top_p >= 0 && p->top_p <= 1 && p->min_p >= 0 &&
                 p->min_p <= 1,
             "temperature %g, top_k %d, top_p %g, min_p %g", (double)p->temperature, (int)p->top_k,
             (double)p->top_p, (double)p->min_p);
    rdg_want_apart(&k, RDG_SAMPLE_ID, RDG_SAMPLE_LOGITS);
    rdg_want_apart(&k, RDG_SAMPLE_ID, RDG_SAMPLE_DRAW);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    const rdg_sample_params *p = RDG_PARAMS(call, rdg_sample_params);
    rdg_cost_operands(call, c);
    /* a comparison a logit; difference, product, power and sum of each weight */
    c->flops = (double)call->operand[RDG_SAMPLE_LOGITS].dim[0] * (p->temperature > 0 ? 5.0 : 1.0);
}

typedef struct ranked {
    float logit;
    int32_t id;
} ranked;

static int falling(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int rising_ids(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static double weight(float max, float logit, float scale)
{
    return exp2(-(double)((max - logit) * scale));
}

/* By sorting, in double precision. Sums of n weights with an error of 2^-30 each, cut to integers of 2^-38,
 * may fall on the other side of a bound that is nearer than that, and equal logits often meet a bound
 * exactly: *open says that precision does not decide. */
static int32_t pick(const rdg_sample_params *p, ranked *r, int64_t n, uint64_t seed, uint32_t step,
                    bool *open)
{
    const double slack = 4e-9, cut = (double)n * 0x1p-38;
    const float max = r[0].logit, scale = rdg_sample_scale(p->temperature);
    double total = 0, held = 0, left = 0;
    if (p->top_k > 0 && p->top_k < n) n = p->top_k;
    if (p->top_p < 1) {
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++) total += weight(max, r[i].logit, rdg_sample_scale(1));
        while (kept < n) {
            held += weight(max, r[kept++].logit, rdg_sample_scale(1));
            if (fabs(held / total - (double)p->top_p) < slack + cut / total) *open = true;
            if (held >= (double)p->top_p * total) break;
        }
        n = kept;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(p->min_p > 0) || max - r[i].logit <= (float)-log((double)p->min_p)) r[kept++] = r[i];
    qsort(r, (size_t)kept, sizeof *r, rising_ids);
    for (int64_t i = 0; i < kept; i++) left += weight(max, r[i].logit, scale);
    const uint32_t counter[4] = {step, 0, 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t bits[4];
    rdg_philox(counter, key, bits);
    const double u = ((double)bits[1] + (double)bits[0] * 0x1p-32) * 0x1p-32;
    held = 0;
    int32_t picked = -1;
    for (int64_t i = 0; i < kept; i++) {
        held += weight(max, r[i].logit, scale);
        if (fabs(held / left - u) < slack + cut / left && i + 1 < kept) *open = true;
        if (picked < 0 && held > u * left) picked = r[i].id;
    }
    return picked < 0 ? r[kept - 1].id : picked;
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *logits = &call->operand[RDG_SAMPLE_LOGITS];
    const rdg_sample_params *p = RDG_PARAMS(call, rdg_sample_params);
    const uint32_t *draw = call->operand[RDG_SAMPLE_DRAW].data;
    const uint64_t seed = draw[0] | (uint64_t)draw[1] << 32;
    const int64_t n = logits->dim[0];
    ranked *r = rdg_alloc_array((size_t)n, sizeof *r);
    void *work = rdg_alloc(rdg_sample_work_bytes(n));
    rdg_err err = r && work ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for %lld logits", (long long)n);
    int64_t kept = 0;
    int32_t id = RDG_SAMPLE_NOTHING;
    for (int64_t i = 0; i < n && !err && id != RDG_SAMPLE_BROKEN; i++) {
        double x = rdg_tensor_get(logits, i, 0, 0, 0);
        if (isnan(x) || x == (double)INFINITY) id = RDG_SAMPLE_BROKEN;
        if (x > -(double)INFINITY) r[kept++] = (ranked){(float)x, (int32_t)i};
    }
    if (!err && id != RDG_SAMPLE_BROKEN && kept) {
        bool open = false;
        qsort(r, (size_t)kept, sizeof *r, falling);
        id = p->temperature <= 0 ? r[0].id : pick(p, r, kept, seed, draw[2], &open);
        if (open) id = rdg_sample_row(p, logits->data, n, seed, draw[2], work);
    }
    if (!err) out[RDG_SAMPLE_ID][0] = id;
    rdg_free(work);
    rdg_free(r);
    return err;
}

static const rdg_operand_spec operands[] = {
    {"logits", RDG_OPERAND_IN}, {"draw", RDG_OPERAND_IN}, {"id", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_sample_c, &rdg_sample_vulkan, NULL};

const rdg_op rdg_op_sample = {
    .name = "sample",
    .summary = "id = a token by temperature, top-k, top-p and min-p, for seed and step",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_sample_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_EXACT, 0},
    .variants = variants,
    .cases = &rdg_sample_cases,
};
