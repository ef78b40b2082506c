/* Calls from a short text, for timing: "columns=4096,rows=14336,tokens=1,type=Q4_K". Every key has a default.
 */
#ifndef RDG_OPS_SHAPES_H
#define RDG_OPS_SHAPES_H

#include "ops/op.h"

/* Shapes, types and params of a call of `op`; text may be NULL. `full` receives all keys with their values.
 */
rdg_err rdg_shape_call(const rdg_op *op, const char *text, rdg_op_call *call, char *full, size_t full_bytes,
                       rdg_error *e);
/* The keys of an operation with their defaults, or NULL. */
const char *rdg_shape_defaults(const rdg_op *op);
/* Values that have a meaning (indices, positions) once the operands have memory. */
void rdg_shape_prepare(rdg_op_call *call, uint64_t seed);

#endif
