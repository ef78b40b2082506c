#include "quant/q5_1.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_q5_1_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q5_1), dst += 32) {
        rdg_block_q5_1 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d), m = rdg_half_to_f32(b.m);
        uint32_t high =
            (uint32_t)b.qh[0] | (uint32_t)b.qh[1] << 8 | (uint32_t)b.qh[2] << 16 | (uint32_t)b.qh[3] << 24;
        for (int i = 0; i < 16; i++) {
            int low_half = (b.qs[i] & 15) | (int)((high >> i) & 1) << 4;
            int high_half = (b.qs[i] >> 4) | (int)((high >> (i + 16)) & 1) << 4;
            dst[i] = d * (float)low_half + m;
            dst[i + 16] = d * (float)high_half + m;
        }
    }
}
