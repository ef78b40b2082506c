#include "quant/q4_0.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "quant/weights.h"
#include "base/compiler.h"
#include "base/half.h"

#include <string.h>

void rdg_q4_0_dequantise(const void *src, float *dst, int64_t n_columns)
{
    const unsigned char *p = src;
    for (int64_t c = 0; c < n_columns; c += 32, p += sizeof(rdg_block_q4_0), dst += 32) {
        rdg_block_q4_0 b;
        memcpy(&b, p, sizeof b);
        float d = rdg_half_to_f32(b.d);
        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)((b.qs[i] & 15) - 8);
            dst[i + 16] = d * (float)((b.qs[i] >> 4) - 8);
        }
    }
}

enum { BLOCKS_AT_ONCE = 8 }; /* the wide searches take eight sub-blocks together */

/* No search: the element of largest magnitude becomes -8. */
static float plain(const float *x, uint8_t *q)
{
    float d = rdg_signed_max(x, 32) / -8.0f, inv = d != 0.0f ? 1.0f / d : 0.0f;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)rdg_clip(x[i] * inv + 8.5f, 0.0f, 15.0f);
    return d;
}

void rdg_q4_0_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    unsigned char *p = dst;
    float s = importance ? rdg_sum_squares(src, n_columns) / (float)n_columns : 0.0f;
    for (int64_t c = 0; c < n_columns;) {
        float w[BLOCKS_AT_ONCE * 32], d[BLOCKS_AT_ONCE];
        uint8_t quanta[BLOCKS_AT_ONCE * 32], *q = quanta;
        int n_blocks = (int)RDG_MIN((n_columns - c) / 32, BLOCKS_AT_ONCE);
        if (importance) {
            rdg_weights_importance(32 * n_blocks, src + c, importance + c, s, w);
            rdg_weights_revive(n_blocks, 32, src + c, w);
            search->symmetric(8, n_blocks, 32, src + c, w, d, quanta);
        } else {
            for (int j = 0; j < n_blocks; j++) d[j] = plain(src + c + 32 * j, quanta + 32 * j);
        }
        for (int j = 0; j < n_blocks; j++, q += 32, c += 32, p += sizeof(rdg_block_q4_0)) {
            rdg_block_q4_0 b = {.d = rdg_half_from_f32(d[j])};
            for (int i = 0; i < 16; i++) b.qs[i] = (uint8_t)(q[i] | q[i + 16] << 4);
            memcpy(p, &b, sizeof b);
        }
    }
}
