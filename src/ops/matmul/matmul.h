/* matmul: out[r, t] = sum_c weight[c, r] * x[c, t] + bias[r] + residual[r, t]
 *
 * weight    any type that can be dequantised  [n_columns, n_rows]; rows contiguous
 * x         F32  [n_columns, n_tokens]
 * bias      F32  [n_rows]; optional
 * residual  F32  [n_rows, n_tokens]; optional; may be out itself
 * out       F32  [n_rows, n_tokens]; never overlaps weight or x
 *
 * Two operations share this contract and its descriptor functions: `matvec` (n_tokens <=
 * RDG_MATVEC_MAX_TOKENS, bound by reading the weights) and `matmul` (many tokens, bound by arithmetic). The
 * plan picks by n_tokens. Variants may quantise x to 8-bit blocks (Q8_0 for 32-element formats, Q8_K for
 * 256-element ones): their tolerance says so. Variants live one level further down, by block format:
 * matvec/q4_k/, matmul/q4_k/, … */
#ifndef RDG_OPS_MATMUL_H
#define RDG_OPS_MATMUL_H
#include "ops/op.h"
enum { RDG_MATVEC_MAX_TOKENS = 8 };
enum { RDG_MATMUL_WEIGHT, RDG_MATMUL_X, RDG_MATMUL_BIAS, RDG_MATMUL_RESIDUAL, RDG_MATMUL_OUT };
extern const rdg_op rdg_op_matmul;
extern const rdg_op rdg_op_matvec;
#endif
