/* Frequencies of a rope as turns per position in 0.64 fixed point: what the GPU kernels multiply positions
 * with. */
#ifndef RDG_OPS_ROPE_TABLE_H
#define RDG_OPS_ROPE_TABLE_H
#include "ops/rope/rope.h"
/* n_dims / 2 entries; false if a frequency is not finite. */
bool rdg_rope_table(const rdg_rope_params *p, const float *factors, uint64_t *table);
#endif
