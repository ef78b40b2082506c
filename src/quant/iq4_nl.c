#include "quant/iq4_nl.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "quant/weights.h"
#include "base/compiler.h"
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

enum { BLOCKS_AT_ONCE = 8 }; /* the wide searches take eight sub-blocks together */

void rdg_iq4_nl_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                         const float *importance)
{
    unsigned char *p = dst;
    for (int64_t c = 0; c < n_columns;) {
        float w[BLOCKS_AT_ONCE * 32], scale[BLOCKS_AT_ONCE];
        const float *x = src + c;
        int n_blocks = (int)RDG_MIN((n_columns - c) / 32, BLOCKS_AT_ONCE);
        if (importance)
            for (int j = 0; j < 32 * n_blocks; j += 32)
                rdg_weights_importance(32, x + j, importance + c + j,
                                       2.0f * rdg_sum_squares(x + j, 32) / 32.0f, w + j);
        else
            rdg_weights_squares(32 * n_blocks, x, w);
        if (importance) rdg_weights_revive(n_blocks, 32, x, w);
        search->iq4(n_blocks, x, w, scale);
        for (int j = 0; j < n_blocks; j++, x += 32, c += 32, p += sizeof(rdg_block_iq4_nl)) {
            float inv = scale[j] != 0.0f ? 1.0f / scale[j] : 0.0f;
            rdg_block_iq4_nl b = {.d = rdg_half_from_f32(scale[j])};
            for (int i = 0; i < 16; i++)
                b.qs[i] = (uint8_t)(rdg_iq4_nearest(inv * x[i]) | rdg_iq4_nearest(inv * x[i + 16]) << 4);
            memcpy(p, &b, sizeof b);
        }
    }
}
