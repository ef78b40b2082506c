/* matmul of block formats with AVX2. A vector lane is a row of weights; bytes multiply in pairs to int16,
 * which take as many steps as cannot overflow before they are widened, scaled and added in f32. Weights that
 * need all eight bits (Q8_0, IQ4) go as sign and magnitude, one step at a time. */
#include "ops/matmul/matmul_variants.h"
#include "ops/matmul/panel.h"
#include "ops/matvec/q8.h"
#include "ops/matvec/unpack_avx2.h"

#include <immintrin.h>

enum { LANES = 8, TOKENS = 3 }; /* 16 rows x 3 tokens at a time: six sums, six results */

/* n_subs, chunk (steps of four columns before widening: 2 * 127 * largest q * chunk < 2^15), wide and fine (a
 * scale for each 32 activations) are constants where this is called. */
RDG_INLINE void multiply(const rdg_q8_panel *panel, const rdg_q8_group *group, float *sums, int n_subs,
                         int chunk, bool wide, bool fine, int row, int token)
{
    const int steps = RDG_PANEL_COLUMNS / 4 / n_subs;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 part[2][TOKENS];
    for (int v = 0; v < 2; v++)
        for (int t = 0; t < TOKENS; t++) part[v][t] = _mm256_setzero_ps();
    for (int j = 0; j < n_subs; j++) {
        __m256i total[2][TOKENS];
#pragma GCC unroll 8
        for (int k0 = 0; k0 < steps; k0 += chunk) {
            __m256i sum[2][TOKENS];
#pragma GCC unroll 8
            for (int k = k0; k < k0 + chunk; k++)
#pragma GCC unroll 3
                for (int t = 0; t < TOKENS; t++) {
                    int32_t four;
                    memcpy(&four, group->q[j * steps + k][token + t], 4);
                    __m256i x = _mm256_set1_epi32(four);
#pragma GCC unroll 2
                    for (int v = 0; v < 2; v++) {
                        __m256i w = _mm256_load_si256(
                            (const __m256i *)(const void *)panel->q[j * steps + k][row + LANES * v]);
                        __m256i p = wide ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                                         : _mm256_maddubs_epi16(w, x);
                        sum[v][t] = k == k0 ? p : _mm256_add_epi16(sum[v][t], p);
                    }
                }
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++)
#pragma GCC unroll 3
                for (int t = 0; t < TOKENS; t++) {
                    __m256i s = _mm256_madd_epi16(sum[v][t], ones);
                    total[v][t] = k0 ? _mm256_add_epi32(total[v][t], s) : s;
                }
        }
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            __m256 scale = _mm256_load_ps(panel->scale[j] + row + LANES * v);
#pragma GCC unroll 3
            for (int t = 0; t < TOKENS; t++) {
                __m256 s = _mm256_cvtepi32_ps(total[v][t]);
                if (fine) s = _mm256_mul_ps(s, _mm256_set1_ps(group->scale[j][token + t]));
                part[v][t] = _mm256_fmadd_ps(s, scale, part[v][t]);
            }
        }
    }
    for (int j = 0; j < n_subs && !wide; j++)
        for (int v = 0; v < 2; v++) {
            __m256 min = _mm256_load_ps(panel->min[j] + row + LANES * v);
            for (int t = 0; t < TOKENS; t++)
                part[v][t] = _mm256_fnmadd_ps(min, _mm256_set1_ps(group->sum[j][token + t]), part[v][t]);
        }
    for (int t = 0; t < TOKENS; t++)
        for (int v = 0; v < 2; v++) {
            float *s = sums + (token + t) * RDG_PANEL_ROWS + row + LANES * v;
            __m256 old = _mm256_load_ps(s), scale = _mm256_set1_ps(group->scale[0][token + t]);
            _mm256_store_ps(s,
                            fine ? _mm256_add_ps(old, part[v][t]) : _mm256_fmadd_ps(part[v][t], scale, old));
        }
}

RDG_INLINE void multiply_all(const void *panel, const void *group, float *sums, int n_subs, int chunk,
                             bool wide, bool fine)
{
    for (int row = 0; row < RDG_PANEL_ROWS; row += 2 * LANES)
        for (int token = 0; token < RDG_PANEL_TOKENS; token += TOKENS)
            multiply(panel, group, sums, n_subs, chunk, wide, fine, row, token);
}

static void multiply_q15_8(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 8, 8, false, false);
}
static void multiply_q15_16(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 16, 4, false, false);
}
static void multiply_q31_8(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 8, 4, false, false);
}
static void multiply_q63_16(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 16, 2, false, false);
}
static void multiply_wide_8(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 8, 1, true, false);
}
static void multiply_q15_fine(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 8, 8, false, true);
}
static void multiply_q31_fine(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 8, 4, false, true);
}
static void multiply_wide_fine(const void *panel, const void *group, float *sums)
{
    multiply_all(panel, group, sums, 8, 1, true, true);
}

static void unpack(rdg_type type, const void *rows, int64_t stride, int n_rows, int n_columns, void *out)
{
    const rdg_block_format *f = &rdg_block_formats_avx2[type];
    const int64_t step_bytes = (int64_t)f->block_bytes * (RDG_PANEL_COLUMNS / f->block_elems);
    const int n_subs = RDG_PANEL_COLUMNS / f->sub_elems, per_sub = f->sub_elems / 16;
    const uint32_t flip = f->offset == 128 ? 0x80808080u : 0;
    rdg_q8_panel *panel = out;
    if (n_rows < RDG_PANEL_ROWS) memset(panel, 0, sizeof *panel);
    for (int r = 0; r < n_rows; r++) {
        const uint8_t *row = (const uint8_t *)rows + r * stride;
        rdg_unpacked u;
        f->unpack(row, n_columns / f->block_elems, &u);
        /* rows are far apart, so no hardware prefetcher sees the next block: it is needed one panel later */
        for (int64_t i = 0; i < step_bytes; i += 64)
            _mm_prefetch((const char *)row + step_bytes + i, _MM_HINT_T0);
        for (int k = 0; k < RDG_PANEL_COLUMNS / 4; k++) {
            uint32_t four;
            memcpy(&four, u.q + 4 * k, 4);
            four ^= flip;
            memcpy(panel->q[k][r], &four, 4);
        }
        for (int j = 0; j < n_subs; j++) {
            panel->scale[j][r] = u.scale[per_sub * j];
            panel->min[j][r] = u.min[per_sub * j];
        }
    }
}

static void pack(rdg_type type, const float *const *x, int n_tokens, int n_columns, void *group)
{
    const rdg_block_format *f = &rdg_block_formats_avx2[type];
    rdg_q8_pack(x, n_tokens, n_columns, f->block_elems, f->sub_elems, 0, rdg_q8_quantise_avx2, group);
}

static rdg_panel_multiply_fn *const multiply_by_type[RDG_TYPE_COUNT] = {
    [RDG_TYPE_Q2_K] = multiply_q15_16,      [RDG_TYPE_Q3_K] = multiply_q15_16,
    [RDG_TYPE_Q4_K] = multiply_q15_8,       [RDG_TYPE_Q5_K] = multiply_q31_8,
    [RDG_TYPE_Q6_K] = multiply_q63_16,      [RDG_TYPE_Q8_0] = multiply_wide_fine,
    [RDG_TYPE_Q4_0] = multiply_q15_fine,    [RDG_TYPE_Q4_1] = multiply_q15_fine,
    [RDG_TYPE_Q5_0] = multiply_q31_fine,    [RDG_TYPE_Q5_1] = multiply_q31_fine,
    [RDG_TYPE_IQ4_NL] = multiply_wide_fine, [RDG_TYPE_IQ4_XS] = multiply_wide_8,
    [RDG_TYPE_MXFP4] = multiply_q31_fine,
};

static const rdg_panel_isa isa = {.panel_bytes = sizeof(rdg_q8_panel),
                                  .group_bytes = sizeof(rdg_q8_group),
                                  .tile_panels = 2,
                                  .pack = pack,
                                  .unpack = unpack,
                                  .multiply = multiply_by_type};

#include "ops/matmul/panel_kernel.h"

const rdg_variant rdg_matmul_q8_avx2 = {.name = "q8_avx2",
                                        .source = "src/ops/matmul/q8_avx2.c",
                                        .backend = RDG_BACKEND_CPU,
                                        .requires_mask = RDG_CPU_AVX2,
                                        .accepts = accepts,
                                        .cpu = &kernel,
                                        .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                        .rounding = RDG_ROUNDS_BY_BLOCK};
