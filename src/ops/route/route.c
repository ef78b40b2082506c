#include "ops/route/route.h"
#include "ops/route/route_cases.h"
#include "ops/route/route_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

#include <math.h>

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *logits = &call->operand[RDG_ROUTE_LOGITS], *ids = &call->operand[RDG_ROUTE_IDS];
    const rdg_route_params *p = RDG_PARAMS(call, rdg_route_params);
    rdg_want_type(&k, RDG_ROUTE_LOGITS, RDG_TYPE_F32);
    rdg_want_type(&k, RDG_ROUTE_IDS, RDG_TYPE_I32);
    rdg_want_type(&k, RDG_ROUTE_WEIGHTS, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_ROUTE_LOGITS, -1, -1, 1, 1);
    rdg_want_dims(&k, RDG_ROUTE_IDS, -1, logits->dim[1], 1, 1);
    rdg_want_dims(&k, RDG_ROUTE_WEIGHTS, ids->dim[0], logits->dim[1], 1, 1);
    rdg_want(&k, ids->dim[0] <= logits->dim[0], "ids: dim[0] is %lld, more than the %lld experts",
             (long long)ids->dim[0], (long long)logits->dim[0]);
    rdg_want(&k, p->kind >= RDG_ROUTE_SOFTMAX && p->kind <= RDG_ROUTE_TOPK_SOFTMAX, "kind %d is not known",
             (int)p->kind);
    rdg_want_apart(&k, RDG_ROUTE_IDS, RDG_ROUTE_LOGITS);
    rdg_want_apart(&k, RDG_ROUTE_WEIGHTS, RDG_ROUTE_LOGITS);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    const rdg_tensor *logits = &call->operand[RDG_ROUTE_LOGITS];
    rdg_cost_operands(call, c);
    /* difference, exp, sum and division of each logit, and one comparison a logit for each choice */
    c->flops = (double)rdg_tensor_n_elements(logits) * (4.0 + (double)call->operand[RDG_ROUTE_IDS].dim[0]);
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *logits = &call->operand[RDG_ROUTE_LOGITS];
    const rdg_route_params *p = RDG_PARAMS(call, rdg_route_params);
    const int64_t n_experts = logits->dim[0], n_used = call->operand[RDG_ROUTE_IDS].dim[0];
    (void)e;
    for (int64_t t = 0; t < logits->dim[1]; t++) {
        double *ids = out[RDG_ROUTE_IDS] + t * n_used, *weights = out[RDG_ROUTE_WEIGHTS] + t * n_used;
        double all = 0.0, chosen = 0.0, best = -INFINITY;
        for (int64_t x = 0; x < n_experts; x++) best = fmax(best, rdg_tensor_get(logits, x, t, 0, 0));
        for (int64_t x = 0; x < n_experts; x++) all += exp(rdg_tensor_get(logits, x, t, 0, 0) - best);
        for (int64_t k = 0; k < n_used; k++) {
            int64_t pick = -1;
            for (int64_t x = 0; x < n_experts; x++) {
                bool taken = false;
                for (int64_t j = 0; j < k; j++) taken = taken || (int64_t)ids[j] == x;
                if (!taken &&
                    (pick < 0 || rdg_tensor_get(logits, x, t, 0, 0) > rdg_tensor_get(logits, pick, t, 0, 0)))
                    pick = x;
            }
            ids[k] = (double)pick;
            weights[k] = exp(rdg_tensor_get(logits, pick, t, 0, 0) - best);
            chosen += weights[k];
        }
        /* softmax over the chosen ones and renormalised softmax over all are the same number */
        for (int64_t k = 0; k < n_used; k++)
            weights[k] *= (double)p->scale / (p->kind == RDG_ROUTE_SOFTMAX ? all : chosen);
    }
    return RDG_OK;
}

/* A weight is e^-x of the distance x to the best logit, and the rounding of x is a relative error of it. */
static rdg_err magnitude(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e)
{
    (void)rounding;
    const rdg_tensor *logits = &call->operand[RDG_ROUTE_LOGITS];
    const int64_t n_used = call->operand[RDG_ROUTE_IDS].dim[0];
    rdg_err err = reference(call, out, e);
    for (int64_t t = 0; !err && t < logits->dim[1]; t++)
        for (int64_t k = 0; k < n_used; k++) {
            const double *ids = out[RDG_ROUTE_IDS] + t * n_used;
            const double best = rdg_tensor_get(logits, (int64_t)ids[0], t, 0, 0);
            out[RDG_ROUTE_WEIGHTS][t * n_used + k] *=
                1.0 + best - rdg_tensor_get(logits, (int64_t)ids[k], t, 0, 0);
        }
    return err;
}

static const rdg_operand_spec operands[] = {
    {"logits", RDG_OPERAND_IN}, {"ids", RDG_OPERAND_OUT}, {"weights", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_route_c, &rdg_route_vulkan, NULL};

const rdg_op rdg_op_route = {
    .name = "route",
    .summary = "ids, weights = the n_used largest logits of each token, by softmax",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_route_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_ULP, 1}, /* evaluated in double, rounded once */
    .magnitude = magnitude,
    .variants = variants,
    .cases = &rdg_route_cases,
};
