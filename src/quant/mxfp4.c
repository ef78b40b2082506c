#include "quant/mxfp4.h"
#include "quant/quant.h"
#include "quant/fp4.h"
#include "quant/search.h"
#include "base/compiler.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

static const int8_t values[16] = {RDG_FP4_VALUES};

/* 2^(e - 128), e = 0 … 255; the two smallest are subnormal. */
static float power_of_two(uint8_t e)
{
    return rdg_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

void rdg_mxfp4_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_mxfp4), dst += 32) {
        rdg_block_mxfp4 b;
        memcpy(&b, p, sizeof b);
        float d = power_of_two(b.e);
        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)values[b.qs[i] & 15];
            dst[i + 16] = d * (float)values[b.qs[i] >> 4];
        }
    }
}

void rdg_mxfp4_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                        const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_mxfp4)) {
        const float *x = src + c;
        float largest = rdg_largest(x, 32);
        double inv = 0.0; /* a power of two up to 2^128, hence not a float */
        rdg_block_mxfp4 b = {0};
        if (largest > 0.0f) {
            int exponent; /* largest = m 2^exponent, 1/2 <= m < 1 */
            frexpf(largest, &exponent);
            b.e = (uint8_t)RDG_MAX(exponent - 1 - 2 + 127, 0);
            inv = ldexp(1.0, 128 - b.e);
        }
        for (int i = 0; i < 16; i++)
            b.qs[i] = (uint8_t)(rdg_fp4_nearest((float)(inv * x[i])) |
                                rdg_fp4_nearest((float)(inv * x[i + 16])) << 4);
        memcpy(p, &b, sizeof b);
    }
}
