#include "quant/iq4_nl.h"
#include "quant/quant.h"
#include "base/half.h"

#include <string.h>

static const int8_t values[16] = {RDG_IQ4_VALUES};

void rdg_iq4_nl_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_iq4_nl), dst += 32) {
        rdg_block_iq4_nl b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)values[b.qs[i] & 15];
            dst[i + 16] = d * (float)values[b.qs[i] >> 4];
        }
    }
}
