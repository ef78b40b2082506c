#include "quant/iq4_xs.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "quant/weights.h"
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

void rdg_iq4_xs_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                         const float *importance)
{
    unsigned char *p = dst;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_iq4_xs)) {
        const float *x = src + c;
        float w[256], scale[8];
        if (importance)
            rdg_weights_importance(256, x, importance + c, 2.0f * rdg_sum_squares(x, 256) / 256.0f, w);
        else
            rdg_weights_squares(256, x, w);
        if (importance) rdg_weights_revive(8, 32, x, w);
        search->iq4(8, x, w, scale);
        /* the integer scales and the elements are chosen under the f32 d; only its f16 form is stored */
        float d = -rdg_signed_max(scale, 8) / 32.0f, inv = d != 0.0f ? 1.0f / d : 0.0f;
        rdg_block_iq4_xs b = {.d = rdg_half_from_f32(d)};
        for (int j = 0; j < 8; j++) {
            float l = rdg_round_clip(inv * scale[j], -32.0f, 31.0f), dj = d * l,
                  inv_j = dj != 0.0f ? 1.0f / dj : 0.0f;
            int ls = (int)l + 32;
            b.scales_l[j / 2] |= (uint8_t)((ls & 15) << 4 * (j & 1));
            b.scales_h |= (uint16_t)((ls >> 4) << 2 * j);
            for (int i = 0; i < 16; i++)
                b.qs[16 * j + i] = (uint8_t)(rdg_iq4_nearest(inv_j * x[32 * j + i]) |
                                             rdg_iq4_nearest(inv_j * x[32 * j + i + 16]) << 4);
        }
        memcpy(p, &b, sizeof b);
    }
}
