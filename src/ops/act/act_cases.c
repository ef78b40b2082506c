#include "ops/act/act.h"
#include "ops/act/act_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t n, rows, pad;
    int32_t act;
    float cap;
    bool in_place;
} rows[] = {
    {"one element", 1, 1, 0, RDG_ACT_TANH, 1, false},
    {"silu 127 x 3", 127, 3, 0, RDG_ACT_SILU, 1, false},
    {"gelu_tanh 4097, in place", 4097, 1, 0, RDG_ACT_GELU_TANH, 1, true},
    {"gelu_tanh 64 x 33, strided", 64, 33, 64, RDG_ACT_GELU_TANH, 1, false},
    {"gelu_erf 300 x 2", 300, 2, 0, RDG_ACT_GELU_ERF, 1, false},
    {"relu 65 x 9, strided in place", 65, 9, 3, RDG_ACT_RELU, 1, true},
    {"sigmoid 1000", 1000, 1, 0, RDG_ACT_SIGMOID, 1, false},
    {"tanh, cap 30, 32001", 32001, 1, 0, RDG_ACT_TANH, 30, true},
    {"tanh, cap 50, 513 x 7", 513, 7, 1, RDG_ACT_TANH, 50, false},
    {"silu 2048 x 8", 2048, 8, 0, RDG_ACT_SILU, 1, true},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    rdg_act_params p = {.act = r->act, .cap = r->cap};
    *call = (rdg_op_call){.op = &rdg_op_act};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_case_params(call, &p, sizeof p);
    for (int k = 0; k < 2; k++) {
        rdg_tensor_init(&call->operand[k], RDG_TYPE_F32, r->n, r->rows, 1, 1);
        rdg_case_pad_rows(&call->operand[k], r->pad);
    }
    return true;
}

static int alias(int i, int operand)
{
    return rows[i].in_place && operand == RDG_ACT_OUT ? RDG_ACT_X : -1;
}

const rdg_case_set rdg_act_cases = {.make = make, .alias = alias};
