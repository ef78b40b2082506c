/* The searches with one sub-block in each of eight lanes. Every lane takes its sums in element order and
 * without fused multiply-add, so the results are those of the plain version to the last bit. */
#include "quant/search.h"
#include "quant/iq4_nl.h"
#include "base/compiler.h"

#include <immintrin.h>

enum { LANES = 8 };

/* out[i] = element i of eight consecutive rows of len elements; len a multiple of 8. */
static void transpose(int len, const float *x, __m256 *out)
{
    for (int i = 0; i < len; i += 8) {
        __m256 r[8], s[8];
        for (int j = 0; j < 4; j++) { /* rows j and j + 4 side by side */
            const float *p = x + j * len + i;
            r[j] =
                _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * len), 1);
            r[j + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4)),
                                            _mm_loadu_ps(p + 4 * len + 4), 1);
        }
        for (int h = 0; h < 8; h += 4) { /* a 4 x 4 transpose in both halves */
            s[0] = _mm256_unpacklo_ps(r[h], r[h + 1]);
            s[1] = _mm256_unpackhi_ps(r[h], r[h + 1]);
            s[2] = _mm256_unpacklo_ps(r[h + 2], r[h + 3]);
            s[3] = _mm256_unpackhi_ps(r[h + 2], r[h + 3]);
            out[i + h] = _mm256_shuffle_ps(s[0], s[2], 0x44);
            out[i + h + 1] = _mm256_shuffle_ps(s[0], s[2], 0xee);
            out[i + h + 2] = _mm256_shuffle_ps(s[1], s[3], 0x44);
            out[i + h + 3] = _mm256_shuffle_ps(s[1], s[3], 0xee);
        }
    }
}

/* q[lane][i] from small non-negative floats t[i]. */
static void store_quanta(int len, const __m256 *t, uint8_t *q)
{
    for (int i = 0; i < len; i++) {
        int32_t lane[LANES];
        _mm256_storeu_si256((__m256i *)lane, _mm256_cvtps_epi32(t[i]));
        for (int j = 0; j < LANES; j++) q[j * len + i] = (uint8_t)lane[j];
    }
}

/* As rdg_round_clip: a NaN becomes lo because min and max return their second operand. */
static inline __m256 round_clip(__m256 v, __m256 lo, __m256 hi)
{
    const __m256 magic = _mm256_set1_ps(12582912.0f);
    v = _mm256_min_ps(_mm256_max_ps(v, lo), hi);
    return _mm256_sub_ps(_mm256_add_ps(v, magic), magic);
}

static inline __m256 weighted_error(__m256 s, __m256 t, __m256 m, __m256 x, __m256 w, bool absolute)
{
    __m256 d = _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(s, t), m), x);
    d = absolute ? _mm256_andnot_ps(_mm256_set1_ps(-0.0f), d) : _mm256_mul_ps(d, d);
    return _mm256_mul_ps(w, d);
}

RDG_INLINE void affine_lanes(const rdg_affine_grid *g, bool absolute, int len, const float *x_rows,
                             const float *w_rows, float *scale, float *min, uint8_t *q)
{
    __m256 x[RDG_SEARCH_MAX_LEN], w[RDG_SEARCH_MAX_LEN], t[RDG_SEARCH_MAX_LEN];
    const __m256 zero = _mm256_setzero_ps(), levels = _mm256_set1_ps(g->levels);
    transpose(len, x_rows, x);
    transpose(len, w_rows, w);
    __m256 lo = _mm256_min_ps(x[0], zero), hi = x[0], sum_w = zero, sum_x = zero;
    for (int i = 0; i < len; i++) {
        lo = _mm256_min_ps(x[i], lo);
        hi = _mm256_max_ps(x[i], hi);
        sum_w = _mm256_add_ps(sum_w, w[i]);
        sum_x = _mm256_add_ps(sum_x, _mm256_mul_ps(w[i], x[i]));
    }
    const __m256 valid = _mm256_cmp_ps(hi, lo, _CMP_GT_OQ);
    __m256 best_inv = _mm256_div_ps(levels, _mm256_sub_ps(hi, lo)), best_base = lo, m = lo, best_error = zero;
    __m256 s = _mm256_div_ps(_mm256_set1_ps(1.0f), best_inv);
    for (int i = 0; i < len; i++) {
        t[i] = round_clip(_mm256_mul_ps(best_inv, _mm256_sub_ps(x[i], lo)), zero, levels);
        best_error = _mm256_add_ps(best_error, weighted_error(s, t[i], m, x[i], w[i], absolute));
    }
    for (int k = 0; k <= g->n_steps; k++) {
        __m256 inv =
            _mm256_div_ps(_mm256_set1_ps(g->first + g->step * (float)k + g->levels), _mm256_sub_ps(hi, m));
        __m256 sum_q = zero, sum_qq = zero, sum_xq = zero;
        for (int i = 0; i < len; i++) {
            t[i] = round_clip(_mm256_mul_ps(inv, _mm256_sub_ps(x[i], m)), zero, levels);
            __m256 wt = _mm256_mul_ps(w[i], t[i]);
            sum_q = _mm256_add_ps(sum_q, wt);
            sum_qq = _mm256_add_ps(sum_qq, _mm256_mul_ps(wt, t[i]));
            sum_xq = _mm256_add_ps(sum_xq, _mm256_mul_ps(wt, x[i]));
        }
        __m256 determinant = _mm256_sub_ps(_mm256_mul_ps(sum_w, sum_qq), _mm256_mul_ps(sum_q, sum_q));
        __m256 accept = _mm256_and_ps(valid, _mm256_cmp_ps(determinant, zero, _CMP_GT_OQ));
        if (!_mm256_movemask_ps(accept)) continue;
        __m256 s1 = _mm256_sub_ps(_mm256_mul_ps(sum_w, sum_xq), _mm256_mul_ps(sum_x, sum_q));
        __m256 m1 = _mm256_sub_ps(_mm256_mul_ps(sum_qq, sum_x), _mm256_mul_ps(sum_q, sum_xq));
        s1 = _mm256_div_ps(s1, determinant);
        m1 = _mm256_div_ps(m1, determinant);
        __m256 positive = _mm256_cmp_ps(m1, zero, _CMP_GT_OQ);
        s1 = _mm256_blendv_ps(s1, _mm256_div_ps(sum_xq, sum_qq), positive);
        m1 = _mm256_andnot_ps(positive, m1);
        __m256 error = zero;
        for (int i = 0; i < len; i++)
            error = _mm256_add_ps(error, weighted_error(s1, t[i], m1, x[i], w[i], absolute));
        accept = _mm256_and_ps(accept, _mm256_cmp_ps(error, best_error, _CMP_LT_OQ));
        best_error = _mm256_blendv_ps(best_error, error, accept);
        best_inv = _mm256_blendv_ps(best_inv, inv, accept);
        best_base = _mm256_blendv_ps(best_base, m, accept);
        s = _mm256_blendv_ps(s, s1, accept);
        m = _mm256_blendv_ps(m, m1, accept);
    }
    _mm256_storeu_ps(scale, _mm256_and_ps(valid, s));
    _mm256_storeu_ps(min, _mm256_xor_ps(m, _mm256_set1_ps(-0.0f)));
    for (int i = 0; i < len; i++) {
        t[i] = round_clip(_mm256_mul_ps(best_inv, _mm256_sub_ps(x[i], best_base)), zero, levels);
        t[i] = _mm256_and_ps(valid, t[i]);
    }
    store_quanta(len, t, q);
}

static void affine(const rdg_affine_grid *g, int n_sub, int len, const float *x, const float *w, float *scale,
                   float *min, uint8_t *q)
{
    int j = 0;
    for (; j + LANES <= n_sub; j += LANES) {
        if (g->absolute)
            affine_lanes(g, true, len, x + j * len, w + j * len, scale + j, min + j, q + j * len);
        else
            affine_lanes(g, false, len, x + j * len, w + j * len, scale + j, min + j, q + j * len);
    }
    rdg_search_plain.affine(g, n_sub - j, len, x + j * len, w + j * len, scale + j, min + j, q + j * len);
}

/* The first element of largest magnitude in each lane; *alive where it is not taken for zero. */
static inline __m256 signed_max(int len, const __m256 *x, __m256 *alive)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 c = _mm256_setzero_ps(), largest = _mm256_setzero_ps();
    for (int i = 0; i < len; i++) {
        __m256 a = _mm256_andnot_ps(sign, x[i]), more = _mm256_cmp_ps(a, largest, _CMP_GT_OQ);
        largest = _mm256_blendv_ps(largest, a, more);
        c = _mm256_blendv_ps(c, x[i], more);
    }
    *alive = _mm256_cmp_ps(largest, _mm256_set1_ps(1e-15f), _CMP_GE_OQ);
    return c;
}

typedef struct lanes_best {
    __m256 s, value, inv;
} lanes_best;

/* Takes the candidate where a^2 / b beats the best; n = 0 is the first. */
static inline void consider(lanes_best *best, int n, __m256 inv, __m256 a, __m256 b)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 usable = _mm256_cmp_ps(b, zero, _CMP_GT_OQ), s = _mm256_div_ps(a, b);
    if (n == 0) {
        best->s = _mm256_blendv_ps(_mm256_div_ps(_mm256_set1_ps(1.0f), inv), s, usable);
        best->value = _mm256_and_ps(usable, _mm256_mul_ps(s, a));
        best->inv = inv;
        return;
    }
    __m256 better = _mm256_cmp_ps(_mm256_mul_ps(a, a), _mm256_mul_ps(best->value, b), _CMP_GT_OQ);
    better = _mm256_and_ps(better, usable);
    best->s = _mm256_blendv_ps(best->s, s, better);
    best->value = _mm256_blendv_ps(best->value, _mm256_mul_ps(s, a), better);
    best->inv = _mm256_blendv_ps(best->inv, inv, better);
}

static void symmetric_lanes(int half, int len, const float *x_rows, const float *w_rows, float *scale,
                            uint8_t *q)
{
    __m256 x[RDG_SEARCH_MAX_LEN], w[RDG_SEARCH_MAX_LEN], wx[RDG_SEARCH_MAX_LEN], alive;
    const __m256 lo = _mm256_set1_ps((float)-half), hi = _mm256_set1_ps((float)half - 1.0f);
    transpose(len, x_rows, x);
    transpose(len, w_rows, w);
    for (int i = 0; i < len; i++) wx[i] = _mm256_mul_ps(w[i], x[i]);
    __m256 c = signed_max(len, x, &alive);
    lanes_best best = {0};
    for (int n = 0; n < 19; n++) {
        float k = n == 0 ? 0.0f : (float)(n < 10 ? n - 10 : n - 9);
        __m256 inv = _mm256_div_ps(_mm256_set1_ps(-((float)half + 0.1f * k)), c);
        __m256 a = _mm256_setzero_ps(), b = _mm256_setzero_ps();
        for (int i = 0; i < len; i++) {
            __m256 l = round_clip(_mm256_mul_ps(inv, x[i]), lo, hi);
            a = _mm256_add_ps(a, _mm256_mul_ps(wx[i], l));
            b = _mm256_add_ps(b, _mm256_mul_ps(_mm256_mul_ps(w[i], l), l));
        }
        consider(&best, n, inv, a, b);
    }
    _mm256_storeu_ps(scale, _mm256_and_ps(alive, best.s));
    for (int i = 0; i < len; i++) {
        __m256 l = round_clip(_mm256_mul_ps(best.inv, x[i]), lo, hi);
        wx[i] = _mm256_and_ps(alive, _mm256_add_ps(_mm256_set1_ps((float)half), l));
    }
    store_quanta(len, wx, q);
}

static void symmetric(int half, int n_sub, int len, const float *x, const float *w, float *scale, uint8_t *q)
{
    int j = 0;
    for (; j + LANES <= n_sub; j += LANES)
        symmetric_lanes(half, len, x + j * len, w + j * len, scale + j, q + j * len);
    rdg_search_plain.symmetric(half, n_sub - j, len, x + j * len, w + j * len, scale + j, q + j * len);
}

/* K[nearest(v)]: the binary search of rdg_iq4_nearest, its tables held in registers. */
static inline __m256 iq4_nearest_value(__m256 v)
{
    static const float values[16] = {RDG_IQ4_VALUES};
    const __m256 third = _mm256_setr_ps(-93.5f, -28.5f, 19.0f, 79.0f, 0, 0, 0, 0); /* steps 1, 5, 9, 13 */
    const __m256 fourth = _mm256_setr_ps(-115.5f, -74.0f, -42.0f, -16.0f, 7.0f, 31.5f, 61.0f, 101.0f);
    const __m256i two = _mm256_set1_epi32(2);
    __m256 upper = _mm256_cmp_ps(v, _mm256_set1_ps(-4.5f), _CMP_GE_OQ);
    __m256 step = _mm256_blendv_ps(_mm256_set1_ps(-57.0f), _mm256_set1_ps(45.5f), upper);
    __m256i i = _mm256_and_si256(_mm256_castps_si256(upper), two);
    i = _mm256_sub_epi32(i, _mm256_castps_si256(_mm256_cmp_ps(v, step, _CMP_GE_OQ))); /* a true lane is -1 */
    step = _mm256_permutevar8x32_ps(third, i);
    i = _mm256_add_epi32(i, i);
    i = _mm256_sub_epi32(i, _mm256_castps_si256(_mm256_cmp_ps(v, step, _CMP_GE_OQ)));
    step = _mm256_permutevar8x32_ps(fourth, i);
    i = _mm256_add_epi32(i, i);
    i = _mm256_sub_epi32(i, _mm256_castps_si256(_mm256_cmp_ps(v, step, _CMP_GE_OQ)));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(values), i),
                            _mm256_permutevar8x32_ps(_mm256_loadu_ps(values + 8), i), upper);
}

static void iq4_lanes(const float *x_rows, const float *w_rows, float *scale)
{
    __m256 x[32], w[32], alive;
    transpose(32, x_rows, x);
    transpose(32, w_rows, w);
    __m256 c = signed_max(32, x, &alive), sign = _mm256_set1_ps(-0.0f);
    lanes_best best = {0};
    for (int n = 0; n < 16; n++) {
        __m256 inv = n == 0 ? _mm256_div_ps(_mm256_set1_ps(1.0f),
                                            _mm256_div_ps(_mm256_xor_ps(c, sign), _mm256_set1_ps(-127.0f)))
                            : _mm256_div_ps(_mm256_set1_ps((float)(n - 8) - 127.0f), c);
        __m256 a = _mm256_setzero_ps(), b = _mm256_setzero_ps();
        for (int i = 0; i < 32; i++) {
            __m256 v = iq4_nearest_value(_mm256_mul_ps(inv, x[i])), wv = _mm256_mul_ps(w[i], v);
            a = _mm256_add_ps(a, _mm256_mul_ps(wv, x[i]));
            b = _mm256_add_ps(b, _mm256_mul_ps(wv, v));
        }
        consider(&best, n, inv, a, b);
    }
    _mm256_storeu_ps(scale, _mm256_and_ps(alive, best.s));
}

static void iq4(int n_sub, const float *x, const float *w, float *scale)
{
    int j = 0;
    for (; j + LANES <= n_sub; j += LANES) iq4_lanes(x + 32 * j, w + 32 * j, scale + j);
    rdg_search_plain.iq4(n_sub - j, x + 32 * j, w + 32 * j, scale + j);
}

const rdg_search rdg_search_avx2 = {"avx2", affine, symmetric, iq4};
