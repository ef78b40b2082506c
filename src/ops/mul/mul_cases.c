#include "ops/mul/mul.h"
#include "ops/mul/mul_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t a[4], b[4];
    int64_t pad;
    bool in_place;
} rows[] = {
    {"one element", {1, 1, 1, 1}, {1, 1, 1, 1}, 0, false},
    {"2049", {2049, 1, 1, 1}, {2049, 1, 1, 1}, 0, true},
    {"127 x 9, strided", {127, 9, 1, 1}, {127, 9, 1, 1}, 3, false},
    {"300 x 7 by 300", {300, 7, 1, 1}, {300, 1, 1, 1}, 0, true},
    {"gate: 640 x 8 by 1 x 8", {640, 8, 1, 1}, {1, 8, 1, 1}, 0, true},
    {"65 x 3 x 4 by 65 x 1 x 4", {65, 3, 4, 1}, {65, 1, 4, 1}, 1, false},
    {"17 x 3 x 4 x 2 by 1 x 3 x 1 x 2", {17, 3, 4, 2}, {1, 3, 1, 2}, 0, false},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    *call = (rdg_op_call){.op = &rdg_op_mul};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_tensor_init(&call->operand[RDG_MUL_A], RDG_TYPE_F32, r->a[0], r->a[1], r->a[2], r->a[3]);
    rdg_tensor_init(&call->operand[RDG_MUL_OUT], RDG_TYPE_F32, r->a[0], r->a[1], r->a[2], r->a[3]);
    rdg_tensor_init(&call->operand[RDG_MUL_B], RDG_TYPE_F32, r->b[0], r->b[1], r->b[2], r->b[3]);
    rdg_case_pad_rows(&call->operand[RDG_MUL_A], r->pad);
    rdg_case_pad_rows(&call->operand[RDG_MUL_OUT], r->pad);
    return true;
}

static int alias(int i, int operand)
{
    return rows[i].in_place && operand == RDG_MUL_OUT ? RDG_MUL_A : -1;
}

const rdg_case_set rdg_mul_cases = {.make = make, .alias = alias};
