#include "quant/q6_k.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_q6_k_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q6_k), dst += 256) {
        rdg_block_q6_k b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int j = 0; j < 16; j++) { /* 16 elements under one scale */
            int n = j / 8, g = (j & 7) / 2, l = 16 * (j & 1);
            const uint8_t *low = b.ql + 64 * n + 32 * (g & 1) + l, *high = b.qh + 32 * n + l;
            int low_shift = 4 * (g / 2), high_shift = 2 * g;
            float scale = d * (float)b.scales[j];
            for (int i = 0; i < 16; i++) {
                int q = ((low[i] >> low_shift) & 15) + 16 * ((high[i] >> high_shift) & 3);
                dst[16 * j + i] = scale * (float)(q - 32);
            }
        }
    }
}
