/* Which weight types the GPU kernels can decode: those of src/ops/glsl/blocks.glsl. */
#ifndef RDG_OPS_GPU_TYPES_H
#define RDG_OPS_GPU_TYPES_H

#include <ridge/type.h>

static inline bool rdg_gpu_decodes(rdg_type t)
{
    switch (t) {
    case RDG_TYPE_F32:
    case RDG_TYPE_F16:
    case RDG_TYPE_BF16:
    case RDG_TYPE_Q4_0:
    case RDG_TYPE_Q4_1:
    case RDG_TYPE_Q5_0:
    case RDG_TYPE_Q5_1:
    case RDG_TYPE_Q8_0:
    case RDG_TYPE_Q2_K:
    case RDG_TYPE_Q3_K:
    case RDG_TYPE_Q4_K:
    case RDG_TYPE_Q5_K:
    case RDG_TYPE_Q6_K:
    case RDG_TYPE_IQ4_NL:
    case RDG_TYPE_IQ4_XS:
    case RDG_TYPE_MXFP4:
    case RDG_TYPE_NVFP4:
    case RDG_TYPE_Q1_0:
    case RDG_TYPE_Q2_0:
    case RDG_TYPE_TQ1_0:
    case RDG_TYPE_TQ2_0: return true;
    default: return false;
    }
}

#endif
