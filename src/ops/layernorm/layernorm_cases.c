#include "ops/layernorm/layernorm.h"
#include "ops/layernorm/layernorm_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t n, heads, tokens, pad;
    int weight, bias; /* 0 = absent, 1 = one row, 2 = one row per head */
    bool in_place;
} rows[] = {
    {"2", 2, 1, 1, 0, 1, 1, false},
    {"7 x 3, bare", 7, 3, 1, 0, 0, 0, false},
    {"16 x 5, no bias", 16, 5, 1, 0, 1, 0, true},
    {"17 x 2, no weight, strided", 17, 2, 1, 3, 0, 1, false},
    {"per head 64 x 4 x 3", 64, 4, 3, 0, 2, 2, false},
    {"257 x 33, strided in place", 257, 33, 1, 9, 1, 1, true},
    {"768 x 8", 768, 8, 1, 0, 1, 1, false},
    {"4099", 4099, 1, 1, 0, 1, 1, true},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    const int optional[2] = {r->weight, r->bias};
    rdg_layernorm_params p = {.eps = 1e-5f};
    *call = (rdg_op_call){.op = &rdg_op_layernorm};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_case_params(call, &p, sizeof p);
    rdg_tensor_init(&call->operand[RDG_LAYERNORM_X], RDG_TYPE_F32, r->n, r->heads, r->tokens, 1);
    rdg_tensor_init(&call->operand[RDG_LAYERNORM_OUT], RDG_TYPE_F32, r->n, r->heads, r->tokens, 1);
    for (int k = 0; k < 2; k++)
        if (optional[k])
            rdg_tensor_init(&call->operand[RDG_LAYERNORM_WEIGHT + k], RDG_TYPE_F32, r->n,
                            optional[k] == 2 ? r->heads : 1, 1, 1);
    rdg_case_pad_rows(&call->operand[RDG_LAYERNORM_X], r->pad);
    if (r->in_place) rdg_case_pad_rows(&call->operand[RDG_LAYERNORM_OUT], r->pad);
    return true;
}

static int alias(int i, int operand)
{
    return rows[i].in_place && operand == RDG_LAYERNORM_OUT ? RDG_LAYERNORM_X : -1;
}

const rdg_case_set rdg_layernorm_cases = {.make = make, .alias = alias};
