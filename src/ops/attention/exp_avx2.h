/* exp of eight floats and tanh, relative error about 1e-7: as exp_avx512.h. */
#ifndef RDG_OPS_ATTENTION_EXP_AVX2_H
#define RDG_OPS_ATTENTION_EXP_AVX2_H

#include "base/compiler.h"

#include <immintrin.h>

RDG_INLINE __m256 rdg_exp_avx2(__m256 x)
{
    /* below -87 the result would be subnormal: it becomes 0 there. min and max return their second operand if
     * one is NaN */
    __m256 keep = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ);
    x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), x));
    __m256 n =
        _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)), 8); /* nearest, no exceptions */
    __m256 r =
        _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x); /* ln 2 in two parts, the first with few bits */
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    __m256 p = _mm256_set1_ps(1.0f / 5040);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_and_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(power)), keep);
}

#endif
