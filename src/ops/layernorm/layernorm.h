/* layernorm: out = weight * (x - mean(x)) / sqrt(var(x) + eps) + bias, population variance, over dim 0 of
 * each row
 *
 * x       F32 [n, n_heads_or_tokens, n_tokens]; rows may be strided
 * weight  F32 [n] or [n, x.dim[1]]; optional: absent = 1
 * bias    F32 [n] or [n, x.dim[1]]; optional: absent = 0
 * out     F32, shape of x; may be x itself */
#ifndef RDG_OPS_LAYERNORM_H
#define RDG_OPS_LAYERNORM_H
#include "ops/op.h"
typedef struct rdg_layernorm_params {
    float eps;
} rdg_layernorm_params;
enum { RDG_LAYERNORM_X, RDG_LAYERNORM_WEIGHT, RDG_LAYERNORM_BIAS, RDG_LAYERNORM_OUT };
extern const rdg_op rdg_op_layernorm;
#endif
