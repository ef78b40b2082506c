#include "quant/block32.h"
#include "quant/weights.h"
#include "base/compiler.h"

enum { BLOCKS_AT_ONCE = 8 }; /* the wide searches take eight sub-blocks together */

/* No search: the element of largest magnitude becomes -half. */
static float plain_symmetric(float half, const float *x, uint8_t *q)
{
    float d = rdg_signed_max(x, 32) / -half, inv = d != 0.0f ? 1.0f / d : 0.0f;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)rdg_clip(x[i] * inv + (half + 0.5f), 0.0f, 2 * half - 1.0f);
    return d;
}

/* No search: the smallest element becomes 0, the largest `top`. */
static void plain_affine(float top, const float *x, float *d, float *min, uint8_t *q)
{
    float lo = x[0], hi = x[0];
    for (int i = 1; i < 32; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    *d = (hi - lo) / top;
    *min = -lo;
    float inv = *d != 0.0f ? 1.0f / *d : 0.0f;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)rdg_clip((x[i] - lo) * inv + 0.5f, 0.0f, top);
}

void rdg_block32_quantise(const rdg_block32_format *f, const rdg_search *search, const float *src, void *dst,
                          int64_t n_columns, const float *importance)
{
    const rdg_affine_grid grid = {(float)f->top, -0.9f, 0.05f, 36, false};
    const int half = (f->top + 1) / 2;
    unsigned char *p = dst;
    float s = importance ? rdg_sum_squares(src, n_columns) / (float)n_columns : 0.0f;
    for (int64_t c = 0; c < n_columns;) {
        float w[BLOCKS_AT_ONCE * 32], d[BLOCKS_AT_ONCE], min[BLOCKS_AT_ONCE] = {0};
        uint8_t q[BLOCKS_AT_ONCE * 32];
        const float *x = src + c;
        int n_blocks = (int)RDG_MIN((n_columns - c) / 32, BLOCKS_AT_ONCE);
        if (importance) {
            rdg_weights_importance(32 * n_blocks, x, importance + c, s, w);
            rdg_weights_revive(n_blocks, 32, x, w);
            if (f->has_min)
                search->affine(&grid, n_blocks, 32, x, w, d, min, q);
            else
                search->symmetric(half, n_blocks, 32, x, w, d, q);
        } else {
            for (int j = 0; j < n_blocks; j++)
                if (f->has_min)
                    plain_affine((float)f->top, x + 32 * j, d + j, min + j, q + 32 * j);
                else
                    d[j] = plain_symmetric((float)half, x + 32 * j, q + 32 * j);
        }
        for (int j = 0; j < n_blocks; j++, c += 32, p += f->block_bytes)
            f->store(d[j], min[j], q + 32 * j, p);
    }
}
