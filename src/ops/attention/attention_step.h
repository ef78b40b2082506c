/* The launch of attention_step.comp: one token's norm, rope, KV store and attention in a decode step. */
#ifndef RDG_OPS_ATTENTION_STEP_H
#define RDG_OPS_ATTENTION_STEP_H

#include "ops/gpu.h"
#include "ops/attention/attention.h"
#include "ops/rope/rope.h"

typedef struct rdg_attention_step {
    const rdg_tensor *q, *k, *v;         /* as the products leave them: dense heads of one token */
    const rdg_tensor *k_cache, *v_cache; /* F16, dense */
    const rdg_tensor *pos, *sinks, *out; /* sinks: NULL = none */
    const rdg_tensor *q_norm, *k_norm;   /* rmsnorm of each head first; both or none */
    const rdg_rope_params *rope;         /* NULL = none */
    const float *factors;                /* of the rope, in host memory; NULL = none */
    rdg_attention_params params;
    float eps;
    int64_t n_visible_max; /* positions below this: sets the number of splits */
} rdg_attention_step;

bool rdg_attention_step_accepts(const rdg_attention_step *a, const rdg_device_facts *f);
/* Zeroed before the first launch; launches leave it zeroed where it matters. */
uint64_t rdg_attention_step_scratch_bytes(const rdg_attention_step *a, const rdg_device_facts *f);
int rdg_attention_step_encode(const rdg_attention_step *a, const rdg_gpu_env *env, rdg_gpu_dispatch *d,
                              rdg_error *e);

#endif
