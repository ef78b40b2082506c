#include "ops/route/route.h"
#include "ops/route/route_cases.h"
#include "ops/cases.h"

#include <math.h>

static const struct row {
    const char *name;
    int64_t n_experts, n_used, n_tokens;
    int32_t kind;
    float scale;
    bool ties;
} rows[] = {
    {"one expert", 1, 1, 1, RDG_ROUTE_SOFTMAX, 1, false},
    {"8 choose 2, softmax", 8, 2, 3, RDG_ROUTE_SOFTMAX, 1, false},
    {"8 choose 2, renormalised, ties", 8, 2, 33, RDG_ROUTE_RENORMALISED, 1, true},
    {"32 choose 4, top-k softmax", 32, 4, 7, RDG_ROUTE_TOPK_SOFTMAX, 1, false},
    {"60 choose 4, softmax", 60, 4, 64, RDG_ROUTE_SOFTMAX, 1, false},
    {"128 choose 8, renormalised, scale 2.5", 128, 8, 9, RDG_ROUTE_RENORMALISED, 2.5f, false},
    {"17 choose 17, top-k softmax, ties", 17, 17, 2, RDG_ROUTE_TOPK_SOFTMAX, 1, true},
    {"257 choose 8, softmax, ties", 257, 8, 5, RDG_ROUTE_SOFTMAX, 1, true},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    rdg_route_params p = {.kind = r->kind, .scale = r->scale};
    *call = (rdg_op_call){.op = &rdg_op_route};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_case_params(call, &p, sizeof p);
    rdg_tensor_init(&call->operand[RDG_ROUTE_LOGITS], RDG_TYPE_F32, r->n_experts, r->n_tokens, 1, 1);
    rdg_tensor_init(&call->operand[RDG_ROUTE_IDS], RDG_TYPE_I32, r->n_used, r->n_tokens, 1, 1);
    rdg_tensor_init(&call->operand[RDG_ROUTE_WEIGHTS], RDG_TYPE_F32, r->n_used, r->n_tokens, 1, 1);
    return true;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    float *logits = call->operand[RDG_ROUTE_LOGITS].data;
    (void)seed;
    for (int64_t k = 0; rows[i].ties && k < rdg_tensor_n_elements(&call->operand[RDG_ROUTE_LOGITS]); k++)
        logits[k] = roundf(logits[k]);
}

const rdg_case_set rdg_route_cases = {.make = make, .prepare = prepare};
