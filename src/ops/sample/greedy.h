/* Greedy sampling on the device, so that a decode step can follow another without the host. */
#ifndef RDG_OPS_SAMPLE_GREEDY_H
#define RDG_OPS_SAMPLE_GREEDY_H

#include "ops/gpu.h"

enum { RDG_GREEDY_SCRATCH_BYTES = 4096 }; /* zeroed before the first launch: step 0 */

/* logits: F32 [n]; token, position: I32, changed in place; ring: I32 [ring_size], step k goes to ring[k mod
 * ring_size]. */
int rdg_greedy_encode(const rdg_gpu_env *env, uint64_t logits, int64_t n, uint64_t token, uint64_t position,
                      uint64_t ring, uint32_t ring_size, rdg_gpu_dispatch *d);

#endif
