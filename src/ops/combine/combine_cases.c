#include "ops/combine/combine.h"
#include "ops/combine/combine_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t n, n_used, n_tokens;
    bool residual, in_place;
} rows[] = {
    {"one element", 1, 1, 1, false, false},          {"2047 of 2", 2047, 2, 1, true, true},
    {"2880 of 4", 2880, 4, 3, true, false},          {"65 of 8, 33 tokens", 65, 8, 33, false, false},
    {"1000 of 7, 8 tokens", 1000, 7, 8, true, true}, {"4097 of 8", 4097, 8, 2, false, false},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    *call = (rdg_op_call){.op = &rdg_op_combine};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_tensor_init(&call->operand[RDG_COMBINE_X], RDG_TYPE_F32, r->n, r->n_used, r->n_tokens, 1);
    rdg_tensor_init(&call->operand[RDG_COMBINE_WEIGHTS], RDG_TYPE_F32, r->n_used, r->n_tokens, 1, 1);
    if (r->residual)
        rdg_tensor_init(&call->operand[RDG_COMBINE_RESIDUAL], RDG_TYPE_F32, r->n, r->n_tokens, 1, 1);
    rdg_tensor_init(&call->operand[RDG_COMBINE_OUT], RDG_TYPE_F32, r->n, r->n_tokens, 1, 1);
    return true;
}

static int alias(int i, int operand)
{
    return rows[i].in_place && operand == RDG_COMBINE_OUT ? RDG_COMBINE_RESIDUAL : -1;
}

const rdg_case_set rdg_combine_cases = {.make = make, .alias = alias};
