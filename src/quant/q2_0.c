#include "quant/q2_0.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "base/half.h"

#include <string.h>

void rdg_q2_0_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 64, p += sizeof(rdg_block_q2_0), dst += 64) {
        rdg_block_q2_0 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int i = 0; i < 64; i++) dst[i] = d * (float)(((b.qs[i / 4] >> 2 * (i & 3)) & 3) - 1);
    }
}

void rdg_q2_0_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t c = 0; c < n_columns; c += 64, p += sizeof(rdg_block_q2_0)) {
        const float *x = src + c;
        float d = rdg_largest(x, 64), inv = d != 0.0f ? 1.0f / d : 0.0f;
        rdg_block_q2_0 b = {.d = rdg_half_from_f32(d)};
        for (int i = 0; i < 64; i++)
            b.qs[i / 4] |=
                (uint8_t)((uint8_t)(1.0f + rdg_clip(rdg_round_away(x[i] * inv), -1.0f, 2.0f)) << 2 * (i & 3));
        memcpy(p, &b, sizeof b);
    }
}
