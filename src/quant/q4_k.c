#include "quant/q4_k.h"
#include "quant/quant.h"
#include "quant/scale_min.h"
#include "quant/affine_block.h"
#include "base/half.h"

#include <string.h>

void rdg_q4_k_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q4_k), dst += 256) {
        rdg_block_q4_k b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d), dmin = rdg_half_to_f32(b.dmin);
        uint8_t sc[8], mn[8];
        rdg_scale_min_unpack(b.scales, sc, mn);
        for (int j = 0; j < 8; j++) {
            const uint8_t *qs = b.qs + 32 * (j / 2);
            int shift = 4 * (j & 1);
            float scale = d * (float)sc[j], min = dmin * (float)mn[j];
            for (int i = 0; i < 32; i++) dst[32 * j + i] = scale * (float)((qs[i] >> shift) & 15) - min;
        }
    }
}

static const rdg_affine_format format = {
    .n_sub = 8,
    .scale_levels = 63,
    .plain = {15, -1.0f, 0.1f, 20, false},
    .weighted = {15, -0.9f, 0.05f, 36, false},
    .plain_rms = true,
    .s_factor = 2.0f,
};

void rdg_q4_k_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q4_k)) {
        rdg_affine_block a;
        rdg_affine_block_quantise(search, &format, src + c, importance ? importance + c : NULL, &a);
        rdg_block_q4_k b = {.d = a.d, .dmin = a.dmin};
        rdg_scale_min_pack(a.sc, a.mn, b.scales);
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 32; i++)
                b.qs[32 * j + i] = (uint8_t)(a.q[64 * j + i] | a.q[64 * j + 32 + i] << 4);
        memcpy(p, &b, sizeof b);
    }
}
