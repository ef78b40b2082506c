/* rope: rotary position embedding of the first n_dims elements of each head; the rest is copied
 *
 * x        F32 [head_dim, n_heads, n_tokens]; heads and tokens may be strided
 * pos      I32 [n_tokens]
 * factors  F32 [n_dims / 2]; optional: the angle of pair i is divided by factors[i]
 * out      F32, shape of x; may be x itself
 *
 * theta_i = pos * freq_base^(-2i/n_dims) / factors[i]; e = theta_i; interpolated = freq_scale * theta_i
 * plain:  angle = interpolated
 * yarn (ext_factor != 0): ramp_i = 1 - clamp((i - corr_low) / max(0.001, corr_high - corr_low), 0, 1), times
 * ext_factor; angle = interpolated * (1 - ramp_i) + e * ramp_i a' = magnitude * (a cos - b sin), b' =
 * magnitude * (a sin + b cos) NORM: pairs (2i, 2i+1). NEOX: pairs (i, i + n_dims/2). Angles are computed in
 * double or by an equally exact way. */
#ifndef RDG_OPS_ROPE_H
#define RDG_OPS_ROPE_H
#include "ops/op.h"
typedef enum rdg_rope_style { RDG_ROPE_NORM, RDG_ROPE_NEOX } rdg_rope_style;
typedef struct rdg_rope_params {
    int32_t style;  /* rdg_rope_style */
    int32_t n_dims; /* even, <= head_dim */
    float freq_base, freq_scale, ext_factor, corr_low, corr_high, magnitude;
} rdg_rope_params;
enum { RDG_ROPE_X, RDG_ROPE_POS, RDG_ROPE_FACTORS, RDG_ROPE_OUT };
extern const rdg_op rdg_op_rope;
#endif
