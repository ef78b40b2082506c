/* attention: out[:, h, t] = sum_j softmax_j(s_tj) v[:, slot(j), g],  s_tj = cap(scale * q[:, h, t] . k[:,
 * slot(j), g])
 *
 * q      F32 [head_dim, n_heads, n_tokens]; heads and tokens may be strided
 * k      F32, F16, BF16, Q8_0 or Q4_0 [head_dim, n_slots, n_kv_heads]
 * v      the same types, not necessarily k's [head_dim_v, n_slots, n_kv_heads]
 * pos    I32 [n_tokens]
 * sinks  F32 [n_heads]; optional: one more logit per head in the softmax, with no value
 * out    F32 [head_dim_v, n_heads, n_tokens]
 *
 * g = h / (n_heads / n_kv_heads); slot(j) = j mod n_slots; cap(s) = softcap * tanh(s / softcap) if softcap >
 * 0. Visible keys of token t: causal: 0 <= j <= pos[t], and pos[t] - j < window if window > 0; not causal:
 * all 0 <= j < n_visible of the call. A token with pos[t] < 0 gives zeros. n_visible of the call is a bound
 * for launch shapes and cost; the mask comes from pos alone. */
#ifndef RDG_OPS_ATTENTION_H
#define RDG_OPS_ATTENTION_H
#include "ops/op.h"
typedef struct rdg_attention_params {
    float scale;
    float softcap;  /* 0 = none */
    int32_t window; /* 0 = unlimited */
    int32_t causal; /* 1 or 0 */
} rdg_attention_params;
enum {
    RDG_ATTENTION_Q,
    RDG_ATTENTION_K,
    RDG_ATTENTION_V,
    RDG_ATTENTION_POS,
    RDG_ATTENTION_SINKS,
    RDG_ATTENTION_OUT
};
extern const rdg_op rdg_op_attention;
#endif
