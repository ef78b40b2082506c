#include "quant/q8_k.h"
#include "quant/quant.h"
#include "base/half.h"

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
