/* matmul of block formats with AVX-512 VNNI. A vector lane is a row of weights, an activation of four columns
 * is broadcast: two weight registers serve six tokens, twelve exact int32 sums a sub-block, then scaled in
 * f32. */
#include "ops/matmul/matmul_variants.h"
#include "ops/matmul/panel.h"
#include "ops/matmul/transpose_avx512.h"
#include "ops/matvec/q8.h"
#include "ops/matvec/unpack_avx512.h"

#include <string.h>

enum { LANES = 16, VECS = RDG_PANEL_ROWS / LANES, TOKENS = RDG_PANEL_TOKENS };

/* n_subs, is_signed and fine (a scale for each 32 activations) are constants where this is called. */
RDG_INLINE void multiply(const rdg_q8_panel *panel, const rdg_q8_group *group, float *sums, int n_subs,
                         bool is_signed, bool fine)
{
    const int steps = RDG_PANEL_COLUMNS / 4 / n_subs;
    __m512 part[VECS][TOKENS];
    for (int v = 0; v < VECS; v++)
        for (int t = 0; t < TOKENS; t++) part[v][t] = _mm512_setzero_ps();
    for (int j = 0; j < n_subs; j++) {
        __m512i sum[VECS][TOKENS];
        for (int v = 0; v < VECS; v++)
            for (int t = 0; t < TOKENS; t++)
                sum[v][t] =
                    is_signed ? _mm512_load_si512(panel->correction[j] + LANES * v) : _mm512_setzero_si512();
        const uint8_t(*w)[RDG_PANEL_ROWS][4] = panel->q + j * steps;
        const int8_t(*x)[TOKENS][4] = group->q + j * steps;
#pragma GCC unroll 8
        for (int k = 0; k < steps; k++) {
            __m512i w0 = _mm512_load_si512(w[k][0]), w1 = _mm512_load_si512(w[k][LANES]);
#pragma GCC unroll 6
            for (int t = 0; t < TOKENS; t++) {
                int32_t four;
                memcpy(&four, x[k][t], 4);
                __m512i b = _mm512_set1_epi32(four);
                sum[0][t] =
                    is_signed ? _mm512_dpbusd_epi32(sum[0][t], b, w0) : _mm512_dpbusd_epi32(sum[0][t], w0, b);
                sum[1][t] =
                    is_signed ? _mm512_dpbusd_epi32(sum[1][t], b, w1) : _mm512_dpbusd_epi32(sum[1][t], w1, b);
            }
        }
#pragma GCC unroll 2
        for (int v = 0; v < VECS; v++) {
            __m512 scale = _mm512_load_ps(panel->scale[j] + LANES * v),
                   min = _mm512_load_ps(panel->min[j] + LANES * v);
#pragma GCC unroll 6
            for (int t = 0; t < TOKENS; t++) {
                __m512 s = _mm512_cvtepi32_ps(sum[v][t]);
                if (fine) s = _mm512_mul_ps(s, _mm512_set1_ps(group->scale[j][t]));
                part[v][t] = _mm512_fmadd_ps(s, scale, part[v][t]);
                if (!is_signed)
                    part[v][t] = _mm512_fnmadd_ps(min, _mm512_set1_ps(group->sum[j][t]), part[v][t]);
            }
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < TOKENS; t++)
        for (int v = 0; v < VECS; v++) {
            float *s = sums + t * RDG_PANEL_ROWS + LANES * v;
            __m512 old = _mm512_load_ps(s);
            _mm512_store_ps(s, fine ? _mm512_add_ps(old, part[v][t])
                                    : _mm512_fmadd_ps(part[v][t], _mm512_set1_ps(group->scale[0][t]), old));
        }
}

static void multiply_u8_8(const void *panel, const void *group, float *sums)
{
    multiply(panel, group, sums, 8, false, false);
}
static void multiply_u8_16(const void *panel, const void *group, float *sums)
{
    multiply(panel, group, sums, 16, false, false);
}
static void multiply_s8_8(const void *panel, const void *group, float *sums)
{
    multiply(panel, group, sums, 8, true, false);
}
static void multiply_s8_16(const void *panel, const void *group, float *sums)
{
    multiply(panel, group, sums, 16, true, false);
}
static void multiply_u8_fine(const void *panel, const void *group, float *sums)
{
    multiply(panel, group, sums, 8, false, true);
}
static void multiply_s8_fine(const void *panel, const void *group, float *sums)
{
    multiply(panel, group, sums, 8, true, true);
}

/* What a format's unpacker gives, put into lane `row` of the panel: 16 rows at a time through this buffer. */
typedef struct row_buffer {
    RDG_ALIGNED(64) uint8_t q[LANES][RDG_PANEL_COLUMNS];
    float scale[LANES][16], min[LANES][16];
} row_buffer;

RDG_INLINE void flush_floats(float in[LANES][16], float (*out)[RDG_PANEL_ROWS], int first_out, int first_in,
                             int n, int first_row)
{
    __m512i m[16];
    for (int r = 0; r < LANES; r++) m[r] = _mm512_castps_si512(_mm512_load_ps(in[r]));
    rdg_transpose16_avx512(m);
    for (int j = 0; j < n; j++) _mm512_store_si512(out[first_out + j] + first_row, m[first_in + j]);
}

static void flush_rows(row_buffer *b, rdg_q8_panel *panel, int first_row, const rdg_block_format_avx512 *f)
{
    const __m512i offset = _mm512_set1_epi8((char)f->offset);
    for (int k = 0; k < RDG_PANEL_COLUMNS; k += 64) {
        __m512i m[16];
        for (int r = 0; r < LANES; r++) m[r] = _mm512_sub_epi8(_mm512_load_si512(b->q[r] + k), offset);
        rdg_transpose16_avx512(m);
        for (int i = 0; i < 16; i++) _mm512_store_si512(panel->q[k / 4 + i][first_row], m[i]);
    }
    int n_subs = RDG_PANEL_COLUMNS / f->sub_elems;
    flush_floats(b->scale, panel->scale, 0, 0, n_subs, first_row);
    /* sub-blocks of 32: the minima follow the scales in one register */
    if (!f->offset) flush_floats(b->min, panel->min, 0, n_subs == 8 ? 8 : 0, n_subs, first_row);
}

/* correction = - 128 * sum(q) of each sub-block */
static void correct(rdg_q8_panel *panel, int n_subs)
{
    const int steps = RDG_PANEL_COLUMNS / 4 / n_subs;
    const __m512i shift = _mm512_set1_epi8((char)128);
    for (int v = 0; v < RDG_PANEL_ROWS; v += LANES) {
        for (int j = 0; j < n_subs; j++) {
            __m512i sum = _mm512_setzero_si512();
            for (int k = 0; k < steps; k++)
                sum = _mm512_dpbusd_epi32(sum, shift, _mm512_load_si512(panel->q[j * steps + k][v]));
            _mm512_store_si512(panel->correction[j] + v, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
        }
    }
}

static void unpack(rdg_type type, const void *rows, int64_t stride, int n_rows, int n_columns, void *out)
{
    const rdg_block_format_avx512 *f = &rdg_block_formats_avx512[type];
    const int64_t step_bytes = (int64_t)f->block_bytes * (RDG_PANEL_COLUMNS / f->block_elems);
    rdg_q8_panel *panel = out;
    row_buffer b;
    for (int first = 0; first < RDG_PANEL_ROWS; first += LANES) {
        for (int r = 0; r < LANES; r++) {
            rdg_unpacked_avx512 u;
            if (first + r < n_rows) {
                const uint8_t *row = (const uint8_t *)rows + (first + r) * stride;
                f->unpack(row, n_columns / f->block_elems, &u);
                /* rows are far apart, so no hardware prefetcher sees the next block: it is needed one panel
                 * later */
                for (int64_t i = 0; i < step_bytes; i += 64)
                    _mm_prefetch((const char *)row + step_bytes + i, _MM_HINT_T0);
            } else {
                for (int p = 0; p < 4; p++) u.q[p] = _mm512_setzero_si512();
                u.scale = u.min = _mm512_setzero_ps();
            }
            for (int p = 0; p < 4; p++) _mm512_store_si512(b.q[r] + 64 * p, u.q[p]);
            _mm512_store_ps(b.scale[r], u.scale);
            _mm512_store_ps(b.min[r], u.min);
        }
        flush_rows(&b, panel, first, f);
    }
    if (f->offset) correct(panel, RDG_PANEL_COLUMNS / f->sub_elems);
}

static void pack(rdg_type type, const float *const *x, int n_tokens, int n_columns, void *group)
{
    const rdg_block_format_avx512 *f = &rdg_block_formats_avx512[type];
    rdg_q8_pack(x, n_tokens, n_columns, f->block_elems, f->sub_elems, f->offset ? 0x80808080u : 0,
                rdg_q8_quantise_avx512, group);
}

static rdg_panel_multiply_fn *const multiply_by_type[RDG_TYPE_COUNT] = {
    [RDG_TYPE_Q2_K] = multiply_u8_16,     [RDG_TYPE_Q3_K] = multiply_s8_16,
    [RDG_TYPE_Q4_K] = multiply_u8_8,      [RDG_TYPE_Q5_K] = multiply_u8_8,
    [RDG_TYPE_Q6_K] = multiply_s8_16,     [RDG_TYPE_Q8_0] = multiply_s8_fine,
    [RDG_TYPE_Q4_0] = multiply_s8_fine,   [RDG_TYPE_Q4_1] = multiply_u8_fine,
    [RDG_TYPE_Q5_0] = multiply_s8_fine,   [RDG_TYPE_Q5_1] = multiply_u8_fine,
    [RDG_TYPE_IQ4_NL] = multiply_s8_fine, [RDG_TYPE_IQ4_XS] = multiply_s8_8,
    [RDG_TYPE_MXFP4] = multiply_s8_fine,
};

static const rdg_panel_isa isa = {.panel_bytes = sizeof(rdg_q8_panel),
                                  .group_bytes = sizeof(rdg_q8_group),
                                  .tile_panels = 2,
                                  .pack = pack,
                                  .unpack = unpack,
                                  .multiply = multiply_by_type};

#include "ops/matmul/panel_kernel.h"

const rdg_variant rdg_matmul_q8_avx512 = {.name = "q8_avx512_vnni",
                                          .source = "src/ops/matmul/q8_avx512.c",
                                          .backend = RDG_BACKEND_CPU,
                                          .requires_mask = RDG_CPU_AVX512,
                                          .accepts = accepts,
                                          .cpu = &kernel,
                                          .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                          .rounding = RDG_ROUNDS_BY_BLOCK};
