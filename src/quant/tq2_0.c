#include "quant/tq2_0.h"
#include "quant/quant.h"
#include "quant/search.h"
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

void rdg_tq2_0_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                        const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_tq2_0)) {
        const float *x = src + c;
        float d = rdg_largest(x, 256), inv = d != 0.0f ? 1.0f / d : 0.0f;
        rdg_block_tq2_0 b = {.d = rdg_half_from_f32(d)};
        for (int i = 0; i < 256; i++) {
            uint8_t q = (uint8_t)(1.0f + rdg_clip(rdg_round_away(x[i] * inv), -1.0f, 1.0f));
            b.qs[32 * (i / 128) + (i & 31)] |= (uint8_t)(q << 2 * ((i & 127) / 32));
        }
        memcpy(p, &b, sizeof b);
    }
}
