/* The launch of matvec_q8.comp: one token, quantised weights, with what a decode step puts around a product.
 */
#ifndef RDG_OPS_MATMUL_MATVEC_Q8_H
#define RDG_OPS_MATMUL_MATVEC_Q8_H

#include "ops/gpu.h"
#include "ops/glu/glu.h"

typedef struct rdg_matvec_q8 {
    const rdg_tensor *weight, *weight2; /* weight2: GLU, act(W x) * (W2 x); NULL otherwise */
    const rdg_tensor *x, *norm_weight;  /* norm_weight: x is normalised first; NULL otherwise */
    const rdg_tensor *bias, *residual;  /* NULL = none */
    const rdg_tensor *out;
    float eps;
    rdg_glu_params glu;
} rdg_matvec_q8;

/* Types, alignment and shared memory fit. */
bool rdg_matvec_q8_accepts(const rdg_matvec_q8 *m, const rdg_device_facts *f);
int rdg_matvec_q8_encode(const rdg_matvec_q8 *m, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e);
/* Subgroup width that the step kernels are compiled for on this device; 0 = they cannot run. */
uint32_t rdg_gpu_step_width(const rdg_device_facts *f);

#endif
