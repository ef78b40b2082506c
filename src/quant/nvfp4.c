#include "quant/nvfp4.h"
#include "quant/quant.h"
#include "quant/fp4.h"
#include "quant/search.h"
#include "base/compiler.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

static const int8_t values[16] = {RDG_FP4_VALUES};

/* Half of an unsigned E4M3 value, because the table holds twice the E2M1 values. */
static float half_e4m3(uint8_t x)
{
    int e = (x >> 3) & 15, m = x & 7;
    if (x == 0 || x == 0x7f) return 0.0f;
    if (e == 0) return (float)m * 0x1p-10f;
    return (1.0f + (float)m / 8.0f) * rdg_f32_from_bits((uint32_t)(e - 8 + 127) << 23);
}

void rdg_nvfp4_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 64, p += sizeof(rdg_block_nvfp4), dst += 64) {
        rdg_block_nvfp4 b;
        memcpy(&b, p, sizeof b);
        for (int s = 0; s < 4; s++) {
            float d = half_e4m3(b.d[s]);
            for (int r = 0; r < 8; r++) {
                dst[16 * s + r] = d * (float)values[b.qs[8 * s + r] & 15];
                dst[16 * s + r + 8] = d * (float)values[b.qs[8 * s + r] >> 4];
            }
        }
    }
}

/* The nearest of the finite E4M3 values (0 … 448), ties to even. */
static uint8_t e4m3_from_f32(float v)
{
    int e;
    if (!(v > 0.0f)) return 0;
    if (v >= 448.0f) return 0x7e;
    frexpf(v, &e); /* v = m 2^e, 1/2 <= m < 1: exponent field e - 1 + 7 */
    e = RDG_MAX(e + 6, 1);
    int m = (int)rdg_round_even(ldexpf(v, 10 - e)); /* 8 … 16, or below 8 when subnormal */
    return (uint8_t)(8 * (e - 1) +
                     m); /* the implicit bit is the exponent's one; a carry moves up by itself */
}

void rdg_nvfp4_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                        const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t c = 0; c < n_columns; c += 64, p += sizeof(rdg_block_nvfp4)) {
        rdg_block_nvfp4 b = {0};
        for (int s = 0; s < 4; s++) {
            const float *x = src + c + 16 * s;
            b.d[s] = e4m3_from_f32(rdg_largest(x, 16) / 6.0f);
            float d = half_e4m3(b.d[s]), inv = d != 0.0f ? 1.0f / d : 0.0f;
            for (int r = 0; r < 8; r++)
                b.qs[8 * s + r] =
                    (uint8_t)(rdg_fp4_nearest(inv * x[r]) | rdg_fp4_nearest(inv * x[r + 8]) << 4);
        }
        memcpy(p, &b, sizeof b);
    }
}
