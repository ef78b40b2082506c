#include "quant/q4_1.h"
#include "quant/quant.h"
#include "quant/search.h"
#include "quant/weights.h"
#include "base/compiler.h"
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

enum { BLOCKS_AT_ONCE = 8 }; /* the wide searches take eight sub-blocks together */

/* No search: the smallest element becomes 0, the largest 15. */
static void plain(const float *x, float *d, float *min, uint8_t *q)
{
    float lo = x[0], hi = x[0];
    for (int i = 1; i < 32; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    *d = (hi - lo) / 15.0f;
    *min = -lo;
    float inv = *d != 0.0f ? 1.0f / *d : 0.0f;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)rdg_clip((x[i] - lo) * inv + 0.5f, 0.0f, 15.0f);
}

void rdg_q4_1_quantise(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                       const float *importance)
{
    static const rdg_affine_grid grid = {15, -0.9f, 0.05f, 36, false};
    unsigned char *p = dst;
    float s = importance ? rdg_sum_squares(src, n_columns) / (float)n_columns : 0.0f;
    for (int64_t c = 0; c < n_columns;) {
        float w[BLOCKS_AT_ONCE * 32], d[BLOCKS_AT_ONCE], min[BLOCKS_AT_ONCE];
        uint8_t quanta[BLOCKS_AT_ONCE * 32], *q = quanta;
        int n_blocks = (int)RDG_MIN((n_columns - c) / 32, BLOCKS_AT_ONCE);
        if (importance) {
            rdg_weights_importance(32 * n_blocks, src + c, importance + c, s, w);
            rdg_weights_revive(n_blocks, 32, src + c, w);
            search->affine(&grid, n_blocks, 32, src + c, w, d, min, quanta);
        } else {
            for (int j = 0; j < n_blocks; j++) plain(src + c + 32 * j, d + j, min + j, quanta + 32 * j);
        }
        for (int j = 0; j < n_blocks; j++, q += 32, c += 32, p += sizeof(rdg_block_q4_1)) {
            rdg_block_q4_1 b = {.d = rdg_half_from_f32(d[j]), .m = rdg_half_from_f32(-min[j])};
            for (int i = 0; i < 16; i++) b.qs[i] = (uint8_t)(q[i] | q[i + 16] << 4);
            memcpy(p, &b, sizeof b);
        }
    }
}
