/* matmul of F32, F16 and BF16 weights with AVX2: weights become f32 in the panel, nothing else is rounded. A
 * vector lane is a row, so each sum runs over the columns in order, one block of 256 after the other. */
#include "ops/matmul/matmul_variants.h"
#include "ops/matmul/panel.h"
#include "base/cpu.h"

#include <immintrin.h>
#include <string.h>

enum { LANES = 8, TOKENS = RDG_PANEL_TOKENS };

static void multiply(const void *p, const void *g, float *sums)
{
    const rdg_float_panel *panel = p;
    const rdg_float_group *group = g;
    for (int row = 0; row < RDG_PANEL_ROWS; row += 2 * LANES) {
        __m256 sum[2][TOKENS];
        for (int v = 0; v < 2; v++)
            for (int t = 0; t < TOKENS; t++) sum[v][t] = _mm256_setzero_ps();
        for (int k = 0; k < RDG_PANEL_COLUMNS; k++) {
            __m256 w0 = _mm256_load_ps(panel->w[k] + row), w1 = _mm256_load_ps(panel->w[k] + row + LANES);
#pragma GCC unroll 6
            for (int t = 0; t < TOKENS; t++) {
                __m256 x = _mm256_broadcast_ss(&group->x[k][t]);
                sum[0][t] = _mm256_fmadd_ps(w0, x, sum[0][t]);
                sum[1][t] = _mm256_fmadd_ps(w1, x, sum[1][t]);
            }
        }
        for (int t = 0; t < TOKENS; t++)
            for (int v = 0; v < 2; v++) {
                float *s = sums + t * RDG_PANEL_ROWS + row + LANES * v;
                _mm256_store_ps(s, _mm256_add_ps(_mm256_load_ps(s), sum[v][t]));
            }
    }
}

static void unpack(rdg_type type, const void *rows, int64_t stride, int n_rows, int n_columns, void *out)
{
    rdg_float_panel *panel = out;
    if (n_rows < RDG_PANEL_ROWS || n_columns < RDG_PANEL_COLUMNS) memset(panel, 0, sizeof *panel);
    for (int r = 0; r < n_rows; r++) {
        const char *row = (const char *)rows + r * stride;
        for (int c = 0; c < n_columns; c++) {
            uint32_t bits;
            uint16_t half;
            if (type == RDG_TYPE_F32) {
                memcpy(&bits, row + 4 * c, 4);
            } else {
                memcpy(&half, row + 2 * c, 2);
                float f = _cvtsh_ss(half);
                memcpy(&bits, &f, 4);
                if (type == RDG_TYPE_BF16) bits = (uint32_t)half << 16;
            }
            memcpy(&panel->w[c][r], &bits, 4);
        }
    }
}

static rdg_panel_multiply_fn *const multiply_by_type[RDG_TYPE_COUNT] = {
    [RDG_TYPE_F32] = multiply, [RDG_TYPE_F16] = multiply, [RDG_TYPE_BF16] = multiply};

/* One panel is 32 KiB and fills L1. */
static const rdg_panel_isa isa = {.panel_bytes = sizeof(rdg_float_panel),
                                  .group_bytes = sizeof(rdg_float_group),
                                  .tile_panels = 1,
                                  .pack = rdg_float_pack,
                                  .unpack = unpack,
                                  .multiply = multiply_by_type};

#include "ops/matmul/panel_kernel.h"

const rdg_variant rdg_matmul_float_avx2 = {.name = "float_avx2_fma",
                                           .source = "src/ops/matmul/float_avx2.c",
                                           .backend = RDG_BACKEND_CPU,
                                           .requires_mask = RDG_CPU_AVX2,
                                           .accepts = accepts,
                                           .cpu = &kernel,
                                           .tolerance = {RDG_TOLERANCE_INHERIT, 0}};
