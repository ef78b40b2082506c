#include "quant/q8_0.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "base/half.h"

#include <float.h>
#include <string.h>

void rdg_q8_0_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q8_0), dst += 32) {
        rdg_block_q8_0 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)b.qs[i];
    }
}

void rdg_q8_0_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    (void)search;
    (void)importance;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q8_0)) {
        const float *x = src + c;
        float d = rdg_largest(x, 32) / 127.0f,
              inv = d >= FLT_MIN ? 1.0f / d : 0.0f; /* below, 1 / d overflows: store zeros */
        rdg_block_q8_0 b = {.d = rdg_half_from_f32(d)};
        for (int i = 0; i < 32; i++) b.qs[i] = (int8_t)rdg_round_away(x[i] * inv);
        memcpy(p, &b, sizeof b);
    }
}
