/* mul: out = a * b, elementwise, b broadcast
 *
 * a    F32 [n, n_rows…]; rows may be strided
 * b    F32, each dim equal to a's or 1
 * out  F32, shape of a; may be a itself */
#ifndef RDG_OPS_MUL_H
#define RDG_OPS_MUL_H
#include "ops/op.h"
enum { RDG_MUL_A, RDG_MUL_B, RDG_MUL_OUT };
extern const rdg_op rdg_op_mul;
#endif
