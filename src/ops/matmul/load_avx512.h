/* Weights and cached values that are not in blocks, as floats. */
#ifndef RDG_OPS_MATMUL_LOAD_AVX512_H
#define RDG_OPS_MATMUL_LOAD_AVX512_H

#include <ridge/type.h>
#include "base/compiler.h"

#include <immintrin.h>

/* Elements i … i + 15 of a row of F32, F16 or BF16; where mask has no bit, 0 and nothing is read. */
RDG_INLINE __m512 rdg_load16_avx512(rdg_type type, const char *row, int64_t i, __mmask16 mask)
{
    if (type == RDG_TYPE_F32) return _mm512_maskz_loadu_ps(mask, row + 4 * i);
    __m256i half = _mm256_maskz_loadu_epi16(mask, row + 2 * i);
    if (type == RDG_TYPE_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

#endif
