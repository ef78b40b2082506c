/* Weights on the device with 18-, 34- and 210-byte blocks are kept "planar": inside each row first the quants
 * of all blocks, then their scales, so that kernels load 16 aligned bytes at a time. A row keeps its size.
 * Only rows whose planes all start at multiples of 16 bytes are turned.
 *
 *   Q4_0  qs[16] of every block · d of every block
 *   Q8_0  qs[32] · d
 *   Q6_K  ql[128] · qh[64] · scales[16] · d */
#ifndef RDG_OPS_GPU_PLANAR_H
#define RDG_OPS_GPU_PLANAR_H

#include "ops/op.h"

enum {
    RDG_GPU_PLANAR = 64
}; /* added to the type's id in kernels; also the tag of buffers that hold such rows */

bool rdg_gpu_can_be_planar(rdg_type type, int64_t n_columns);
void rdg_gpu_make_planar(rdg_type type, int64_t n_columns, const void *row, void *out);
/* The type as kernels know it: with RDG_GPU_PLANAR if the tensor's buffer is tagged so. */
uint32_t rdg_gpu_weight_type(const rdg_tensor *t);

#endif
