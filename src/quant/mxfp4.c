#include "quant/mxfp4.h"
#include "quant/quant.h"
#include "base/half.h"

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
