#include "quant/q1_0.h"
#include "quant/quant.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

void rdg_q1_0_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 128, p += sizeof(rdg_block_q1_0), dst += 128) {
        rdg_block_q1_0 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int i = 0; i < 128; i++) dst[i] = (b.qs[i / 8] >> (i & 7)) & 1 ? d : -d;
    }
}

void rdg_q1_0_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t c = 0; c < n_columns; c += 128, p += sizeof(rdg_block_q1_0)) {
        const float *x = src + c;
        float sum = 0.0f;
        rdg_block_q1_0 b = {0};
        for (int i = 0; i < 128; i++) {
            sum += fabsf(x[i]);
            b.qs[i / 8] |= (uint8_t)((x[i] >= 0.0f) << (i & 7));
        }
        b.d = rdg_half_from_f32(sum / 128.0f);
        memcpy(p, &b, sizeof b);
    }
}
