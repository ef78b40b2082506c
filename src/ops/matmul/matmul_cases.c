/* The cases of matvec and of matmul: every shape with every weight type. */
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_cases.h"
#include "ops/cases.h"

typedef struct row {
    int64_t n_columns, n_rows, n_tokens; /* columns are rounded up to whole blocks */
    bool bias, residual, in_place;
    int64_t pad; /* behind the rows of x and out */
} row;

static const row matvec_rows[] = {
    {1, 1, 1, false, false, false, 0},     {256, 7, 1, true, false, false, 0},
    {300, 33, 2, false, true, false, 0},   {768, 31, 3, true, true, true, 0},
    {1024, 64, 1, false, true, true, 0},   {1111, 13, 7, false, false, false, 5},
    {2048, 17, 8, true, false, false, 16}, {4096, 5, 4, false, true, true, 3},
    {512, 131, 5, false, false, false, 0}, {4608, 257, 1, false, false, false, 0},
};
static const row matmul_rows[] = {
    {1, 1, 9, false, false, false, 0},       {256, 16, 16, false, false, false, 0},
    {300, 17, 33, true, false, false, 0},    {768, 31, 15, true, true, true, 0},
    {512, 65, 64, false, true, false, 7},    {1024, 48, 17, false, true, true, 0},
    {2048, 33, 31, false, false, false, 16}, {256, 130, 129, false, false, false, 0},
    {1280, 8, 9, true, false, false, 1},     {512, 128, 128, false, false, false, 0},
    {256, 256, 128, false, true, true, 0},
};

static bool make_from(const rdg_op *op, const row *rows, int n_rows, int i, rdg_op_call *call,
                      char name[RDG_CASE_NAME_BYTES])
{
    rdg_type type;
    if (!rdg_case_weight_type(i / n_rows, &type)) return false;
    const row *r = &rows[i % n_rows];
    const int64_t elems = rdg_type_block_elems(type), n = (r->n_columns + elems - 1) / elems * elems;
    *call = (rdg_op_call){.op = op};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s %lld x %lld, %lld tokens%s%s%s%s", rdg_type_name(type),
             (long long)n, (long long)r->n_rows, (long long)r->n_tokens, r->bias ? ", bias" : "",
             r->residual ? ", residual" : "", r->in_place ? " in place" : "", r->pad ? ", strided" : "");
    rdg_tensor_init(&call->operand[RDG_MATMUL_WEIGHT], type, n, r->n_rows, 1, 1);
    rdg_tensor_init(&call->operand[RDG_MATMUL_X], RDG_TYPE_F32, n, r->n_tokens, 1, 1);
    rdg_tensor_init(&call->operand[RDG_MATMUL_OUT], RDG_TYPE_F32, r->n_rows, r->n_tokens, 1, 1);
    if (r->bias) rdg_tensor_init(&call->operand[RDG_MATMUL_BIAS], RDG_TYPE_F32, r->n_rows, 1, 1, 1);
    if (r->residual)
        rdg_tensor_init(&call->operand[RDG_MATMUL_RESIDUAL], RDG_TYPE_F32, r->n_rows, r->n_tokens, 1, 1);
    rdg_case_pad_rows(&call->operand[RDG_MATMUL_X], r->pad);
    rdg_case_pad_rows(&call->operand[RDG_MATMUL_OUT], r->pad);
    if (r->in_place) rdg_case_pad_rows(&call->operand[RDG_MATMUL_RESIDUAL], r->pad);
    return true;
}

static bool make_matvec(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    return make_from(&rdg_op_matvec, matvec_rows, RDG_COUNTOF(matvec_rows), i, call, name);
}

static bool make_matmul(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    return make_from(&rdg_op_matmul, matmul_rows, RDG_COUNTOF(matmul_rows), i, call, name);
}

static int alias_matvec(int i, int operand)
{
    return matvec_rows[i % RDG_COUNTOF(matvec_rows)].in_place && operand == RDG_MATMUL_OUT
               ? RDG_MATMUL_RESIDUAL
               : -1;
}

static int alias_matmul(int i, int operand)
{
    return matmul_rows[i % RDG_COUNTOF(matmul_rows)].in_place && operand == RDG_MATMUL_OUT
               ? RDG_MATMUL_RESIDUAL
               : -1;
}

const rdg_case_set rdg_matvec_cases = {.make = make_matvec, .alias = alias_matvec};
const rdg_case_set rdg_matmul_cases = {.make = make_matmul, .alias = alias_matmul};
