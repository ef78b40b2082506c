#include "ops/add/add.h"
#include "ops/add/add_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t a[4], b[4];
    int64_t pad;
    float a_scale, b_scale;
    int in_place; /* the operand out is, or -1 */
} rows[] = {
    {"one element", {1, 1, 1, 1}, {1, 1, 1, 1}, 0, 1, 1, -1},
    {"4097", {4097, 1, 1, 1}, {4097, 1, 1, 1}, 0, 1, 1, RDG_ADD_A},
    {"127 x 9, into b", {127, 9, 1, 1}, {127, 9, 1, 1}, 0, 0.25f, -2, RDG_ADD_B},
    {"64 x 33, strided", {64, 33, 1, 1}, {64, 33, 1, 1}, 5, 1, 0.5f, -1},
    {"bias: 300 x 7 + 300", {300, 7, 1, 1}, {300, 1, 1, 1}, 0, 1, 1, RDG_ADD_A},
    {"65 x 3 x 4 + 65 x 3", {65, 3, 4, 1}, {65, 3, 1, 1}, 1, 1, 1, -1},
    {"17 x 3 x 4 x 2 + 1 x 3 x 1 x 2", {17, 3, 4, 2}, {1, 3, 1, 2}, 0, 3, 0.1f, -1},
    {"2049 + one number", {2049, 2, 1, 1}, {1, 1, 1, 1}, 0, 1, 1, RDG_ADD_A},
    {"scaling only, 3000", {3000, 1, 1, 1}, {0}, 0, 45.25f, 0, -1},
    {"scaling only, 33 x 8, strided in place", {33, 8, 1, 1}, {0}, 7, 0.125f, 0, RDG_ADD_A},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    rdg_add_params p = {.a_scale = r->a_scale, .b_scale = r->b_scale};
    *call = (rdg_op_call){.op = &rdg_op_add};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_case_params(call, &p, sizeof p);
    rdg_tensor_init(&call->operand[RDG_ADD_A], RDG_TYPE_F32, r->a[0], r->a[1], r->a[2], r->a[3]);
    rdg_tensor_init(&call->operand[RDG_ADD_OUT], RDG_TYPE_F32, r->a[0], r->a[1], r->a[2], r->a[3]);
    if (r->b[0]) rdg_tensor_init(&call->operand[RDG_ADD_B], RDG_TYPE_F32, r->b[0], r->b[1], r->b[2], r->b[3]);
    rdg_case_pad_rows(&call->operand[RDG_ADD_A], r->pad);
    rdg_case_pad_rows(&call->operand[RDG_ADD_OUT], r->pad);
    return true;
}

static int alias(int i, int operand)
{
    return operand == RDG_ADD_OUT ? rows[i].in_place : -1;
}

const rdg_case_set rdg_add_cases = {.make = make, .alias = alias};
