/* The arithmetic that all versions of sample share, bit for bit; sample.comp holds the same in GLSL. */
#ifndef RDG_OPS_SAMPLE_WEIGHT_H
#define RDG_OPS_SAMPLE_WEIGHT_H

#include "base/half.h"
#include "base/rng.h"
#include "ops/sample/sample.h"

#include <math.h>

enum { RDG_SAMPLE_KEY_NEG_INF = 0x007fffff }; /* key of -inf */

/* Order-preserving map of logits to unsigned integers; -0 and +0 are one value. */
static inline uint32_t rdg_sample_key(float logit)
{
    uint32_t u = rdg_f32_bits(logit);
    if (u == 0x80000000u) u = 0;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static inline float rdg_sample_logit(uint32_t key)
{
    return rdg_f32_from_bits(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* What (max - logit) is multiplied by. Bounded, so that a difference of zero stays zero. */
static inline float rdg_sample_scale(float temperature)
{
    double c = 1.4426950408889634 / (double)temperature;
    return (float)(c < 1e30 ? c : 1e30);
}

/* How far below the largest logit min_p allows. */
static inline float rdg_sample_reach(float min_p)
{
    return min_p > 0 ? (float)-log((double)min_p) : INFINITY;
}

/* 2^(38 - y), y >= 0. Integers only: y becomes a fixed-point number by its bits, and the power's series (ln
 * 2)^j / j! is summed in units of 2^-32. */
static inline uint64_t rdg_sample_weight(float y)
{
    static const uint32_t series[] = {0xb17217f8u, 0x3d7f7bffu, 0x0e35846cu, 0x0276556eu,
                                      0x00576200u, 0x000a1849u, 0x0000ffe6u, 0x0000162cu,
                                      0x000001b5u, 0x0000001eu, 0x00000002u};
    enum { LAST = sizeof series / sizeof *series - 1 };
    uint32_t u = rdg_f32_bits(y), exponent = u >> 23, mantissa = (u & 0x7fffffu) | 0x800000u;
    if (exponent >= 133) return 0; /* y >= 64 */
    uint64_t fixed = exponent >= 118  ? (uint64_t)mantissa << (exponent - 118)
                     : exponent >= 95 ? mantissa >> (118 - exponent)
                                      : 0;
    uint32_t fraction = (uint32_t)fixed, p = series[LAST];
    for (int j = LAST - 1; j >= 0; j--) p = series[j] - (uint32_t)(((uint64_t)p * fraction) >> 32);
    uint64_t power = ((uint64_t)1 << 32) - (((uint64_t)p * fraction) >> 32);
    return (power << 6) >> (fixed >> 32);
}

/* The share top_p of a total, rounded up; at least 1. */
static inline uint64_t rdg_sample_part(uint64_t total, float top_p)
{
    uint64_t p = (uint64_t)((double)top_p * 0x1p32);
    uint64_t part = (total >> 32) * p + (((total & 0xffffffffu) * p + 0xffffffffu) >> 32);
    return part > 0 ? part : 1;
}

/* Uniform in [0, total). */
static inline uint64_t rdg_sample_target(uint64_t total, uint64_t seed, uint32_t step)
{
    const uint32_t counter[4] = {step, 0, 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t r[4];
    rdg_philox(counter, key, r);
    /* the high 64 bits of the product with r[1]:r[0] */
    uint64_t low = total & 0xffffffffu, high = total >> 32, a = low * r[0], b = high * r[0] + (a >> 32),
             c = low * r[1] + (b & 0xffffffffu);
    return high * r[1] + (b >> 32) + (c >> 32);
}

#endif
