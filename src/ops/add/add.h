/* add: out = a_scale * a + b_scale * b, elementwise, b broadcast
 *
 * a    F32 [n, n_rows…]; rows may be strided
 * b    F32, each dim equal to a's or 1; optional: absent = 0 (then out = a_scale * a: scaling)
 * out  F32, shape of a; may be a or b itself */
#ifndef RDG_OPS_ADD_H
#define RDG_OPS_ADD_H
#include "ops/op.h"
typedef struct rdg_add_params {
    float a_scale, b_scale;
} rdg_add_params;
enum { RDG_ADD_A, RDG_ADD_B, RDG_ADD_OUT };
extern const rdg_op rdg_op_add;
#endif
