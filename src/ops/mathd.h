/* exp and tanh in double that a compiler can vectorise: no branches, no tables, no library call. Activations
 * are evaluated in double and rounded once: a float evaluation loses bits where e^x is scaled by large
 * factors. */
#ifndef RDG_OPS_MATHD_H
#define RDG_OPS_MATHD_H

#include "base/compiler.h"

#include <stdint.h>
#include <string.h>

RDG_INLINE uint64_t rdg_bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}

RDG_INLINE double rdg_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, 8);
    return x;
}

/* a b + c; with one rounding where that is one instruction. */
RDG_INLINE double rdg_mul_add(double a, double b, double c)
{
#ifdef __FMA__
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* Relative error below 1e-11 for |x| <= 700; beyond, the argument is clamped there. NaN stays NaN.
 * Comparisons are made on the bits, as integers: those of floating point may trap, and the compiler then
 * keeps the branch. */
RDG_INLINE double rdg_exp(double x)
{
    const double round = 0x1.8p52; /* adding it leaves the nearest integer in the low mantissa bits */
    const int64_t sign = INT64_MIN, limit = 0x4085e00000000000 /* 700 */, infinity = 0x7ff0000000000000;
    int64_t bits = (int64_t)rdg_bits_of(x), size = bits & ~sign;
    int64_t clamped = size > limit ? limit : size;
    size = size > infinity ? size : clamped;
    x = rdg_from_bits((uint64_t)(size | (bits & sign)));
    double shifted = rdg_mul_add(x, 0x1.71547652b82fep0, round), k = shifted - round;
    /* ln 2 in two parts: k times the first is exact */
    double r = rdg_mul_add(k, -0x1.ef35793c76730p-45, rdg_mul_add(k, -0x1.62e42fefa3800p-1, x));
    double p = 1.0 / 3628800.0;
    p = rdg_mul_add(p, r, 1.0 / 362880.0);
    p = rdg_mul_add(p, r, 1.0 / 40320.0);
    p = rdg_mul_add(p, r, 1.0 / 5040.0);
    p = rdg_mul_add(p, r, 1.0 / 720.0);
    p = rdg_mul_add(p, r, 1.0 / 120.0);
    p = rdg_mul_add(p, r, 1.0 / 24.0);
    p = rdg_mul_add(p, r, 1.0 / 6.0);
    p = rdg_mul_add(p, r, 0.5);
    p = rdg_mul_add(p, r, 1.0);
    p = rdg_mul_add(p, r, 1.0);
    /* k + 1023 in the exponent; the high bits of `round` fall off at the top */
    return p * rdg_from_bits((rdg_bits_of(shifted) + 1023) << 52);
}

RDG_INLINE double rdg_sigmoid(double x)
{
    return 1.0 / (1.0 + rdg_exp(-x));
}

/* Relative error below 1e-8: what one rounding to f32 needs. */
RDG_INLINE double rdg_tanh(double x)
{
    const int64_t sign = INT64_MIN, small = 0x3f50624dd2f1a9fc /* 0.001 */;
    const int64_t bits = (int64_t)rdg_bits_of(x), size = bits & ~sign;
    const double a = rdg_from_bits((uint64_t)size), e = rdg_exp(-2.0 * a);
    const int64_t wide = (int64_t)rdg_bits_of((1.0 - e) / (1.0 + e));
    const int64_t series = (int64_t)rdg_bits_of(a - a * a * a * (1.0 / 3.0));
    const int64_t t = size < small ? series : wide;
    return rdg_from_bits((uint64_t)(t | (bits & sign)));
}

#endif
