/* Attention with AVX2, flash style: flash_avx512.c with half the width. Cache rows become f32 first, keys are
 * transposed by scalar copies; both are done once for all queries of the item. */
#include "ops/attention/flash.h"
#include "ops/attention/attention_variants.h"
#include "ops/attention/exp_avx2.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "ops/contract.h"
#include "quant/quant.h"

#include <math.h>
#include <string.h>

enum { KEYS = RDG_FLASH_KEYS, GROUP = RDG_FLASH_GROUP, WIDTH = 16 };

/* Elements i … i + 7 of a row of F32, F16 or BF16. */
RDG_INLINE __m256 floats_cached(rdg_type type, const char *row, int64_t i)
{
    if (type == RDG_TYPE_F32) return _mm256_loadu_ps((const float *)(const void *)row + i);
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * i));
    if (type == RDG_TYPE_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* One cache row as f32. */
static void fetch(rdg_type type, const void *src, float *dst, int64_t n)
{
    int64_t i = 0;
    if (type == RDG_TYPE_F16) {
        const uint16_t *h = src;
        for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, floats_cached(type, src, i));
        for (; i < n; i++) dst[i] = _cvtsh_ss(h[i]);
        return;
    }
    rdg_quant_ops[type].dequantise(src, dst, n);
}

/* keys[d][key]; keys from n on are zero. */
static void load_keys(const rdg_tensor *k, int64_t g, int64_t j, int64_t n, float *row, float *keys)
{
    const char *first = rdg_tensor_row(k, j % k->dim[1], g, 0);
    if (n < KEYS) memset(keys, 0, (size_t)(k->dim[0] * KEYS) * sizeof *keys);
    for (int64_t i = 0; i < n; i++) {
        fetch(k->type, first + i * k->stride[1], row, k->dim[0]);
        for (int64_t d = 0; d < k->dim[0]; d++) keys[d * KEYS + i] = row[d];
    }
}

/* values[key][row_v], zero beyond dim_v. */
static void load_values(const rdg_tensor *v, int64_t g, int64_t j, int64_t n, float *rows, int64_t row_v,
                        float *values)
{
    const char *first = rdg_tensor_row(v, j % v->dim[1], g, 0);
    (void)rows;
    for (int64_t i = 0; i < n; i++) {
        fetch(v->type, first + i * v->stride[1], values + i * row_v, v->dim[0]);
        for (int64_t d = v->dim[0]; d < row_v; d++) values[i * row_v + d] = 0.0f;
    }
}

/* out[t][0 … 15] = (add ? out : 0) + sum over k < n of panel[k][0 … 15] * x[t][k], for six rows t. */
RDG_INLINE void product(const float *panel, int64_t panel_stride, int64_t n, const float *x, int64_t x_stride,
                        float *out, int64_t out_stride, bool add)
{
    __m256 sum[2][GROUP];
#pragma GCC unroll 6
    for (int t = 0; t < GROUP; t++) {
        sum[0][t] = add ? _mm256_load_ps(out + t * out_stride) : _mm256_setzero_ps();
        sum[1][t] = add ? _mm256_load_ps(out + t * out_stride + 8) : _mm256_setzero_ps();
    }
    for (int64_t k = 0; k < n; k++) {
        __m256 w0 = _mm256_load_ps(panel + k * panel_stride),
               w1 = _mm256_load_ps(panel + k * panel_stride + 8);
#pragma GCC unroll 6
        for (int t = 0; t < GROUP; t++) {
            __m256 b = _mm256_broadcast_ss(x + t * x_stride + k);
            sum[0][t] = _mm256_fmadd_ps(w0, b, sum[0][t]);
            sum[1][t] = _mm256_fmadd_ps(w1, b, sum[1][t]);
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < GROUP; t++) {
        _mm256_store_ps(out + t * out_stride, sum[0][t]);
        _mm256_store_ps(out + t * out_stride + 8, sum[1][t]);
    }
}

/* Scores of one query against keys [begin, end) of the n of a block become weights; the others become 0. */
static void weigh(float *s, int64_t n, int64_t begin, int64_t end, float softcap, float *maximum, float *sum,
                  float *out, int64_t row_v)
{
    const int64_t padded = rdg_round_up(n, 8);
    for (int64_t i = begin; softcap > 0.0f && i < end; i++) s[i] = softcap * tanhf(s[i] / softcap);
    for (int64_t i = 0; i < begin; i++) s[i] = -INFINITY;
    for (int64_t i = end; i < padded; i++) s[i] = -INFINITY;
    __m256 tops = _mm256_set1_ps(-INFINITY);
    for (int64_t i = 0; i < padded; i += 8) {
        __m256 v = _mm256_load_ps(s + i);
        tops = _mm256_max_ps(v, tops); /* tops where v is NaN */
    }
    __m128 top = _mm_max_ps(_mm256_castps256_ps128(tops), _mm256_extractf128_ps(tops, 1));
    top = _mm_max_ps(top, _mm_movehl_ps(top, top));
    const float best = _mm_cvtss_f32(_mm_max_ss(top, _mm_movehdup_ps(top)));
    if (best > *maximum) {
        if (*maximum > -INFINITY) { /* else all is 0 yet */
            const __m256 shrink = rdg_exp_avx2(_mm256_set1_ps(*maximum - best));
            for (int64_t d = 0; d < row_v; d += 8)
                _mm256_store_ps(out + d, _mm256_mul_ps(_mm256_load_ps(out + d), shrink));
            _mm256_store_ps(sum, _mm256_mul_ps(_mm256_load_ps(sum), shrink));
        }
        *maximum = best;
    }
    __m256 total = _mm256_load_ps(sum), shift = _mm256_set1_ps(*maximum);
    for (int64_t i = 0; i < padded; i += 8) {
        __m256 w = rdg_exp_avx2(_mm256_sub_ps(_mm256_load_ps(s + i), shift));
        total = _mm256_add_ps(total, w);
        _mm256_store_ps(s + i, w);
    }
    _mm256_store_ps(sum, total);
}

/* q * scale, rows padded with zeros. */
static void load_queries(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                         int64_t row_k, float *queries)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q];
    const float scale = RDG_PARAMS(call, rdg_attention_params)->scale;
    for (int64_t i = 0; i < x->n_tokens * c->share; i++) {
        const float *row =
            rdg_tensor_row(q, x->g * c->share + i % c->share, x->first_token + i / c->share, 0);
        for (int64_t d = 0; d < row_k; d++) queries[i * row_k + d] = d < q->dim[0] ? row[d] * scale : 0.0f;
    }
}

static void store(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                  const rdg_flash_layout *l, const float *memory, float *parts)
{
    const rdg_tensor *out = &call->operand[RDG_ATTENTION_OUT];
    for (int64_t i = 0; i < x->n_tokens * c->share; i++) {
        const int64_t token = x->first_token + i / c->share, head = x->g * c->share + i % c->share;
        const float *o = memory + l->out + i * c->row_v, *partial = memory + l->sums + 16 * i;
        float sum = 0.0f;
        for (int k = 0; k < 8; k++) sum += partial[k];
        if (c->n_chunks > 1) {
            float *p = rdg_flash_part(c, parts, token, head, x->chunk);
            memcpy(p, o, (size_t)c->row_v * sizeof *p);
            p[c->row_v] = memory[l->maxima + i];
            p[c->row_v + 1] = sum;
            continue;
        }
        const float inverse = sum > 0.0f || isnan(sum) ? 1.0f / sum : 0.0f;
        float *y = rdg_tensor_row(out, head, token, 0);
        for (int64_t d = 0; d < out->dim[0]; d++) y[d] = o[d] * inverse;
    }
}

/* What the direct form is made of. */
typedef __m256 floats;
enum { LANES = 8, DIRECT_QUERIES = 32 };
RDG_INLINE floats floats_zero(void)
{
    return _mm256_setzero_ps();
}
RDG_INLINE floats floats_set1(float x)
{
    return _mm256_set1_ps(x);
}
RDG_INLINE floats floats_load(const float *x)
{
    return _mm256_load_ps(x);
}
RDG_INLINE void floats_store(float *x, floats v)
{
    _mm256_store_ps(x, v);
}
RDG_INLINE floats floats_fma(floats a, floats b, floats c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* Lane i: the sum of m[i]. */
RDG_INLINE floats floats_sums(const floats m[8])
{
    __m256 a[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) /* a[i]: two partial sums of m[4 i + c] in lanes c and c + 4 */
        a[i] = _mm256_hadd_ps(_mm256_hadd_ps(m[4 * i], m[4 * i + 1]),
                              _mm256_hadd_ps(m[4 * i + 2], m[4 * i + 3]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a[0], a[1], 0x20), _mm256_permute2f128_ps(a[0], a[1], 0x31));
}

#include "ops/attention/flash_item.h"

const rdg_variant rdg_attention_avx2 = {.name = "flash_avx2",
                                        .source = "src/ops/attention/flash_avx2.c",
                                        .backend = RDG_BACKEND_CPU,
                                        .requires_mask = RDG_CPU_AVX2,
                                        .cpu = &kernel,
                                        .tolerance = {RDG_TOLERANCE_INHERIT, 0}};
