/* The searches behind the quantisers: given elements and weights of several sub-blocks, find scale and offset
 * with the least weighted error over a fixed grid of candidates. Each exists in plain C and for wider
 * machines; all give the same bytes, because every sum is taken in element order (wide versions put one
 * sub-block in each lane).
 *
 * The order of evaluation is part of the contract: products are taken left to right as written here, f32,
 * without contraction; a comparison with a NaN never accepts a candidate.
 *
 * Where the weights are so small that their sums underflow to 0, no candidate has an error to compare: the
 * scale of the first candidate is kept. */
#ifndef RDG_QUANT_SEARCH_H
#define RDG_QUANT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { RDG_SEARCH_MAX_LEN = 32 };

/* Candidates of the affine search: inverse scales (first + step k + levels) / (max - offset), k = 0 …
 * n_steps. */
typedef struct rdg_affine_grid {
    float levels; /* largest quantum Q */
    float first, step;
    int n_steps;
    bool absolute; /* weighted absolute error decides, not the weighted square */
} rdg_affine_grid;

typedef struct rdg_search {
    const char *name;
    /* x ≈ scale q - min with q in 0 … Q, min >= 0. x, w, q: [n_sub][len]; scale, min: [n_sub]. len <= 32.
     * lo = min(0, min x), hi = max x; hi <= lo gives scale 0, q 0, min -lo. Start: inverse scale Q / (hi -
     * lo), offset m = lo, scale its reciprocal, error E = sum w (scale q + m - x)^2. Each candidate t =
     * clip(round(inv (x - m))) with the best m so far is solved for (s', m') by weighted least squares (sums
     * of w, w x, w t, w t t, w t x; skipped unless the determinant is > 0; m' > 0 becomes 0 with s' = sum w t
     * x / sum w t t) and accepted if its error is smaller. */
    void (*affine)(const rdg_affine_grid *grid, int n_sub, int len, const float *x, const float *w,
                   float *scale, float *min, uint8_t *q);
    /* x ≈ scale (q - half) with q in 0 … 2 half - 1. With c the first element of largest magnitude,
     * candidates have the inverse scale -(half + 0.1 k) / c, k = 0, -9 … -1, 1 … 9; A = sum w x l, B = sum w
     * l l; the largest A^2 / B wins and scale = A / B. |c| < 1e-15 gives scale 0, q 0. */
    void (*symmetric)(int half, int n_sub, int len, const float *x, const float *w, float *scale, uint8_t *q);
    /* x ≈ scale K[q], K of IQ4_NL, len 32: inverse scales 1 / (c / 127), then (k - 127) / c, k = -7 … 7,
     * otherwise as above with A = sum w K x, B = sum w K K. */
    void (*iq4)(int n_sub, const float *x, const float *w, float *scale);
} rdg_search;

extern const rdg_search rdg_search_plain, rdg_search_avx2; /* the latter on x86-64 only */
/* The fastest for these rdg_cpu_features. */
const rdg_search *rdg_search_best(uint32_t cpu_features);

/* Round to nearest, ties to even, for |v| < 2^22; compilers may vectorise it. */
static inline float rdg_round_even(float v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

/* Round to nearest, ties away from zero, for |v| < 2^22: what roundf does, but vectorisable. v - r is exact.
 */
static inline float rdg_round_away(float v)
{
    float r = rdg_round_even(v), d = v - r;
    r += d >= 0.5f && v > 0.0f ? 1.0f : 0.0f;
    return r - (d <= -0.5f && v < 0.0f ? 1.0f : 0.0f);
}

/* The largest magnitude; all finite. Integers compare like the floats they are, and compilers vectorise their
 * maximum. */
static inline float rdg_largest(const float *x, int n)
{
    int32_t largest = 0;
    float result;
    for (int i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    memcpy(&result, &largest, sizeof result);
    return result;
}

/* NaN becomes lo. */
static inline float rdg_clip(float v, float lo, float hi)
{
    v = v > lo ? v : lo;
    return v < hi ? v : hi;
}

/* clip(round(v)) for integer bounds; any v. */
static inline float rdg_round_clip(float v, float lo, float hi)
{
    return rdg_round_even(rdg_clip(v, lo, hi));
}

/* The first element of largest magnitude, with its sign. 0 if all are 0. */
static inline float rdg_signed_max(const float *x, int n)
{
    float c = 0.0f, largest = 0.0f;
    for (int i = 0; i < n; i++) {
        float a = x[i] < 0.0f ? -x[i] : x[i];
        if (a > largest) {
            largest = a;
            c = x[i];
        }
    }
    return c;
}

/* Index of the closest value K of IQ4_NL; a midpoint belongs to the upper one. Steps are the midpoints. */
static inline int rdg_iq4_nearest(float v)
{
    static const float step[15] = {-115.5f, -93.5f, -74.0f, -57.0f, -42.0f, -28.5f, -16.0f, -4.5f,
                                   7.0f,    19.0f,  31.5f,  45.5f,  61.0f,  79.0f,  101.0f};
    int i = v >= step[7] ? 8 : 0;
    i += v >= step[i + 3] ? 4 : 0;
    i += v >= step[i + 1] ? 2 : 0;
    i += v >= step[i] ? 1 : 0;
    return i;
}

/* Non-negative scale quantisation (a scale of scales): v_j >= 0 with weights, n <= 16, levels Q. Returns the
 * scale; level[j] in 0 … Q. Best of nine inverse scales (Q + 0.1 k) / max v, then up to five sweeps of
 * coordinate descent. */
float rdg_scale_search(int n, int levels, const float *v, const float *w, uint8_t *level);

#endif
