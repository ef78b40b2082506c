/* matmul of F32, F16 and BF16 weights with AVX-512: weights become f32 in the panel, nothing else is rounded.
 * A vector lane is a row, so each sum runs over the columns in order, one block of 256 after the other. */
#include "ops/matmul/matmul_variants.h"
#include "ops/matmul/panel.h"
#include "ops/matmul/load_avx512.h"
#include "ops/matmul/transpose_avx512.h"
#include "base/cpu.h"

#include <string.h>

enum { LANES = 16, TOKENS = RDG_PANEL_TOKENS };

static void multiply(const void *p, const void *g, float *sums)
{
    const rdg_float_panel *panel = p;
    const rdg_float_group *group = g;
    __m512 sum[2][TOKENS];
    for (int v = 0; v < 2; v++)
        for (int t = 0; t < TOKENS; t++) sum[v][t] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int k = 0; k < RDG_PANEL_COLUMNS; k++) {
        __m512 w0 = _mm512_load_ps(panel->w[k]), w1 = _mm512_load_ps(panel->w[k] + LANES);
#pragma GCC unroll 6
        for (int t = 0; t < TOKENS; t++) {
            __m512 x = _mm512_set1_ps(group->x[k][t]);
            sum[0][t] = _mm512_fmadd_ps(w0, x, sum[0][t]);
            sum[1][t] = _mm512_fmadd_ps(w1, x, sum[1][t]);
        }
    }
    for (int t = 0; t < TOKENS; t++)
        for (int v = 0; v < 2; v++) {
            float *s = sums + t * RDG_PANEL_ROWS + LANES * v;
            _mm512_store_ps(s, _mm512_add_ps(_mm512_load_ps(s), sum[v][t]));
        }
}

static void unpack(rdg_type type, const void *rows, int64_t stride, int n_rows, int n_columns, void *out)
{
    rdg_float_panel *panel = out;
    for (int first = 0; first < RDG_PANEL_ROWS; first += LANES)
        for (int c = 0; c < RDG_PANEL_COLUMNS; c += LANES) {
            int left = n_columns - c;
            __mmask16 mask = left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
            __m512i m[16];
            for (int r = 0; r < LANES; r++)
                m[r] = first + r < n_rows ? _mm512_castps_si512(rdg_load16_avx512(
                                                type, (const char *)rows + (first + r) * stride, c, mask))
                                          : _mm512_setzero_si512();
            rdg_transpose16_avx512(m);
            for (int i = 0; i < LANES; i++) _mm512_store_si512(panel->w[c + i] + first, m[i]);
        }
}

static rdg_panel_multiply_fn *const multiply_by_type[RDG_TYPE_COUNT] = {
    [RDG_TYPE_F32] = multiply, [RDG_TYPE_F16] = multiply, [RDG_TYPE_BF16] = multiply};

/* One panel is 32 KiB and fills most of L1. */
static const rdg_panel_isa isa = {.panel_bytes = sizeof(rdg_float_panel),
                                  .group_bytes = sizeof(rdg_float_group),
                                  .tile_panels = 1,
                                  .pack = rdg_float_pack,
                                  .unpack = unpack,
                                  .multiply = multiply_by_type};

#include "ops/matmul/panel_kernel.h"

const rdg_variant rdg_matmul_float_avx512 = {.name = "float_avx512_fma",
                                             .source = "src/ops/matmul/float_avx512.c",
                                             .backend = RDG_BACKEND_CPU,
                                             .requires_mask = RDG_CPU_AVX512,
                                             .accepts = accepts,
                                             .cpu = &kernel,
                                             .tolerance = {RDG_TOLERANCE_INHERIT, 0}};
