#include "quant/iq4_xs.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

static const int8_t values[16] = {RDG_IQ4_VALUES};

void rdg_iq4_xs_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_iq4_xs), dst += 256) {
        rdg_block_iq4_xs b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int j = 0; j < 8; j++) {
            int low = (b.scales_l[j / 2] >> 4 * (j & 1)) & 15, high = (b.scales_h >> 2 * j) & 3;
            float scale = d * (float)(low + 16 * high - 32);
            for (int i = 0; i < 16; i++) {
                uint8_t q = b.qs[16 * j + i];
                dst[32 * j + i] = scale * (float)values[q & 15];
                dst[32 * j + i + 16] = scale * (float)values[q >> 4];
            }
        }
    }
}
