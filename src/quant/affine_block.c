#include "quant/affine_block.h"
#include "quant/weights.h"
#include "base/half.h"

static void plain_weights(const rdg_affine_format *f, const float *x, float *w)
{
    int len = 256 / f->n_sub;
    float base[16] = {0};
    if (f->plain_rms) {
        for (int i = 0; i < len; i++)
            for (int j = 0; j < f->n_sub; j++) base[j] += x[j * len + i] * x[j * len + i];
        for (int j = 0; j < f->n_sub; j++) base[j] = sqrtf(base[j] / (float)len);
    }
    for (int j = 0; j < f->n_sub; j++)
        for (int i = 0; i < len; i++) w[j * len + i] = base[j] + fabsf(x[j * len + i]);
}

/* The largest value gets the highest level. */
static float scale_by_maximum(int n, int levels, const float *v, uint8_t *level)
{
    float top = (float)levels, largest = 0.0f;
    for (int j = 0; j < n; j++)
        if (v[j] > largest) largest = v[j];
    float inv = largest > 0.0f ? top / largest : 0.0f;
    for (int j = 0; j < n; j++) level[j] = (uint8_t)rdg_round_clip(inv * v[j], 0.0f, top);
    return largest / top;
}

void rdg_affine_block_quantise(const rdg_search *search, const rdg_affine_format *f, const float *x,
                               const float *importance, rdg_affine_block *out)
{
    int n_sub = f->n_sub, len = 256 / n_sub;
    float w[256] = {0}, sum_w[16], scale[16], min[16], d, dmin;
    if (importance) {
        float s = f->s_factor * rdg_sum_squares(x, 256) / 256.0f;
        rdg_weights_importance(256, x, importance, s, w);
        rdg_weights_sums(n_sub, len, w, sum_w);
        rdg_weights_revive(n_sub, len, x, w);
        search->affine(&f->weighted, n_sub, len, x, w, scale, min, out->q);
        d = rdg_scale_search(n_sub, f->scale_levels, scale, sum_w, out->sc);
        dmin = rdg_scale_search(n_sub, f->scale_levels, min, sum_w, out->mn);
    } else {
        plain_weights(f, x, w);
        search->affine(&f->plain, n_sub, len, x, w, scale, min, out->q);
        d = scale_by_maximum(n_sub, f->scale_levels, scale, out->sc);
        dmin = scale_by_maximum(n_sub, f->scale_levels, min, out->mn);
    }
    out->d = rdg_half_from_f32(d);
    out->dmin = rdg_half_from_f32(dmin);
    /* The stored scales differ from those of the search: quantise again with what a reader will see. */
    float stored_d = rdg_half_to_f32(out->d), stored_dmin = rdg_half_to_f32(out->dmin);
    for (int j = 0; j < n_sub; j++) {
        float dj = stored_d * (float)out->sc[j], mj = stored_dmin * (float)out->mn[j];
        const float *xj = x + j * len;
        uint8_t *q = out->q + j * len;
        if (dj == 0.0f) continue;
        for (int i = 0; i < len; i++)
            q[i] = (uint8_t)rdg_round_clip((xj[i] + mj) / dj, 0.0f, f->plain.levels);
    }
}
