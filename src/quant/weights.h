/* Error weights of the searches. Sums run in element order: they are part of the bit-exact definition. */
#ifndef RDG_QUANT_WEIGHTS_H
#define RDG_QUANT_WEIGHTS_H

#include <math.h>
#include <stdint.h>

static inline float rdg_sum_squares(const float *x, int64_t n)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* With importance: w = h sqrt(S + x^2), S a mean square over some neighbourhood, so that a small element in a
 * loud neighbourhood still counts. */
static inline void rdg_weights_importance(int n, const float *x, const float *h, float s, float *w)
{
    for (int i = 0; i < n; i++) w[i] = h[i] * sqrtf(s + x[i] * x[i]);
}

static inline void rdg_weights_squares(int n, const float *x, float *w)
{
    for (int i = 0; i < n; i++) w[i] = x[i] * x[i];
}

/* An input that calibration never excited has importance 0, which says nothing about its weights: a sub-block
 * of such inputs is quantised as if there were no importance. */
static inline void rdg_weights_revive(int n_sub, int len, const float *x, float *w)
{
    for (int j = 0; j < n_sub; j++) {
        float largest = 0.0f;
        for (int i = 0; i < len; i++) largest = w[j * len + i] > largest ? w[j * len + i] : largest;
        if (largest == 0.0f) rdg_weights_squares(len, x + j * len, w + j * len);
    }
}

/* sum[j] = sum of w[j][0 … len - 1] */
static inline void rdg_weights_sums(int n_sub, int len, const float *w, float *sum)
{
    for (int j = 0; j < n_sub; j++) sum[j] = 0.0f;
    for (int i = 0; i < len; i++) /* sub-blocks innermost: independent sums, each in element order */
        for (int j = 0; j < n_sub; j++) sum[j] += w[j * len + i];
}

#endif
