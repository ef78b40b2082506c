/* act: out = cap * act(x / cap), elementwise; cap = 1 for a plain activation, the limit for soft-capping with
 * TANH
 *
 * x    F32 [n, n_rows…]; rows may be strided
 * out  F32, same shape; may be x itself
 * The kinds are those of glu.h without SWIGLU_OAI. */
#ifndef RDG_OPS_ACT_H
#define RDG_OPS_ACT_H
#include "ops/op.h"
#include "ops/glu/glu.h"
typedef struct rdg_act_params {
    int32_t act; /* rdg_act_kind */
    float cap;   /* > 0 */
} rdg_act_params;
enum { RDG_ACT_X, RDG_ACT_OUT };
extern const rdg_op rdg_op_act;
#endif
