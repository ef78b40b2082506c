/* exp and tanh in double that a compiler can vectorise: no branches, no tables, no library call. Activations
 * are evaluated in double and rounded once: a float evaluation loses bits where e^x is scaled by large
 * factors. */
#ifndef RDG_OPS_MATHD_H
#define RDG_OPS_MATHD_H

#include "base/compiler.h"

#include <stdint.h>
#include <string.h>

/* Relative error below 1e-11 for |x| <= 700; beyond, the argument is clamped there. NaN stays NaN. */
RDG_INLINE double rdg_exp(double x)
{
    const double round = 0x1.8p52; /* adding it leaves the nearest integer in the low mantissa bits */
    x = x > 700.0 ? 700.0 : x;
    x = x < -700.0 ? -700.0 : x;
    double shifted = x * 0x1.71547652b82fep0 + round, k = shifted - round;
    double r = x - k * 0x1.62e42fefa3800p-1 -
               k * 0x1.ef35793c76730p-45; /* ln 2 in two parts: k times the first is exact */
    double p = 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t bits, power;
    memcpy(&bits, &shifted, 8);
    power = (bits + 1023) << 52; /* the high bits of `round` fall off at the top */
    double two_k;
    memcpy(&two_k, &power, 8);
    return p * two_k;
}

RDG_INLINE double rdg_sigmoid(double x)
{
    return 1.0 / (1.0 + rdg_exp(-x));
}

/* Relative error below 1e-8: what one rounding to f32 needs. */
RDG_INLINE double rdg_tanh(double x)
{
    double a = x < 0 ? -x : x, e = rdg_exp(-2.0 * a), t = (1.0 - e) / (1.0 + e);
    t = a < 1e-3 ? a - a * a * a * (1.0 / 3.0) : t;
    return x < 0 ? -t : t;
}

#endif
