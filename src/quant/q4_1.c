#include "quant/q4_1.h"
#include "quant/quant.h"
#include "quant/block32.h"
#include "base/half.h"

#include <string.h>

void rdg_q4_1_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q4_1), dst += 32) {
        rdg_block_q4_1 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d), m = rdg_half_to_f32(b.m);
        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)(b.qs[i] & 15) + m;
            dst[i + 16] = d * (float)(b.qs[i] >> 4) + m;
        }
    }
}

static void store(float d, float min, const uint8_t q[32], void *block)
{
    rdg_block_q4_1 b = {.d = rdg_half_from_f32(d), .m = rdg_half_from_f32(-min)};
    for (int i = 0; i < 16; i++) b.qs[i] = (uint8_t)(q[i] | q[i + 16] << 4);
    memcpy(block, &b, sizeof b);
}

void rdg_q4_1_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    static const rdg_block32_format format = {
        .top = 15, .has_min = true, .block_bytes = sizeof(rdg_block_q4_1), .store = store};
    rdg_block32_quantise(&format, search, src, dst, n_columns, importance);
}
