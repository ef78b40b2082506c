/* What the case files share. */
#ifndef RDG_OPS_CASES_H
#define RDG_OPS_CASES_H

#include "base/rng.h"
#include "ops/op.h"

#include <ridge/quantize.h>
#include <stdio.h>
#include <string.h>

/* The i-th type that rows can be dequantised from; false past the last. */
bool rdg_case_weight_type(int i, rdg_type *out);
int rdg_case_n_weight_types(void);

/* Puts `elements` unused elements behind every row: a slice of something wider. */
static inline void rdg_case_pad_rows(rdg_tensor *t, int64_t elements)
{
    t->stride[1] += elements * t->stride[0];
    t->stride[2] = t->stride[1] * t->dim[1];
    t->stride[3] = t->stride[2] * t->dim[2];
}

static inline void rdg_case_params(rdg_op_call *call, const void *params, size_t bytes)
{
    memcpy(call->params.bytes, params, bytes);
}

/* Random ids in [0, n) of an I32 operand. */
static inline void rdg_case_ids(const rdg_tensor *t, int64_t n, uint64_t seed)
{
    rdg_rng rng;
    rdg_rng_seed(&rng, seed);
    for (int64_t r = 0; r < t->dim[1]; r++)
        for (int64_t i = 0; i < t->dim[0]; i++)
            ((int32_t *)rdg_tensor_row(t, r, 0, 0))[i] = (int32_t)rdg_rng_below(&rng, (uint64_t)n);
}

#endif
