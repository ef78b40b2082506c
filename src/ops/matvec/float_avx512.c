/* matvec of F32, F16 and BF16 weights with AVX-512: nothing is rounded but the products and sums in f32. Four
 * accumulators a token hide the latency of the fused multiply-add; the order of the sums depends on n_columns
 * alone. */
#include "ops/matvec/matvec_variants.h"
#include "ops/matvec/q8.h"
#include "ops/matmul/load_avx512.h"

#include <immintrin.h>

/* One row times n tokens (a constant where it is called). */
RDG_INLINE void dot_row(rdg_type type, const char *row, int64_t n_columns, const float *x, int64_t x_stride,
                        int n, float *sums, int64_t sums_stride)
{
    enum { UNROLL = 4, STEP = 16 * UNROLL };
    __m512 acc[4][UNROLL];
    for (int t = 0; t < n; t++)
        for (int k = 0; k < UNROLL; k++) acc[t][k] = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + STEP <= n_columns; i += STEP)
        for (int k = 0; k < UNROLL; k++) {
            __m512 w = rdg_load16_avx512(type, row, i + 16 * k, 0xffff);
            for (int t = 0; t < n; t++)
                acc[t][k] = _mm512_fmadd_ps(w, _mm512_loadu_ps(x + t * x_stride + i + 16 * k), acc[t][k]);
        }
    for (; i < n_columns; i += 16) {
        __mmask16 m = n_columns - i >= 16 ? 0xffff : (__mmask16)((1u << (n_columns - i)) - 1);
        __m512 w = rdg_load16_avx512(type, row, i, m);
        for (int t = 0; t < n; t++)
            acc[t][0] = _mm512_fmadd_ps(w, _mm512_maskz_loadu_ps(m, x + t * x_stride + i), acc[t][0]);
    }
    for (int t = 0; t < n; t++)
        sums[t * sums_stride] = _mm512_reduce_add_ps(
            _mm512_add_ps(_mm512_add_ps(acc[t][0], acc[t][1]), _mm512_add_ps(acc[t][2], acc[t][3])));
}

RDG_INLINE void dot_rows(const rdg_float_dot_args *a, rdg_type type)
{
    for (int64_t r = 0; r < a->n_rows; r++) {
        const char *row = (const char *)a->rows + r * a->row_stride_bytes;
        int t = 0;
        for (; t + 4 <= a->n_tokens; t += 4)
            dot_row(type, row, a->n_columns, a->x + t * a->x_stride, a->x_stride, 4,
                    a->sums + t * a->sums_stride + r, a->sums_stride);
        for (; t < a->n_tokens; t++)
            dot_row(type, row, a->n_columns, a->x + t * a->x_stride, a->x_stride, 1,
                    a->sums + t * a->sums_stride + r, a->sums_stride);
    }
}

#include "ops/matvec/float_kernel.h"

const rdg_variant rdg_matvec_float_avx512 = {.name = "float_avx512_fma",
                                             .source = "src/ops/matvec/float_avx512.c",
                                             .backend = RDG_BACKEND_CPU,
                                             .requires_mask = RDG_CPU_AVX512,
                                             .accepts = accepts,
                                             .cpu = &kernel,
                                             .tolerance = {RDG_TOLERANCE_INHERIT, 0}};
