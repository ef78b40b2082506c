/* rmsnorm: out = weight * x / sqrt(mean(x^2) + eps), over dim 0 of each row
 *
 * x       F32 [n, n_heads_or_tokens, n_tokens]; rows may be strided
 * weight  F32 [n] or [n, x.dim[1]] (one weight row per head); optional: absent = 1
 * out     F32, shape of x; may be x itself (same data and strides) */
#ifndef RDG_OPS_RMSNORM_H
#define RDG_OPS_RMSNORM_H
#include "ops/op.h"
typedef struct rdg_rmsnorm_params {
    float eps;
} rdg_rmsnorm_params;
enum { RDG_RMSNORM_X, RDG_RMSNORM_WEIGHT, RDG_RMSNORM_OUT };
extern const rdg_op rdg_op_rmsnorm;
#endif
