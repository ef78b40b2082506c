/* 16 registers of 16 dwords: register r, lane c becomes register c, lane r. */
#ifndef RDG_OPS_MATMUL_TRANSPOSE_AVX512_H
#define RDG_OPS_MATMUL_TRANSPOSE_AVX512_H

#include "base/compiler.h"

#include <immintrin.h>

RDG_INLINE void rdg_transpose16_avx512(__m512i m[16])
{
    __m512i a[16];
    for (int i = 0; i < 16; i += 2) { /* pairs of rows */
        a[i] = _mm512_unpacklo_epi32(m[i], m[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(m[i], m[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) { /* fours: register i + c holds columns c, c + 4, c + 8, c + 12 */
        m[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        m[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        m[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        m[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int c = 0; c < 4; c++) { /* 128-bit lanes of the four fours */
        __m512i p = _mm512_shuffle_i32x4(m[c], m[4 + c], 0x88),
                q = _mm512_shuffle_i32x4(m[8 + c], m[12 + c], 0x88);
        __m512i r = _mm512_shuffle_i32x4(m[c], m[4 + c], 0xdd),
                s = _mm512_shuffle_i32x4(m[8 + c], m[12 + c], 0xdd);
        a[c] = _mm512_shuffle_i32x4(p, q, 0x88);
        a[8 + c] = _mm512_shuffle_i32x4(p, q, 0xdd);
        a[4 + c] = _mm512_shuffle_i32x4(r, s, 0x88);
        a[12 + c] = _mm512_shuffle_i32x4(r, s, 0xdd);
    }
    for (int i = 0; i < 16; i++) m[i] = a[i];
}

#endif
