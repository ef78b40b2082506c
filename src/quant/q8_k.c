#include "quant/q8_k.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "base/half.h"

#include <float.h>
#include <math.h>
#include <string.h>

void rdg_q8_k_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q8_k), dst += 256) {
        rdg_block_q8_k b;
        memcpy(&b, p, sizeof b);
        for (int i = 0; i < 256; i++) dst[i] = b.d * (float)b.qs[i];
    }
}

void rdg_q8_k_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_q8_k)) {
        const float *x = src + c;
        float largest = rdg_signed_max(x, 256);
        rdg_block_q8_k b = {0};
        if (fabsf(largest) >= 127.0f * FLT_MIN) { /* below, -127 / largest overflows: store zeros */
            float inv = -127.0f / largest;
            b.d = 1.0f / inv;
            for (int i = 0; i < 256; i++) {
                b.qs[i] = (int8_t)rdg_round_clip(inv * x[i], -127.0f, 127.0f);
                b.bsums[i / 16] = (int16_t)(b.bsums[i / 16] + b.qs[i]);
            }
        }
        memcpy(p, &b, sizeof b);
    }
}
