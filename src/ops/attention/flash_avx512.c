/* Attention with AVX-512, flash style. Keys come in blocks of 64, made f32 and transposed once for all
 * queries of the item; six queries at a time are multiplied with the block, weighted, and multiplied with the
 * values, both by the same 6 x 32 product in registers. Caches of F32, F16 and BF16 are converted on the way,
 * others dequantised first. */
#include "ops/attention/flash.h"
#include "ops/attention/attention_variants.h"
#include "ops/attention/exp_avx512.h"
#include "ops/matmul/load_avx512.h"
#include "ops/matmul/transpose_avx512.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "ops/contract.h"

#include <math.h>
#include <string.h>

enum { KEYS = RDG_FLASH_KEYS, GROUP = RDG_FLASH_GROUP, WIDTH = 32 };

RDG_INLINE __mmask16 tail_mask(int64_t left)
{
    return left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
}

/* keys[d][key]; keys from n on are zero up to a multiple of WIDTH, which is as far as `product` looks. */
static void load_keys(const rdg_tensor *k, int64_t g, int64_t j, int64_t n, float *rows, float *keys)
{
    const rdg_flash_rows r = rdg_flash_rows_at(k, g, j, n, 1, rows);
    for (int64_t first = 0; first < rdg_round_up(n, WIDTH); first += 16)
        for (int64_t d = 0; d < k->dim[0]; d += 16) {
            __mmask16 mask = tail_mask(k->dim[0] - d);
            __m512i m[16];
            for (int i = 0; i < 16; i++)
                m[i] = _mm512_castps_si512(
                    first + i < n ? rdg_load16_avx512(r.type, rdg_flash_row(&r, first + i), d, mask)
                                  : _mm512_setzero_ps());
            rdg_transpose16_avx512(m);
            for (int i = 0; i < 16; i++) _mm512_store_si512(keys + (d + i) * KEYS + first, m[i]);
        }
}

/* values[key][row_v], zero beyond dim_v. */
static void load_values(const rdg_tensor *v, int64_t g, int64_t j, int64_t n, float *rows, int64_t row_v,
                        float *values)
{
    const rdg_flash_rows r = rdg_flash_rows_at(v, g, j, n, 1, rows);
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < row_v; d += 16)
            _mm512_store_ps(values + i * row_v + d,
                            d < v->dim[0]
                                ? rdg_load16_avx512(r.type, rdg_flash_row(&r, i), d, tail_mask(v->dim[0] - d))
                                : _mm512_setzero_ps());
}

/* out[t][0 … 31] = (add ? out : 0) + sum over k < n of panel[k][0 … 31] * x[t][k], for six rows t. */
RDG_INLINE void product(const float *panel, int64_t panel_stride, int64_t n, const float *x, int64_t x_stride,
                        float *out, int64_t out_stride, bool add)
{
    __m512 sum[2][GROUP];
#pragma GCC unroll 6
    for (int t = 0; t < GROUP; t++) {
        sum[0][t] = add ? _mm512_load_ps(out + t * out_stride) : _mm512_setzero_ps();
        sum[1][t] = add ? _mm512_load_ps(out + t * out_stride + 16) : _mm512_setzero_ps();
    }
#pragma GCC unroll 2
    for (int64_t k = 0; k < n; k++) {
        __m512 w0 = _mm512_load_ps(panel + k * panel_stride),
               w1 = _mm512_load_ps(panel + k * panel_stride + 16);
#pragma GCC unroll 6
        for (int t = 0; t < GROUP; t++) {
            __m512 b = _mm512_set1_ps(x[t * x_stride + k]);
            sum[0][t] = _mm512_fmadd_ps(w0, b, sum[0][t]);
            sum[1][t] = _mm512_fmadd_ps(w1, b, sum[1][t]);
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < GROUP; t++) {
        _mm512_store_ps(out + t * out_stride, sum[0][t]);
        _mm512_store_ps(out + t * out_stride + 16, sum[1][t]);
    }
}

/* Scores of one query against keys [begin, end) of the n of a block become weights; the others become 0. */
static void weigh(float *s, int64_t n, int64_t begin, int64_t end, float softcap, float *maximum, float *sum,
                  float *out, int64_t row_v)
{
    __m512 top = _mm512_set1_ps(-INFINITY);
    const uint64_t all = (end >= 64 ? ~0ull : (1ull << end) - 1) & ~((1ull << begin) - 1);
    for (int64_t i = 0; i < n; i += 16) {
        __m512 v = _mm512_load_ps(s + i);
        if (softcap > 0.0f) {
            v = _mm512_mul_ps(_mm512_set1_ps(softcap),
                              rdg_tanh_avx512(_mm512_div_ps(v, _mm512_set1_ps(softcap))));
            _mm512_store_ps(s + i, v);
        }
        top = _mm512_mask_max_ps(top, (__mmask16)(all >> i), top, v);
    }
    float best = _mm512_reduce_max_ps(top);
    if (best > *maximum) {
        if (*maximum > -INFINITY) { /* else all is 0 yet */
            __m512 shrink = rdg_exp_avx512(_mm512_set1_ps(*maximum - best));
            for (int64_t d = 0; d < row_v; d += 16)
                _mm512_store_ps(out + d, _mm512_mul_ps(_mm512_load_ps(out + d), shrink));
            _mm512_store_ps(sum, _mm512_mul_ps(_mm512_load_ps(sum), shrink));
        }
        *maximum = best;
    }
    __m512 total = _mm512_load_ps(sum), shift = _mm512_set1_ps(*maximum);
    for (int64_t i = 0; i < n; i += 16) {
        __m512 w = _mm512_maskz_mov_ps((__mmask16)(all >> i),
                                       rdg_exp_avx512(_mm512_sub_ps(_mm512_load_ps(s + i), shift)));
        total = _mm512_add_ps(total, w);
        _mm512_store_ps(s + i, w);
    }
    _mm512_store_ps(sum, total);
}

/* q * scale, rows padded with zeros. */
static void load_queries(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                         int64_t row_k, float *queries)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q];
    const __m512 scale = _mm512_set1_ps(RDG_PARAMS(call, rdg_attention_params)->scale);
    for (int64_t i = 0; i < x->n_tokens * c->share; i++) {
        const float *row =
            rdg_tensor_row(q, x->g * c->share + i % c->share, x->first_token + i / c->share, 0);
        for (int64_t d = 0; d < row_k; d += 16)
            _mm512_store_ps(queries + i * row_k + d,
                            _mm512_mul_ps(_mm512_maskz_loadu_ps(tail_mask(q->dim[0] - d), row + d), scale));
    }
}

static void store(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                  const rdg_flash_layout *l, const float *memory, float *parts)
{
    const rdg_tensor *out = &call->operand[RDG_ATTENTION_OUT];
    for (int64_t i = 0; i < x->n_tokens * c->share; i++) {
        const int64_t token = x->first_token + i / c->share, head = x->g * c->share + i % c->share;
        const float *o = memory + l->out + i * c->row_v;
        float sum = _mm512_reduce_add_ps(_mm512_load_ps(memory + l->sums + 16 * i));
        if (c->n_chunks > 1) {
            float *p = rdg_flash_part(c, parts, token, head, x->chunk);
            memcpy(p, o, (size_t)c->row_v * sizeof *p);
            p[c->row_v] = memory[l->maxima + i];
            p[c->row_v + 1] = sum;
            continue;
        }
        __m512 inverse = _mm512_set1_ps(sum > 0.0f || isnan(sum) ? 1.0f / sum : 0.0f);
        float *y = rdg_tensor_row(out, head, token, 0);
        for (int64_t d = 0; d < out->dim[0]; d += 16)
            _mm512_mask_storeu_ps(y + d, tail_mask(out->dim[0] - d),
                                  _mm512_mul_ps(_mm512_load_ps(o + d), inverse));
    }
}

/* What the direct form is made of. */
typedef __m512 floats;
enum { LANES = 16, DIRECT_QUERIES = 16 };
RDG_INLINE floats floats_zero(void)
{
    return _mm512_setzero_ps();
}
RDG_INLINE floats floats_set1(float x)
{
    return _mm512_set1_ps(x);
}
RDG_INLINE floats floats_load(const float *x)
{
    return _mm512_load_ps(x);
}
RDG_INLINE void floats_store(float *x, floats v)
{
    _mm512_store_ps(x, v);
}
RDG_INLINE floats floats_fma(floats a, floats b, floats c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* Elements i … i + 15 of a row of F32, F16 or BF16. */
RDG_INLINE floats floats_cached(rdg_type type, const char *row, int64_t i)
{
    return rdg_load16_avx512(type, row, i, 0xffff);
}

/* Lane i: the sum of m[i]. */
RDG_INLINE floats floats_sums(const floats m[16])
{
    __m512 a[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* a[i]: four partial sums of m[4 i + c] in lanes c, c + 4, c + 8, c + 12 */
        __m512 p = _mm512_add_ps(_mm512_unpacklo_ps(m[4 * i], m[4 * i + 1]),
                                 _mm512_unpackhi_ps(m[4 * i], m[4 * i + 1]));
        __m512 q = _mm512_add_ps(_mm512_unpacklo_ps(m[4 * i + 2], m[4 * i + 3]),
                                 _mm512_unpackhi_ps(m[4 * i + 2], m[4 * i + 3]));
        a[i] = _mm512_add_ps(_mm512_shuffle_ps(p, q, 0x44), _mm512_shuffle_ps(p, q, 0xee));
    }
    __m512 p = _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x88), _mm512_shuffle_f32x4(a[0], a[1], 0xdd));
    __m512 q = _mm512_add_ps(_mm512_shuffle_f32x4(a[2], a[3], 0x88), _mm512_shuffle_f32x4(a[2], a[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(p, q, 0x88), _mm512_shuffle_f32x4(p, q, 0xdd));
}

#include "ops/attention/flash_item.h"

const rdg_variant rdg_attention_avx512 = {.name = "flash_avx512",
                                          .source = "src/ops/attention/flash_avx512.c",
                                          .backend = RDG_BACKEND_CPU,
                                          .requires_mask = RDG_CPU_AVX512,
                                          .cpu = &kernel,
                                          .tolerance = {RDG_TOLERANCE_INHERIT, 0}};
