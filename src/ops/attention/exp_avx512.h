/* exp and tanh of sixteen floats, relative error about 1e-7. exp: x = n ln 2 + r with n rounded to nearest, a
 * polynomial of degree 7 in r, scaled by 2^n; -inf gives 0, NaN stays NaN. */
#ifndef RDG_OPS_ATTENTION_EXP_AVX512_H
#define RDG_OPS_ATTENTION_EXP_AVX512_H

#include "base/compiler.h"

#include <immintrin.h>

RDG_INLINE __m512 rdg_exp_avx512(__m512 x)
{
    /* outside, the result is 0 or infinity anyway; min and max return their second operand if one is NaN */
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-105.0f), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)),
                                    8); /* 8: nearest, no exceptions */
    __m512 r =
        _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x); /* ln 2 in two parts, the first with few bits */
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 p = _mm512_set1_ps(1.0f / 5040);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* Near 0 the odd Taylor series, elsewhere 1 - 2 / (e^2x + 1), which would lose digits there. */
RDG_INLINE __m512 rdg_tanh_avx512(__m512 x)
{
    __m512 z = _mm512_mul_ps(x, x);
    __m512 s = _mm512_set1_ps(-1382.0f / 155925);
    s = _mm512_fmadd_ps(s, z, _mm512_set1_ps(62.0f / 2835));
    s = _mm512_fmadd_ps(s, z, _mm512_set1_ps(-17.0f / 315));
    s = _mm512_fmadd_ps(s, z, _mm512_set1_ps(2.0f / 15));
    s = _mm512_fmadd_ps(s, z, _mm512_set1_ps(-1.0f / 3));
    s = _mm512_fmadd_ps(_mm512_mul_ps(s, z), x, x);
    __m512 e = rdg_exp_avx512(_mm512_add_ps(x, x));
    __m512 t = _mm512_sub_ps(_mm512_set1_ps(1.0f),
                             _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, _mm512_set1_ps(1.0f))));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(z, _mm512_set1_ps(0.0625f), _CMP_LT_OQ), t, s);
}

#endif
