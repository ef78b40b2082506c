#include "ops/sumsq/sumsq.h"
#include "ops/sumsq/sumsq_cases.h"
#include "ops/cases.h"

#include <math.h>

static const struct row {
    const char *name;
    int64_t n_columns, n_x, n_tokens, n_used, n_matrices; /* n_used 0: no ids */
} rows[] = {
    {"one element", 1, 1, 1, 0, 1},
    {"255, 7 tokens", 255, 1, 7, 0, 1},
    {"257 x 3 rows a token, 9 tokens", 257, 3, 9, 0, 1},
    {"1024, 512 tokens", 1024, 1, 512, 0, 1},
    {"513, 33 tokens to 2 of 8 experts, one x", 513, 1, 33, 2, 8},
    {"768, 8 tokens to 4 of 5 experts, an x each", 768, 4, 8, 4, 5},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    *call = (rdg_op_call){.op = &rdg_op_sumsq};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_tensor_init(&call->operand[RDG_SUMSQ_X], RDG_TYPE_F32, r->n_columns, r->n_x, r->n_tokens, 1);
    if (r->n_used) rdg_tensor_init(&call->operand[RDG_SUMSQ_IDS], RDG_TYPE_I32, r->n_used, r->n_tokens, 1, 1);
    rdg_tensor_init(&call->operand[RDG_SUMSQ_SUMS], RDG_TYPE_F32, r->n_columns, r->n_matrices, 1, 1);
    rdg_tensor_init(&call->operand[RDG_SUMSQ_COUNTS], RDG_TYPE_F32, r->n_matrices, 1, 1, 1);
    return true;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    float *sums = call->operand[RDG_SUMSQ_SUMS].data, *counts = call->operand[RDG_SUMSQ_COUNTS].data;
    for (int64_t k = 0; k < rows[i].n_columns * rows[i].n_matrices; k++) sums[k] = sums[k] * sums[k];
    for (int64_t m = 0; m < rows[i].n_matrices; m++) counts[m] = floorf(fabsf(counts[m]) * 10.0f);
    if (rows[i].n_used) rdg_case_ids(&call->operand[RDG_SUMSQ_IDS], rows[i].n_matrices, seed);
}

const rdg_case_set rdg_sumsq_cases = {.make = make, .prepare = prepare};
