#include "quant/tq1_0.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

/* A byte is ceil(v 256 / 243) for the five-digit base-3 number v: multiplying by 3^n mod 256 moves digit n to
 * the front, where the next product's carry shows it. */
static int digit(uint8_t byte, int n)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return ((uint8_t)(byte * power[n]) * 3) >> 8;
}

void rdg_tq1_0_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 256, p += sizeof(rdg_block_tq1_0), dst += 256) {
        rdg_block_tq1_0 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        float *y = dst;
        for (int n = 0; n < 5; n++)
            for (int i = 0; i < 32; i++) *y++ = d * (float)(digit(b.qs[i], n) - 1);
        for (int n = 0; n < 5; n++)
            for (int i = 32; i < 48; i++) *y++ = d * (float)(digit(b.qs[i], n) - 1);
        for (int n = 0; n < 4; n++)
            for (int i = 0; i < 4; i++) *y++ = d * (float)(digit(b.qh[i], n) - 1);
    }
}
