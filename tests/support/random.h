/* Other random data each run. The seed is printed, so that a failure can be had again. */
#ifndef RDG_TESTS_RANDOM_H
#define RDG_TESTS_RANDOM_H

#include "base/clock.h"
#include "base/rng.h"
#include "support.h"

static inline uint64_t fresh_seed(void)
{
    uint64_t seed = (uint64_t)rdg_clock_ns();
    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

static inline void seed_fresh(rdg_rng *rng)
{
    rdg_rng_seed(rng, fresh_seed());
}

#endif
