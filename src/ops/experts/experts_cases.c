#include "ops/experts/experts.h"
#include "ops/experts/experts_cases.h"
#include "ops/cases.h"

static const struct row {
    int64_t n_columns, n_rows, n_experts, n_used, n_tokens;
    bool shared_x, bias;
} rows[] = {
    {256, 5, 4, 2, 1, true, false},
    {300, 17, 8, 3, 7, false, true},
    {512, 33, 5, 5, 33, true, true},
    {1024, 16, 16, 4, 2, false, false},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    rdg_type type;
    if (!rdg_case_weight_type(i / RDG_COUNTOF(rows), &type)) return false;
    const struct row *r = &rows[i % RDG_COUNTOF(rows)];
    const int64_t elems = rdg_type_block_elems(type), n = (r->n_columns + elems - 1) / elems * elems;
    *call = (rdg_op_call){.op = &rdg_op_experts};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s %lld x %lld x %lld, %lld used, %lld tokens%s%s",
             rdg_type_name(type), (long long)n, (long long)r->n_rows, (long long)r->n_experts,
             (long long)r->n_used, (long long)r->n_tokens, r->shared_x ? ", one x" : "",
             r->bias ? ", bias" : "");
    rdg_tensor_init(&call->operand[RDG_EXPERTS_WEIGHT], type, n, r->n_rows, r->n_experts, 1);
    rdg_tensor_init(&call->operand[RDG_EXPERTS_X], RDG_TYPE_F32, n, r->shared_x ? 1 : r->n_used, r->n_tokens,
                    1);
    rdg_tensor_init(&call->operand[RDG_EXPERTS_IDS], RDG_TYPE_I32, r->n_used, r->n_tokens, 1, 1);
    rdg_tensor_init(&call->operand[RDG_EXPERTS_OUT], RDG_TYPE_F32, r->n_rows, r->n_used, r->n_tokens, 1);
    if (r->bias)
        rdg_tensor_init(&call->operand[RDG_EXPERTS_BIAS], RDG_TYPE_F32, r->n_rows, r->n_experts, 1, 1);
    return true;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    (void)i;
    rdg_case_ids(&call->operand[RDG_EXPERTS_IDS], call->operand[RDG_EXPERTS_WEIGHT].dim[2], seed);
}

const rdg_case_set rdg_experts_cases = {.make = make, .prepare = prepare};
