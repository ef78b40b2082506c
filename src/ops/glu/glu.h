/* glu: out = act(gate) * up, elementwise
 *
 * gate, up  F32 [n, n_rows…]; rows may be strided (two halves of one product)
 * out       F32, same shape; may be gate or up itself
 * SILU: z / (1 + e^-z). GELU_TANH: 0.5 z (1 + tanh(0.7978845608028654 z (1 + 0.044715 z^2))). GELU_ERF:
 * exact. SWIGLU_OAI: g = min(gate, limit), u = clamp(up, -limit, limit): g / (1 + e^(-alpha g)) * (u + 1).
 * RELU: max(z, 0). */
#ifndef RDG_OPS_GLU_H
#define RDG_OPS_GLU_H
#include "ops/op.h"
typedef enum rdg_act_kind {
    RDG_ACT_SILU,
    RDG_ACT_GELU_TANH,
    RDG_ACT_GELU_ERF,
    RDG_ACT_RELU,
    RDG_ACT_SIGMOID,
    RDG_ACT_TANH,
    RDG_ACT_SWIGLU_OAI
} rdg_act_kind;
typedef struct rdg_glu_params {
    int32_t act;        /* rdg_act_kind */
    float alpha, limit; /* SWIGLU_OAI only */
} rdg_glu_params;
enum { RDG_GLU_GATE, RDG_GLU_UP, RDG_GLU_OUT };
extern const rdg_op rdg_op_glu;
#endif
