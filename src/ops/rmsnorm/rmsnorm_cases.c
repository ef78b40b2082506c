#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rmsnorm/rmsnorm_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t n, heads, tokens, pad;
    int weight; /* 0 = absent, 1 = one row, 2 = one row per head */
    float eps;
    bool in_place;
} rows[] = {
    {"one element", 1, 1, 1, 0, 1, 1e-6f, false},
    {"2, no weight", 2, 1, 1, 0, 0, 1e-5f, false},
    {"15", 15, 1, 1, 0, 1, 1e-5f, false},
    {"16 x 3", 16, 3, 1, 0, 1, 1e-5f, true},
    {"17 x 5, strided", 17, 5, 1, 7, 1, 1e-5f, false},
    {"127 x 2, no weight, in place", 127, 2, 1, 0, 0, 1e-6f, true},
    {"head norm 64 x 9 x 3, strided", 64, 9, 3, 64, 1, 1e-6f, true},
    {"head norm 128 x 32", 128, 32, 1, 0, 1, 1e-6f, true},
    {"weight per head 96 x 4 x 5", 96, 4, 5, 0, 2, 1e-5f, false},
    {"257 x 33", 257, 33, 1, 0, 1, 1e-5f, false},
    {"1000 x 8", 1000, 8, 1, 0, 1, 1e-5f, false},
    {"4096", 4096, 1, 1, 0, 1, 1e-5f, false},
    {"4099, in place", 4099, 1, 1, 0, 1, 1e-5f, true},
    {"8192 x 2, eps 0", 8192, 2, 1, 0, 1, 0.0f, false},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    rdg_rmsnorm_params p = {.eps = r->eps};
    *call = (rdg_op_call){.op = &rdg_op_rmsnorm};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_case_params(call, &p, sizeof p);
    rdg_tensor_init(&call->operand[RDG_RMSNORM_X], RDG_TYPE_F32, r->n, r->heads, r->tokens, 1);
    rdg_tensor_init(&call->operand[RDG_RMSNORM_OUT], RDG_TYPE_F32, r->n, r->heads, r->tokens, 1);
    if (r->weight)
        rdg_tensor_init(&call->operand[RDG_RMSNORM_WEIGHT], RDG_TYPE_F32, r->n, r->weight == 2 ? r->heads : 1,
                        1, 1);
    rdg_case_pad_rows(&call->operand[RDG_RMSNORM_X], r->pad);
    if (r->in_place) rdg_case_pad_rows(&call->operand[RDG_RMSNORM_OUT], r->pad);
    return true;
}

static int alias(int i, int operand)
{
    return rows[i].in_place && operand == RDG_RMSNORM_OUT ? RDG_RMSNORM_X : -1;
}

const rdg_case_set rdg_rmsnorm_cases = {.make = make, .alias = alias};
