#include "ops/route/route.h"
#include "ops/route/route_variants.h"
#include "ops/contract.h"
#include "ops/mathd.h"
#include "ops/rows.h"

static int64_t tokens_per_item(const rdg_op_call *call)
{
    return rdg_rows_per_item(call->operand[RDG_ROUTE_LOGITS].dim[0] *
                             (1 + call->operand[RDG_ROUTE_IDS].dim[0]));
}

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_div_up(call->operand[RDG_ROUTE_LOGITS].dim[1], tokens_per_item(call));
}

/* The next choice after expert `last`: the largest logit that comes later in the order (falling logit, rising
 * index). No list of taken ones is needed. With NaN among the logits there may be no such expert: then any
 * index does. */
static int64_t next_choice(const float *logits, int64_t n_experts, int64_t last)
{
    int64_t pick = -1;
    for (int64_t x = 0; x < n_experts; x++) {
        bool later = last < 0 || logits[x] < logits[last] || (logits[x] == logits[last] && x > last);
        if (later && (pick < 0 || logits[x] > logits[pick])) pick = x;
    }
    return pick < 0 ? RDG_MAX(last, 0) : pick;
}

static void route_token(const rdg_route_params *p, const float *logits, int64_t n_experts, int32_t *ids,
                        float *weights, int64_t n_used)
{
    int64_t pick = -1;
    double sum = 0.0;
    for (int64_t k = 0; k < n_used; k++) {
        pick = next_choice(logits, n_experts, pick);
        ids[k] = (int32_t)pick;
    }
    const double best = (double)logits[ids[0]];
    if (p->kind == RDG_ROUTE_SOFTMAX)
        for (int64_t x = 0; x < n_experts; x++) sum += rdg_exp((double)logits[x] - best);
    else /* softmax over the chosen ones and renormalised softmax over all are the same number */
        for (int64_t k = 0; k < n_used; k++) sum += rdg_exp((double)logits[ids[k]] - best);
    for (int64_t k = 0; k < n_used; k++)
        weights[k] = (float)(rdg_exp((double)logits[ids[k]] - best) / sum * (double)p->scale);
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *logits = &call->operand[RDG_ROUTE_LOGITS], *ids = &call->operand[RDG_ROUTE_IDS],
                     *weights = &call->operand[RDG_ROUTE_WEIGHTS];
    const int64_t per_item = tokens_per_item(call), end = RDG_MIN(task->end * per_item, logits->dim[1]);
    for (int64_t t = task->begin * per_item; t < end; t++)
        route_token(RDG_PARAMS(call, rdg_route_params), rdg_tensor_row(logits, t, 0, 0), logits->dim[0],
                    rdg_tensor_row(ids, t, 0, 0), rdg_tensor_row(weights, t, 0, 0), ids->dim[0]);
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_route_c = {
    .name = "f32_c", .source = "src/ops/route/route_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
