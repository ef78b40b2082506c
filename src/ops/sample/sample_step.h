/* sample at the end of a decode step, so that the next step can follow without the host. */
#ifndef RDG_OPS_SAMPLE_STEP_H
#define RDG_OPS_SAMPLE_STEP_H

#include "ops/gpu.h"
#include "ops/sample/sample.h"

/* Device addresses. */
typedef struct rdg_sample_step {
    uint64_t logits; /* F32 [n] */
    int64_t n;
    uint64_t draw;     /* as the operation's; the step goes up by one */
    uint64_t id;       /* I32: the next step's token */
    uint64_t position; /* I32: goes up by one */
    uint64_t ring;     /* I32 [ring_size]: the id goes to [step mod ring_size] as well */
    uint32_t ring_size;
} rdg_sample_step;

/* A scratch of this size, zeroed once before the first call, serves any number of calls one after the other.
 */
uint64_t rdg_sample_scratch_bytes(const rdg_sample_params *p, int64_t n);
/* Fills up to RDG_GPU_MAX_DISPATCHES launches, each of which waits for the one before; returns how many. */
int rdg_sample_step_encode(const rdg_sample_params *p, const rdg_sample_step *s, uint64_t scratch,
                           rdg_gpu_dispatch *d);

#endif
