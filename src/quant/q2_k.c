#include "quant/q2_k.h"
#include "quant/quant.h"
#include "quant/affine_block.h"
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

static const rdg_affine_format format = {
    .n_sub = 16,
    .scale_levels = 15,
    .plain = {3, -0.5f, 0.1f, 15, true},
    .weighted = {3, -0.9f, 0.05f, 36, false},
    .plain_rms = false,
    .s_factor = 1.0f,
};

void rdg_q2_k_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q2_k)) {
        rdg_affine_block a;
        rdg_affine_block_quantise(search, &format, src + c, importance ? importance + c : NULL, &a);
        rdg_block_q2_k b = {.d = a.d, .dmin = a.dmin};
        for (int j = 0; j < 16; j++) b.scales[j] = (uint8_t)(a.sc[j] | a.mn[j] << 4);
        for (int i = 0; i < 256; i++)
            b.qs[32 * (i / 128) + (i & 31)] |= (uint8_t)(a.q[i] << 2 * ((i & 127) / 32));
        memcpy(p, &b, sizeof b);
    }
}
