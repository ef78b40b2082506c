#include "quant/q6_k.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "quant/weights.h"
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

void rdg_q6_k_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q6_k)) {
        const float *x = src + c;
        float w[256], scale[16];
        uint8_t q[256];
        rdg_block_q6_k b = {0};
        if (importance) {
            memcpy(w, importance + c, sizeof w);
            rdg_weights_revive(16, 16, x, w);
        } else {
            rdg_weights_squares(256, x, w);
        }
        search->symmetric(32, 16, 16, x, w, scale, q);
        float z = rdg_signed_max(scale, 16);
        if (z >= 1e-15f || z <= -1e-15f) { /* else the whole block is zero bytes */
            float inv = -128.0f / z;
            b.d = rdg_half_from_f32(1.0f / inv);
            float d = rdg_half_to_f32(b.d);
            for (int j = 0; j < 16; j++) {
                b.scales[j] = (int8_t)rdg_round_clip(inv * scale[j], -128.0f, 127.0f);
                float dj = d * (float)b.scales[j];
                if (dj == 0.0f) continue;
                for (int i = 16 * j; i < 16 * j + 16; i++)
                    q[i] = (uint8_t)(32.0f + rdg_round_clip(x[i] / dj, -32.0f, 31.0f));
            }
            for (int n = 0; n < 2; n++)
                for (int l = 0; l < 32; l++) {
                    const uint8_t *v = q + 128 * n + l; /* elements l, l + 32, l + 64, l + 96 share bytes */
                    b.ql[64 * n + l] = (uint8_t)((v[0] & 15) | (v[64] & 15) << 4);
                    b.ql[64 * n + 32 + l] = (uint8_t)((v[32] & 15) | (v[96] & 15) << 4);
                    b.qh[32 * n + l] =
                        (uint8_t)(v[0] >> 4 | (v[32] >> 4) << 2 | (v[64] >> 4) << 4 | (v[96] >> 4) << 6);
                }
        }
        memcpy(p, &b, sizeof b);
    }
}
