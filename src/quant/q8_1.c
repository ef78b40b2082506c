#include "quant/q8_1.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_q8_1_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q8_1), dst += 32) {
        rdg_block_q8_1 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)b.qs[i];
    }
}
