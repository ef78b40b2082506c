/* matvec of F32, F16 and BF16 weights with AVX2: nothing is rounded but the products and sums in f32. Four
 * accumulators hide the latency of the fused multiply-add; the order of the sums depends on n_columns alone.
 */
#include "ops/matvec/matvec_variants.h"
#include "ops/matvec/q8.h"

#include <immintrin.h>
#include <string.h>

RDG_INLINE __m256 load8(rdg_type type, const char *row, int64_t i)
{
    if (type == RDG_TYPE_F32) return _mm256_loadu_ps((const float *)(const void *)(row + 4 * i));
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * i));
    if (type == RDG_TYPE_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

RDG_INLINE float load1(rdg_type type, const char *row, int64_t i)
{
    uint32_t bits;
    uint16_t half;
    float f;
    if (type == RDG_TYPE_F32) {
        memcpy(&f, row + 4 * i, 4);
        return f;
    }
    memcpy(&half, row + 2 * i, 2);
    if (type == RDG_TYPE_F16) return _cvtsh_ss(half);
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, 4);
    return f;
}

RDG_INLINE float dot(rdg_type type, const char *row, const float *x, int64_t n)
{
    __m256 acc[4];
    for (int k = 0; k < 4; k++) acc[k] = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int k = 0; k < 4; k++)
            acc[k] = _mm256_fmadd_ps(load8(type, row, i + 8 * k), _mm256_loadu_ps(x + i + 8 * k), acc[k]);
    for (; i + 8 <= n; i += 8) acc[0] = _mm256_fmadd_ps(load8(type, row, i), _mm256_loadu_ps(x + i), acc[0]);
    float tail = 0.0f;
    for (; i < n; i++) tail += load1(type, row, i) * x[i];
    __m256 v = _mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3]));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s))) + tail;
}

/* Several tokens: a row is in L1 after the first. */
RDG_INLINE void dot_rows(const rdg_float_dot_args *a, rdg_type type)
{
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int t = 0; t < a->n_tokens; t++)
            a->sums[t * a->sums_stride + r] = dot(type, (const char *)a->rows + r * a->row_stride_bytes,
                                                  a->x + t * a->x_stride, a->n_columns);
}

#include "ops/matvec/float_kernel.h"

const rdg_variant rdg_matvec_float_avx2 = {.name = "float_avx2_fma",
                                           .source = "src/ops/matvec/float_avx2.c",
                                           .backend = RDG_BACKEND_CPU,
                                           .requires_mask = RDG_CPU_AVX2,
                                           .accepts = accepts,
                                           .cpu = &kernel,
                                           .tolerance = {RDG_TOLERANCE_INHERIT, 0}};
