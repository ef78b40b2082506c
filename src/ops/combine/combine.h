/* combine: out[:, t] = residual[:, t] + sum_k weights[k, t] * x[:, k, t]
 *
 * x         F32 [n, n_used, n_tokens]
 * weights   F32 [n_used, n_tokens]
 * residual  F32 [n, n_tokens]; optional; may be out itself
 * out       F32 [n, n_tokens] */
#ifndef RDG_OPS_COMBINE_H
#define RDG_OPS_COMBINE_H
#include "ops/op.h"
enum { RDG_COMBINE_X, RDG_COMBINE_WEIGHTS, RDG_COMBINE_RESIDUAL, RDG_COMBINE_OUT };
extern const rdg_op rdg_op_combine;
#endif
