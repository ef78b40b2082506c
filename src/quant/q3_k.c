#include "quant/q3_k.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "quant/weights.h"
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

/* One sub-block without importance: from the scale that puts the largest element at -4, improve one quantum
 * at a time. */
static float descend(const float *x, uint8_t *q)
{
    float c = rdg_signed_max(x, 16), a = 0.0f, b = 0.0f, l[16];
    if (!(c >= 1e-15f || c <= -1e-15f)) {
        memset(q, 0, 16);
        return 0.0f;
    }
    float inv = -4.0f / c;
    for (int i = 0; i < 16; i++) {
        float w = x[i] * x[i];
        l[i] = rdg_round_clip(inv * x[i], -4.0f, 3.0f);
        a += w * x[i] * l[i];
        b += w * l[i] * l[i];
    }
    for (int sweep = 0; sweep < 5; sweep++) {
        int n_changed = 0;
        for (int i = 0; i < 16; i++) {
            float w = x[i] * x[i], a1 = a - w * x[i] * l[i];
            if (!(a1 > 0.0f)) continue;
            float b1 = b - w * l[i] * l[i], l1 = rdg_round_clip(x[i] * b1 / a1, -4.0f, 3.0f);
            if (l1 == l[i]) continue;
            a1 += w * x[i] * l1;
            b1 += w * l1 * l1;
            if (b1 > 0.0f && a1 * a1 * b > a * a * b1) {
                l[i] = l1;
                a = a1;
                b = b1;
                n_changed++;
            }
        }
        if (n_changed == 0) break;
    }
    for (int i = 0; i < 16; i++) q[i] = (uint8_t)(l[i] + 4.0f);
    return b > 0.0f ? a / b : 1.0f / inv;
}

/* d and the sixteen scales (0 … 63, 32 added) from the sub-blocks' scales. */
static float super_scale(const rdg_search *search, const float *scale, const float *sum_w, uint8_t *sc)
{
    float d = 0.0f;
    if (sum_w) {
        search->symmetric(32, 1, 16, scale, sum_w, &d, sc);
        return d;
    }
    float z = rdg_signed_max(scale, 16);
    memset(sc, 0, 16);
    if (z == 0.0f) return 0.0f;
    float inv = -32.0f / z;
    for (int j = 0; j < 16; j++) sc[j] = (uint8_t)(32.0f + rdg_round_clip(inv * scale[j], -32.0f, 31.0f));
    return 1.0f / inv;
}

void rdg_q3_k_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q3_k)) {
        const float *x = src + c;
        float w[256], sum_w[16], scale[16];
        uint8_t q[256], sc[16];
        rdg_block_q3_k b = {0};
        if (importance) {
            rdg_weights_importance(256, x, importance + c, 2.0f * rdg_sum_squares(x, 256) / 256.0f, w);
            rdg_weights_sums(16, 16, w, sum_w);
            rdg_weights_revive(16, 16, x, w);
            search->symmetric(4, 16, 16, x, w, scale, q);
        } else {
            for (int j = 0; j < 16; j++) scale[j] = descend(x + 16 * j, q + 16 * j);
        }
        b.d = rdg_half_from_f32(super_scale(search, scale, importance ? sum_w : NULL, sc));
        float d = rdg_half_to_f32(b.d);
        for (int j = 0; j < 16; j++) {
            b.scales[j & 7] |= (uint8_t)((sc[j] & 15) << 4 * (j / 8));
            b.scales[8 + (j & 3)] |= (uint8_t)((sc[j] >> 4) << 2 * (j / 4));
            float dj = d * (float)(sc[j] - 32);
            if (dj == 0.0f) continue;
            for (int i = 16 * j; i < 16 * j + 16; i++)
                q[i] = (uint8_t)(4.0f + rdg_round_clip(x[i] / dj, -4.0f, 3.0f));
        }
        for (int i = 0; i < 256; i++) {
            b.qs[32 * (i / 128) + (i & 31)] |= (uint8_t)((q[i] & 3) << 2 * ((i & 127) / 32));
            b.hmask[i & 31] |= (uint8_t)((q[i] >> 2) << i / 32);
        }
        memcpy(p, &b, sizeof b);
    }
}
