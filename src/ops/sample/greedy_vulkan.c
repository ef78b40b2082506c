#include "ops/sample/greedy.h"

int rdg_greedy_encode(const rdg_gpu_env *env, uint64_t logits, int64_t n, uint64_t token, uint64_t position,
                      uint64_t ring, uint32_t ring_size, rdg_gpu_dispatch *d)
{
    struct {
        uint64_t logits, token, position, ring, scratch;
        uint32_t n, ring_size;
    } push = {logits, token, position, ring, env->scratch, (uint32_t)n, ring_size};
    rdg_gpu_fill(d, "greedy", &push, sizeof push);
    d->n_spec = 0;
    d->grid[0] = (uint32_t)RDG_MIN(rdg_div_up(n, 1024), 128); /* at most 256: one merges them */
    d->grid[1] = d->grid[2] = 1;
    return 1;
}
