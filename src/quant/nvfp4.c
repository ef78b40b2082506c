#include "quant/nvfp4.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

static const int8_t values[16] = {RDG_FP4_VALUES};

/* Half of an unsigned E4M3 value, because the table holds twice the E2M1 values. */
static float half_e4m3(uint8_t x)
{
    int e = (x >> 3) & 15, m = x & 7;
    if (x == 0 || x == 0x7f) return 0.0f;
    if (e == 0) return (float)m * 0x1p-10f;
    return (1.0f + (float)m / 8.0f) * rdg_f32_from_bits((uint32_t)(e - 8 + 127) << 23);
}

void rdg_nvfp4_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 64, p += sizeof(rdg_block_nvfp4), dst += 64) {
        rdg_block_nvfp4 b;
        memcpy(&b, p, sizeof b);
        for (int s = 0; s < 4; s++) {
            float d = half_e4m3(b.d[s]);
            for (int r = 0; r < 8; r++) {
                dst[16 * s + r] = d * (float)values[b.qs[8 * s + r] & 15];
                dst[16 * s + r + 8] = d * (float)values[b.qs[8 * s + r] >> 4];
            }
        }
    }
}
