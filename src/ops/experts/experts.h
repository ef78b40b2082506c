/* experts: out[r, k, t] = sum_c weight[c, r, e] * x[c, min(k, x.dim[1]-1), t] + bias[r, e],  e = ids[k, t]
 *
 * weight  any type that can be dequantised  [n_columns, n_rows, n_experts]
 * x       F32  [n_columns, 1 or n_used, n_tokens]
 * ids     I32  [n_used, n_tokens], 0 <= id < n_experts
 * bias    F32  [n_rows, n_experts]; optional
 * out     F32  [n_rows, n_used, n_tokens] */
#ifndef RDG_OPS_EXPERTS_H
#define RDG_OPS_EXPERTS_H
#include "ops/op.h"
enum { RDG_EXPERTS_WEIGHT, RDG_EXPERTS_X, RDG_EXPERTS_IDS, RDG_EXPERTS_BIAS, RDG_EXPERTS_OUT };
extern const rdg_op rdg_op_experts;
#endif
