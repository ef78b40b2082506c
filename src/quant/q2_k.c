#include "quant/q2_k.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

void rdg_q2_k_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q2_k), dst += 256) {
        rdg_block_q2_k b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d), dmin = rdg_half_to_f32(b.dmin);
        for (int j = 0; j < 16; j++) {
            const uint8_t *qs = b.qs + 32 * (j / 8) + 16 * (j & 1);
            int shift = 2 * ((j & 7) / 2);
            float scale = d * (float)(b.scales[j] & 15), min = dmin * (float)(b.scales[j] >> 4);
            for (int i = 0; i < 16; i++) dst[16 * j + i] = scale * (float)((qs[i] >> shift) & 3) - min;
        }
    }
}
