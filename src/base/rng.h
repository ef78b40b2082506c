/* A small, seeded, reproducible random generator: xoshiro256** (Blackman, Vigna) seeded by SplitMix64. */
#ifndef RDG_BASE_RNG_H
#define RDG_BASE_RNG_H

#include <stdint.h>

typedef struct rdg_rng {
    uint64_t s[4];
} rdg_rng;

void rdg_rng_seed(rdg_rng *r, uint64_t seed);
uint64_t rdg_rng_next(rdg_rng *r);
double rdg_rng_uniform(rdg_rng *r);             /* [0, 1), 53 bits */
float rdg_rng_normal(rdg_rng *r);               /* mean 0, variance 1 */
uint64_t rdg_rng_below(rdg_rng *r, uint64_t n); /* 0 … n-1 without bias; n > 0 */

/* Numbers by name instead of in a row: Philox 4 x 32 with 10 rounds (Salmon et al.), a function of key and
 * counter that any device computes alike. */
void rdg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
