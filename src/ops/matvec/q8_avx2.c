/* matvec of block formats with AVX2: unpack 256 weights to memory, multiply bytes in
 * pairs to int16 and pairs of those to int32, scale in f32. Weights that need all eight bits (Q8_0, IQ4)
 * would overflow the int16 pairs as unsigned numbers; they go as sign and magnitude. */
#include "ops/matvec/matvec_variants.h"
#include "ops/experts/experts_variants.h"
#include "ops/matvec/q8.h"
#include "ops/matvec/unpack_avx2.h"
#include "base/mem.h"

#include <immintrin.h>

enum { PREFETCH_BYTES = 4096 };

RDG_INLINE float sum8(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* v[0], v[2], … v[14] */
RDG_INLINE __m256 even8(const float v[16])
{
    __m256 pairs = _mm256_shuffle_ps(_mm256_loadu_ps(v), _mm256_loadu_ps(v + 8), 0x88);
    return _mm256_permutevar8x32_ps(pairs, _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7));
}

/* Sums of four products each: q . x for unsigned q, (q - 128) . x if wide. */
RDG_INLINE __m256 dot32(__m256i q, __m256i x, bool wide)
{
    if (wide) {
        q = _mm256_xor_si256(q, _mm256_set1_epi8((char)0x80));
        x = _mm256_sign_epi8(x, q);
        q = _mm256_abs_epi8(q);
    }
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_maddubs_epi16(q, x), _mm256_set1_epi16(1)));
}

/* One row times n tokens (a constant where it is called). */
RDG_INLINE void dot_row(const uint8_t *row, int64_t n_columns, const rdg_q8_block *const *x, int n,
                        float *sums, int64_t sums_stride, const rdg_block_format f)
{
    const bool wide = f.offset == 128, fine = f.block_elems == 32; /* fine: a scale for each 32 activations */
    const int per_step = RDG_Q8_ELEMS / f.block_elems, step_bytes = per_step * f.block_bytes;
    int64_t n_blocks = n_columns / f.block_elems, n_steps = rdg_div_up(n_blocks, per_step);
    __m256 acc[2];
    for (int t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (int64_t s = 0; s < n_steps; s++, row += step_bytes) {
        for (int k = 0; k < step_bytes; k += 64)
            _mm_prefetch((const char *)row + PREFETCH_BYTES + k, _MM_HINT_T0);
        rdg_unpacked u;
        if (n_blocks - s * per_step >= per_step)
            f.unpack(row, per_step, &u); /* a constant: unrolled */
        else
            f.unpack(row, (int)(n_blocks - s * per_step), &u);
        __m256 part[2];
        for (int t = 0; t < n; t++) {
            part[t] = _mm256_setzero_ps();
            if (fine && !wide)
                part[t] = _mm256_fnmadd_ps(_mm256_mul_ps(even8(u.min), _mm256_load_ps(x[t][s].scale)),
                                           _mm256_load_ps(x[t][s].sum32 + 8), part[t]);
            for (int h = 0; h < 16 && !fine && !wide; h += 8)
                part[t] =
                    _mm256_fnmadd_ps(_mm256_loadu_ps(u.min + h), _mm256_load_ps(x[t][s].sum + h), part[t]);
        }
        for (int p = 0; p < 8; p++) {
            __m256i q = _mm256_load_si256((const __m256i *)(const void *)(u.q + 32 * p));
            __m256 scale = _mm256_set_m128(_mm_set1_ps(u.scale[2 * p + 1]), _mm_set1_ps(u.scale[2 * p]));
            for (int t = 0; t < n; t++) {
                __m256i v = _mm256_load_si256((const __m256i *)(const void *)(x[t][s].q + 32 * p));
                if (fine) scale = _mm256_set1_ps(u.scale[2 * p] * x[t][s].scale[p]);
                part[t] = _mm256_fmadd_ps(dot32(q, v, wide), scale, part[t]);
            }
        }
        for (int t = 0; t < n; t++)
            acc[t] = fine ? _mm256_add_ps(acc[t], part[t])
                          : _mm256_fmadd_ps(part[t], _mm256_set1_ps(x[t][s].scale[0]), acc[t]);
    }
    for (int t = 0; t < n; t++) sums[t * sums_stride] = sum8(acc[t]);
}

/* More than two tokens: the rows of an item are in L1 or L2 when they are unpacked again. */
RDG_INLINE void dot_rows(const rdg_q8_dot_args *a, const rdg_type type)
{
    const rdg_block_format f = rdg_block_formats_avx2[type];
    for (int t = 0; t < a->n_tokens; t += 2)
        for (int64_t r = 0; r < a->n_rows; r++) {
            const uint8_t *row = (const uint8_t *)a->rows + r * a->row_stride_bytes;
            float *sums = a->sums + t * a->sums_stride + r;
            if (a->n_tokens - t >= 2)
                dot_row(row, a->n_columns, a->x + t, 2, sums, a->sums_stride, f);
            else
                dot_row(row, a->n_columns, a->x + t, 1, sums, a->sums_stride, f);
        }
}

#include "ops/matvec/q8_dots.h"

void rdg_q8_quantise_avx2(const float *x, int64_t n_columns, int64_t group, rdg_q8_block *out)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    for (int64_t c = 0; c < n_columns; c += RDG_Q8_ELEMS, x += RDG_Q8_ELEMS, out++) {
        RDG_ALIGNED(32) float v[RDG_Q8_ELEMS] = {0};
        RDG_ALIGNED(32) int32_t q[RDG_Q8_ELEMS];
        memcpy(v, x, (size_t)RDG_MIN(RDG_Q8_ELEMS, n_columns - c) * sizeof *v);
        for (int64_t g = 0; g < RDG_Q8_ELEMS; g += group) {
            /* |x| as an integer orders as the float does and puts NaN above infinity, so neither is lost */
            uint32_t top[8];
            __m256i max = _mm256_setzero_si256();
            for (int64_t i = g; i < g + group; i += 8)
                max = _mm256_max_epu32(
                    max, _mm256_and_si256(_mm256_castps_si256(_mm256_load_ps(v + i)), magnitude));
            _mm256_storeu_si256((__m256i *)(void *)top, max);
            for (int i = 1; i < 8; i++) top[0] = RDG_MAX(top[0], top[i]);
            const float amax = rdg_f32_from_bits(top[0]);
            const __m256 inverse = _mm256_set1_ps(amax > 0x1p-120f ? 127.0f / amax : 0.0f);
            const float scale = amax > 0x1p-120f || !(amax == amax) ? amax / 127.0f : 0.0f;
            for (int64_t j = g / 32; j < (g + group) / 32; j++) out->scale[j] = out->scale[8 + j] = scale;
            for (int64_t i = g; i < g + group; i += 8) {
                __m256i r = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_load_ps(v + i), inverse));
                /* NaN became INT_MIN: any byte will do, the scale carries the NaN */
                r = _mm256_max_epi32(r, _mm256_set1_epi32(-127));
                _mm256_store_si256((__m256i *)(void *)(q + i), r);
            }
        }
        for (int i = 0; i < RDG_Q8_ELEMS; i++) out->q[i] = (int8_t)q[i];
        for (int j = 0; j < 16; j++) {
            int32_t sum = 0;
            for (int i = 0; i < 16; i++) sum += q[16 * j + i];
            out->sum[j] = (float)sum;
        }
        for (int j = 0; j < 8; j++) {
            out->sum32[j] = 0.0f;
            out->sum32[8 + j] = out->sum[2 * j] + out->sum[2 * j + 1];
        }
    }
}

static const rdg_q8_isa isa = {rdg_q8_quantise_avx2, dots, 1};

#include "ops/matvec/q8_kernels.h"

const rdg_variant rdg_matvec_q8_avx2 = {.name = "q8_avx2",
                                        .source = "src/ops/matvec/q8_avx2.c",
                                        .backend = RDG_BACKEND_CPU,
                                        .requires_mask = RDG_CPU_AVX2,
                                        .accepts = accepts_256,
                                        .cpu = &matvec_kernel,
                                        .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                        .rounding = RDG_ROUNDS_BY_BLOCK};
const rdg_variant rdg_matvec_q8x32_avx2 = {.name = "q8x32_avx2",
                                           .source = "src/ops/matvec/q8_avx2.c",
                                           .backend = RDG_BACKEND_CPU,
                                           .requires_mask = RDG_CPU_AVX2,
                                           .accepts = accepts_32,
                                           .cpu = &matvec_x32_kernel,
                                           .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                           .rounding = RDG_ROUNDS_BY_BLOCK};
const rdg_variant rdg_experts_q8_avx2 = {.name = "q8_avx2",
                                         .source = "src/ops/matvec/q8_avx2.c",
                                         .backend = RDG_BACKEND_CPU,
                                         .requires_mask = RDG_CPU_AVX2,
                                         .accepts = accepts_any,
                                         .cpu = &experts_kernel,
                                         .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                         .rounding = RDG_ROUNDS_BY_BLOCK};
