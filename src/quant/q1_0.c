#include "quant/q1_0.h"
#include "quant/quant.h"
#include "base/half.h"

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
