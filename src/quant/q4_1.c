#include "quant/q4_1.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_q4_1_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q4_1), dst += 32) {
        rdg_block_q4_1 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d), m = rdg_half_to_f32(b.m);
        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)(b.qs[i] & 15) + m;
            dst[i + 16] = d * (float)(b.qs[i] >> 4) + m;
        }
    }
}
