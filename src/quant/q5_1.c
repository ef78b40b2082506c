#include "quant/q5_1.h"
#include "quant/quant.h"
#include "quant/block32.h"
#include "base/half.h"

#include <string.h>

void rdg_q5_1_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q5_1), dst += 32) {
        rdg_block_q5_1 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d), m = rdg_half_to_f32(b.m);
        uint32_t high =
            (uint32_t)b.qh[0] | (uint32_t)b.qh[1] << 8 | (uint32_t)b.qh[2] << 16 | (uint32_t)b.qh[3] << 24;
        for (int i = 0; i < 16; i++) {
            int low_half = (b.qs[i] & 15) | (int)((high >> i) & 1) << 4;
            int high_half = (b.qs[i] >> 4) | (int)((high >> (i + 16)) & 1) << 4;
            dst[i] = d * (float)low_half + m;
            dst[i + 16] = d * (float)high_half + m;
        }
    }
}

static void store(float d, float min, const uint8_t q[32], void *block)
{
    rdg_block_q5_1 b = {.d = rdg_half_from_f32(d), .m = rdg_half_from_f32(-min)};
    for (int i = 0; i < 16; i++) b.qs[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
    for (int i = 0; i < 32; i++) b.qh[i / 8] |= (uint8_t)((q[i] >> 4) << (i & 7));
    memcpy(block, &b, sizeof b);
}

void rdg_q5_1_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    static const rdg_block32_format format = {
        .top = 31, .has_min = true, .block_bytes = sizeof(rdg_block_q5_1), .store = store};
    rdg_block32_quantise(&format, search, src, dst, n_columns, importance);
}
