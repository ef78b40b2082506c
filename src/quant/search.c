/* The searches in plain C: the reference for the wide versions. */
#include "quant/search.h"
#include "quant/iq4_nl.h"
#include "base/cpu.h"

static const float tiny = 1e-15f; /* blocks with no larger element are zero */

static void affine_one(const rdg_affine_grid *g, int len, const float *x, const float *w, float *scale,
                       float *min, uint8_t *q)
{
    float lo = x[0] < 0.0f ? x[0] : 0.0f, hi = x[0], sum_w = 0.0f, sum_x = 0.0f;
    for (int i = 0; i < len; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
        sum_w += w[i];
        sum_x += w[i] * x[i];
    }
    if (!(hi > lo)) {
        *scale = 0.0f;
        *min = -lo;
        for (int i = 0; i < len; i++) q[i] = 0;
        return;
    }
    float best_inv = g->levels / (hi - lo), best_base = lo; /* what made the best q */
    float s = 1.0f / best_inv, m = lo, best_error = 0.0f;
    for (int i = 0; i < len; i++) {
        float t = rdg_round_clip(best_inv * (x[i] - lo), 0.0f, g->levels), d = s * t + m - x[i];
        best_error += w[i] * (g->absolute ? (d < 0.0f ? -d : d) : d * d);
    }
    for (int k = 0; k <= g->n_steps; k++) {
        float inv = (g->first + g->step * (float)k + g->levels) / (hi - m), t[RDG_SEARCH_MAX_LEN];
        float sum_q = 0.0f, sum_qq = 0.0f, sum_xq = 0.0f;
        for (int i = 0; i < len; i++) {
            t[i] = rdg_round_clip(inv * (x[i] - m), 0.0f, g->levels);
            float wt = w[i] * t[i];
            sum_q += wt;
            sum_qq += wt * t[i];
            sum_xq += wt * x[i];
        }
        float determinant = sum_w * sum_qq - sum_q * sum_q;
        if (!(determinant > 0.0f)) continue;
        float s1 = (sum_w * sum_xq - sum_x * sum_q) / determinant;
        float m1 = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
        if (m1 > 0.0f) {
            m1 = 0.0f;
            s1 = sum_xq / sum_qq;
        }
        float error = 0.0f;
        for (int i = 0; i < len; i++) {
            float d = s1 * t[i] + m1 - x[i];
            error += w[i] * (g->absolute ? (d < 0.0f ? -d : d) : d * d);
        }
        if (error < best_error) {
            best_error = error;
            best_inv = inv;
            best_base = m;
            s = s1;
            m = m1;
        }
    }
    *scale = s;
    *min = -m;
    for (int i = 0; i < len; i++)
        q[i] = (uint8_t)rdg_round_clip(best_inv * (x[i] - best_base), 0.0f, g->levels);
}

static void affine(const rdg_affine_grid *g, int n_sub, int len, const float *x, const float *w, float *scale,
                   float *min, uint8_t *q)
{
    for (int j = 0; j < n_sub; j++)
        affine_one(g, len, x + j * len, w + j * len, scale + j, min + j, q + j * len);
}

static float symmetric_one(float half, int len, const float *x, const float *w, uint8_t *q)
{
    float c = rdg_signed_max(x, len), s = 0.0f, best = 0.0f, best_inv = 0.0f;
    if (!(c >= tiny || c <= -tiny)) {
        for (int i = 0; i < len; i++) q[i] = 0;
        return 0.0f;
    }
    for (int n = 0; n < 19; n++) {
        float k = n == 0 ? 0.0f : (float)(n < 10 ? n - 10 : n - 9);
        float inv = -(half + 0.1f * k) / c, a = 0.0f, b = 0.0f;
        for (int i = 0; i < len; i++) {
            float l = rdg_round_clip(inv * x[i], -half, half - 1.0f);
            a += w[i] * x[i] * l;
            b += w[i] * l * l;
        }
        if (n == 0) {
            s = b > 0.0f ? a / b : 1.0f / inv;
            best = b > 0.0f ? s * a : 0.0f;
            best_inv = inv;
        } else if (b > 0.0f && a * a > best * b) {
            s = a / b;
            best = s * a;
            best_inv = inv;
        }
    }
    for (int i = 0; i < len; i++)
        q[i] = (uint8_t)(half + rdg_round_clip(best_inv * x[i], -half, half - 1.0f));
    return s;
}

static void symmetric(int half, int n_sub, int len, const float *x, const float *w, float *scale, uint8_t *q)
{
    for (int j = 0; j < n_sub; j++)
        scale[j] = symmetric_one((float)half, len, x + j * len, w + j * len, q + j * len);
}

static float iq4_one(const float *x, const float *w)
{
    static const float values[16] = {RDG_IQ4_VALUES};
    float c = rdg_signed_max(x, 32), s = 0.0f, best = 0.0f;
    if (!(c >= tiny || c <= -tiny)) return 0.0f;
    for (int n = 0; n < 16; n++) {
        float inv = n == 0 ? 1.0f / (-c / values[0]) : ((float)(n - 8) + values[0]) / c, a = 0.0f, b = 0.0f;
        for (int i = 0; i < 32; i++) {
            float v = values[rdg_iq4_nearest(inv * x[i])];
            a += w[i] * v * x[i];
            b += w[i] * v * v;
        }
        if (n == 0) {
            s = b > 0.0f ? a / b : 1.0f / inv;
            best = b > 0.0f ? s * a : 0.0f;
        } else if (b > 0.0f && a * a > best * b) {
            s = a / b;
            best = s * a;
        }
    }
    return s;
}

static void iq4(int n_sub, const float *x, const float *w, float *scale)
{
    for (int j = 0; j < n_sub; j++) scale[j] = iq4_one(x + 32 * j, w + 32 * j);
}

const rdg_search rdg_search_plain = {"plain", affine, symmetric, iq4};

float rdg_scale_search(int n, int levels, const float *v, const float *w, uint8_t *level)
{
    float top = (float)levels, largest = 0.0f, best_inv = 0.0f, best_error = 0.0f;
    for (int j = 0; j < n; j++)
        if (v[j] > largest) largest = v[j];
    if (!(largest >= tiny)) {
        for (int j = 0; j < n; j++) level[j] = 0;
        return 0.0f;
    }
    for (int i = 0; i < 9; i++) { /* k = 0, -4 … -1, 1 … 4 */
        float k = i == 0 ? 0.0f : (float)(i < 5 ? i - 5 : i - 4);
        float inv = (top + 0.1f * k) / largest, step = 1.0f / inv, error = 0.0f;
        for (int j = 0; j < n; j++) {
            float d = v[j] - step * rdg_round_clip(inv * v[j], 0.0f, top);
            error += w[j] * d * d;
        }
        if (i == 0 || error < best_error) {
            best_error = error;
            best_inv = inv;
        }
    }
    float a = 0.0f, b = 0.0f;
    for (int j = 0; j < n; j++) {
        float l = rdg_round_clip(best_inv * v[j], 0.0f, top);
        level[j] = (uint8_t)l;
        a += w[j] * v[j] * l;
        b += w[j] * l * l;
    }
    for (int sweep = 0; sweep < 5; sweep++) {
        int n_changed = 0;
        for (int j = 0; j < n; j++) {
            float l = (float)level[j], a1 = a - w[j] * v[j] * l, b1 = b - w[j] * l * l;
            if (!(a1 > 0.0f && b1 > 0.0f)) continue;
            float l1 = rdg_round_clip(v[j] * b1 / a1, 0.0f, top);
            if (l1 == l) continue;
            a1 += w[j] * v[j] * l1;
            b1 += w[j] * l1 * l1;
            if (a1 * a1 * b > a * a * b1) {
                level[j] = (uint8_t)l1;
                a = a1;
                b = b1;
                n_changed++;
            }
        }
        if (n_changed == 0) break;
    }
    return b > 0.0f ? a / b : 1.0f / best_inv;
}

const rdg_search *rdg_search_best(uint32_t cpu_features)
{
#if defined(__x86_64__)
    if (cpu_features & RDG_CPU_AVX2) return &rdg_search_avx2;
#endif
    (void)cpu_features;
    return &rdg_search_plain;
}
