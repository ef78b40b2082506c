#include "quant/q3_k.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_q3_k_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q3_k), dst += 256) {
        rdg_block_q3_k b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int j = 0; j < 16; j++) {
            const uint8_t *qs = b.qs + 32 * (j / 8) + 16 * (j & 1), *high = b.hmask + 16 * (j & 1);
            int shift = 2 * ((j & 7) / 2), bit = j / 2;
            int low_bits = j < 8 ? b.scales[j] & 15 : b.scales[j - 8] >> 4;
            int high_bits = (b.scales[8 + (j & 3)] >> 2 * (j / 4)) & 3;
            float scale = d * (float)(low_bits + 16 * high_bits - 32);
            for (int i = 0; i < 16; i++) {
                int q = ((qs[i] >> shift) & 3) + 4 * ((high[i] >> bit) & 1) - 4;
                dst[16 * j + i] = scale * (float)q;
            }
        }
    }
}
