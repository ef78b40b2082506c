#include "quant/tq2_0.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_tq2_0_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_tq2_0), dst += 256) {
        rdg_block_tq2_0 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int i = 0; i < 256; i++) {
            int q = (b.qs[32 * (i / 128) + (i & 31)] >> 2 * ((i & 127) / 32)) & 3;
            dst[i] = d * (float)(q - 1);
        }
    }
}
