/* The hot unpackers in registers: what unpack.h does, for AVX-512. */
#ifndef RDG_OPS_MATVEC_UNPACK_AVX512_H
#define RDG_OPS_MATVEC_UNPACK_AVX512_H

#include "ops/matvec/unpack.h"

#include <ridge/type.h>

#include <immintrin.h>

/* 256 integers in order, and either the scales and the minima of their 16 sub-blocks of 16, or, in formats
 * whose sub-blocks are 32, 8 scales followed by 8 minima in both registers (see rdg_q8_block). */
typedef struct rdg_unpacked_avx512 {
    __m512i q[4];
    __m512 scale, min;
} rdg_unpacked_avx512;

typedef void rdg_unpack_avx512_fn(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u);

/* 16 copies of the f16 at p. */
RDG_INLINE __m512 rdg_half_avx512(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

/* The first 16 bytes of a Q4_K or Q5_K block (d, dmin and the twelve packed bytes of quant/scale_min.h) to 8
 * scales, 8 minima, all in vector registers: two byte-wise shifts find the low bits and the upper two of all
 * sixteen values. */
RDG_INLINE __m128i rdg_scale_min_bytes_avx512(__m128i head)
{
    const __m128i gather = _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i low_at = _mm_setr_epi8(0, 8, 16, 24, 32, 40, 48, 56, 0, 8, 16, 24, 36, 44, 52, 60);
    const __m128i high_at = _mm_setr_epi8(0, 0, 0, 0, 2, 10, 18, 26, 0, 0, 0, 0, 2, 10, 18, 26);
    const __m128i low_bits = _mm_set1_epi64x(0x0f0f0f0f3f3f3f3fLL),
                  high_bits = _mm_set1_epi64x(0x3030303000000000LL);
    __m128i s = _mm_shuffle_epi8(head, gather);
    __m128i low = _mm_and_si128(_mm_multishift_epi64_epi8(low_at, s), low_bits);
    return _mm_ternarylogic_epi32(low, _mm_multishift_epi64_epi8(high_at, s), high_bits,
                                  0xf8); /* a or (b and c) */
}

RDG_INLINE void rdg_scale_min_avx512(const uint8_t *src, rdg_unpacked_avx512 *u)
{
    const __m512i d_of = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi32(1), 1);
    __m128i head = _mm_loadu_si128((const __m128i *)(const void *)src);
    __m128i s = rdg_scale_min_bytes_avx512(head);
    __m512 d = _mm512_permutexvar_ps(d_of, _mm512_castps128_ps512(_mm_cvtph_ps(head)));
    u->scale = u->min = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(s)), d);
}

/* 32 bytes whose low nibbles are the first 32 elements and whose high ones the next. */
RDG_INLINE __m512i rdg_nibbles32_avx512(const uint8_t *p)
{
    const __m512i shift = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(4), 1);
    __m512i b = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_and_si512(_mm512_srlv_epi16(b, shift), _mm512_set1_epi8(15));
}

RDG_INLINE void rdg_unpack_q4_k_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    (void)n_blocks;
    for (int p = 0; p < 4; p++) u->q[p] = rdg_nibbles32_avx512(src + 16 + 32 * p);
    rdg_scale_min_avx512(src, u);
}

RDG_INLINE void rdg_unpack_q5_k_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    (void)n_blocks;
    /* bit 2p of qh belongs to the lower half, bit 2p + 1 to the upper */
    const __m512i one = _mm512_inserti64x4(_mm512_set1_epi8(1), _mm256_set1_epi8(2), 1);
    __m512i qh = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(src + 16)));
    for (int p = 0; p < 4; p++) {
        __mmask64 high = _mm512_test_epi8_mask(qh, _mm512_slli_epi16(one, 2 * p));
        __m512i q = rdg_nibbles32_avx512(src + 48 + 32 * p);
        u->q[p] = _mm512_mask_add_epi8(q, high, q, _mm512_set1_epi8(16));
    }
    rdg_scale_min_avx512(src, u);
}

RDG_INLINE void rdg_q6_k_bytes_avx512(const uint8_t *src, __m512i q[4])
{
    /* bits 2g, 2g + 1 of qh go to bits 4, 5; 16-bit shifts leak between bytes only where the mask removes it
     */
    const __m512i left = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
    const __m512i right = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    const __m512i low = _mm512_set1_epi8(15), two = _mm512_set1_epi8(0x30);
    for (int n = 0; n < 2; n++) {
        __m512i ql = _mm512_loadu_si512(src + 64 * n);
        __m512i qh =
            _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(src + 128 + 32 * n)));
        /* 0xf8: a or (b and c) */
        q[2 * n] =
            _mm512_ternarylogic_epi32(_mm512_and_si512(ql, low), _mm512_sllv_epi16(qh, left), two, 0xf8);
        q[2 * n + 1] = _mm512_ternarylogic_epi32(_mm512_and_si512(_mm512_srli_epi16(ql, 4), low),
                                                 _mm512_srlv_epi16(qh, right), two, 0xf8);
    }
}

RDG_INLINE void rdg_unpack_q6_k_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    (void)n_blocks;
    rdg_q6_k_bytes_avx512(src, u->q);
    __m512i sc = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(src + 192)));
    u->scale = _mm512_mul_ps(_mm512_cvtepi32_ps(sc), rdg_half_avx512(src + 208));
    u->min = _mm512_mul_ps(u->scale, _mm512_set1_ps(RDG_OFFSET_Q6_K));
}

/* Everything else: plain C through memory. */
RDG_INLINE void rdg_unpack_plain_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u,
                                        rdg_unpack_fn *plain)
{
    rdg_unpacked m;
    plain(src, n_blocks, &m);
    for (int p = 0; p < 4; p++) u->q[p] = _mm512_load_si512(m.q + 64 * p);
    u->scale = _mm512_load_ps(m.scale);
    u->min = _mm512_load_ps(m.min);
}

/* The same for sub-blocks of 32: equal pairs of scales and minima become 8 scales, 8 minima. */
RDG_INLINE void rdg_unpack_plain32_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u,
                                          rdg_unpack_fn *plain)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    rdg_unpack_plain_avx512(src, n_blocks, u, plain);
    u->scale = u->min = _mm512_permutex2var_ps(u->scale, even, u->min);
}

/* Two-bit fields of 32 bytes: the halves of a register take the bits from 2 g and 2 g + 2 on. */
RDG_INLINE __m512i rdg_two_bits_avx512(const uint8_t *p, int g)
{
    const __m512i shift =
        _mm512_inserti64x4(_mm512_set1_epi16((short)(2 * g)), _mm256_set1_epi16((short)(2 * g + 2)), 1);
    __m512i b = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_and_si512(_mm512_srlv_epi16(b, shift), _mm512_set1_epi8(3));
}

RDG_INLINE void rdg_unpack_q2_k_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    (void)n_blocks;
    for (int p = 0; p < 4; p++) u->q[p] = rdg_two_bits_avx512(src + 16 + 32 * (p / 2), 2 * (p & 1));
    __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)src));
    __m512i sc = _mm512_and_si512(b, _mm512_set1_epi32(15)), mn = _mm512_srli_epi32(b, 4);
    u->scale = _mm512_mul_ps(_mm512_cvtepi32_ps(sc), rdg_half_avx512(src + 80));
    u->min = _mm512_mul_ps(_mm512_cvtepi32_ps(mn), rdg_half_avx512(src + 82));
}

RDG_INLINE void rdg_unpack_q3_k_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    (void)n_blocks;
    const __m512i one = _mm512_inserti64x4(_mm512_set1_epi8(1), _mm256_set1_epi8(2), 1);
    __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)src));
    for (int p = 0; p < 4; p++) {
        __m512i q = rdg_two_bits_avx512(src + 32 + 32 * (p / 2), 2 * (p & 1));
        __mmask64 third = _mm512_test_epi8_mask(high, _mm512_slli_epi16(one, (unsigned)(2 * p)));
        u->q[p] = _mm512_mask_add_epi8(q, third, q, _mm512_set1_epi8(4));
    }
    uint32_t s[3]; /* four scales at a time: their low nibbles, then their upper two bits */
    for (int k = 0; k < 3; k++) memcpy(&s[k], src + 96 + 4 * k, 4);
    const uint32_t nibble = 0x0f0f0f0fu, two = 0x30303030u;
    __m128i sc = _mm_setr_epi32(
        (int)((s[0] & nibble) | ((s[2] << 4) & two)), (int)((s[1] & nibble) | ((s[2] << 2) & two)),
        (int)(((s[0] >> 4) & nibble) | (s[2] & two)), (int)(((s[1] >> 4) & nibble) | ((s[2] >> 2) & two)));
    sc = _mm_sub_epi8(sc, _mm_set1_epi8(32));
    u->scale = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sc)), rdg_half_avx512(src + 108));
    u->min = _mm512_mul_ps(u->scale, _mm512_set1_ps(RDG_OFFSET_Q3_K));
}

/* Nibbles of two blocks of 32: 16 bytes at a and at b, the low ones first in each block. */
RDG_INLINE __m512i rdg_nibbles16_avx512(const uint8_t *a, const uint8_t *b)
{
    const __m512i twice = _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3),
                  shift = _mm512_setr_epi64(0, 0, 0x0004000400040004LL, 0x0004000400040004LL, 0, 0,
                                            0x0004000400040004LL, 0x0004000400040004LL);
    __m256i v = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(const void *)b),
                                 _mm_loadu_si128((const __m128i *)(const void *)a));
    __m512i w = _mm512_permutexvar_epi64(twice, _mm512_castsi256_si512(v));
    return _mm512_and_si512(_mm512_srlv_epi16(w, shift), _mm512_set1_epi8(15));
}

/* Eight f16 values, `stride` bytes apart. */
RDG_INLINE __m128i rdg_halves8_avx512(const uint8_t *p, int stride)
{
    short h[8];
    for (int j = 0; j < 8; j++) memcpy(&h[j], p + j * stride, 2);
    return _mm_set_epi16(h[7], h[6], h[5], h[4], h[3], h[2], h[1], h[0]);
}

/* Eight scales d, then eight minima: offset * d. */
RDG_INLINE void rdg_offset_scales_avx512(__m128i d, float offset, rdg_unpacked_avx512 *u)
{
    const __m512 factor = _mm512_insertf32x8(_mm512_set1_ps(1.0f), _mm256_set1_ps(offset), 1);
    u->scale = u->min = _mm512_mul_ps(_mm512_cvtph_ps(_mm256_broadcastsi128_si256(d)), factor);
}

/* The same from scales d and offsets m of their own: the minimum is -m. */
RDG_INLINE void rdg_min_scales_avx512(__m128i d, __m128i m, rdg_unpacked_avx512 *u)
{
    const __m512 sign = _mm512_insertf32x8(_mm512_set1_ps(1.0f), _mm256_set1_ps(-1.0f), 1);
    u->scale = u->min = _mm512_mul_ps(_mm512_cvtph_ps(_mm256_set_m128i(m, d)), sign);
}

/* Fifth bits of two blocks, 32 bits each. */
RDG_INLINE __m512i rdg_fifth_bits_avx512(__m512i q, const uint8_t *a, const uint8_t *b)
{
    uint32_t low, high;
    memcpy(&low, a, 4);
    memcpy(&high, b, 4);
    return _mm512_mask_add_epi8(q, (uint64_t)high << 32 | low, q, _mm512_set1_epi8(16));
}

/* Q8_0: 34-byte blocks, so each quarter of the output is two loads. */
RDG_INLINE void rdg_unpack_q8_0_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    enum { B = sizeof(rdg_block_q8_0) };
    if (n_blocks < 8) {
        rdg_unpack_plain32_avx512(src, n_blocks, u, rdg_unpack_q8_0);
        return;
    }
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    for (int p = 0; p < 4; p++) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(src + B * 2 * p + 2));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(src + B * (2 * p + 1) + 2));
        u->q[p] = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1), flip);
    }
    rdg_offset_scales_avx512(rdg_halves8_avx512(src, B), RDG_OFFSET_Q8_0, u);
}

RDG_INLINE void rdg_unpack_q4_0_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    enum { B = sizeof(rdg_block_q4_0) };
    if (n_blocks < 8) {
        rdg_unpack_plain32_avx512(src, n_blocks, u, rdg_unpack_q4_0);
        return;
    }
    for (int p = 0; p < 4; p++)
        u->q[p] = rdg_nibbles16_avx512(src + 2 * p * B + 2, src + (2 * p + 1) * B + 2);
    rdg_offset_scales_avx512(rdg_halves8_avx512(src, B), RDG_OFFSET_Q4_0, u);
}

RDG_INLINE void rdg_unpack_q4_1_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    enum { B = sizeof(rdg_block_q4_1) };
    if (n_blocks < 8) {
        rdg_unpack_plain32_avx512(src, n_blocks, u, rdg_unpack_q4_1);
        return;
    }
    for (int p = 0; p < 4; p++)
        u->q[p] = rdg_nibbles16_avx512(src + 2 * p * B + 4, src + (2 * p + 1) * B + 4);
    rdg_min_scales_avx512(rdg_halves8_avx512(src, B), rdg_halves8_avx512(src + 2, B), u);
}

RDG_INLINE void rdg_unpack_q5_0_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    enum { B = sizeof(rdg_block_q5_0) };
    if (n_blocks < 8) {
        rdg_unpack_plain32_avx512(src, n_blocks, u, rdg_unpack_q5_0);
        return;
    }
    for (int p = 0; p < 4; p++) {
        const uint8_t *a = src + 2 * p * B, *b = a + B;
        u->q[p] = rdg_fifth_bits_avx512(rdg_nibbles16_avx512(a + 6, b + 6), a + 2, b + 2);
    }
    rdg_offset_scales_avx512(rdg_halves8_avx512(src, B), RDG_OFFSET_Q5_0, u);
}

RDG_INLINE void rdg_unpack_q5_1_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    enum { B = sizeof(rdg_block_q5_1) };
    if (n_blocks < 8) {
        rdg_unpack_plain32_avx512(src, n_blocks, u, rdg_unpack_q5_1);
        return;
    }
    for (int p = 0; p < 4; p++) {
        const uint8_t *a = src + 2 * p * B, *b = a + B;
        u->q[p] = rdg_fifth_bits_avx512(rdg_nibbles16_avx512(a + 8, b + 8), a + 4, b + 4);
    }
    rdg_min_scales_avx512(rdg_halves8_avx512(src, B), rdg_halves8_avx512(src + 2, B), u);
}

/* Sixteen bytes by nibble. */
RDG_INLINE __m512i rdg_look_up_avx512(const uint8_t table[16], __m512i nibbles)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)),
                               nibbles);
}

RDG_INLINE void rdg_unpack_iq4_nl_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    static const uint8_t value[16] = RDG_IQ4_UNSIGNED;
    enum { B = sizeof(rdg_block_iq4_nl) };
    if (n_blocks < 8) {
        rdg_unpack_plain32_avx512(src, n_blocks, u, rdg_unpack_iq4_nl);
        return;
    }
    for (int p = 0; p < 4; p++)
        u->q[p] =
            rdg_look_up_avx512(value, rdg_nibbles16_avx512(src + 2 * p * B + 2, src + (2 * p + 1) * B + 2));
    rdg_offset_scales_avx512(rdg_halves8_avx512(src, B), RDG_OFFSET_IQ4, u);
}

RDG_INLINE void rdg_unpack_iq4_xs_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    static const uint8_t value[16] = RDG_IQ4_UNSIGNED;
    const __m512 factor = _mm512_insertf32x8(_mm512_set1_ps(1.0f), _mm256_set1_ps(RDG_OFFSET_IQ4), 1);
    (void)n_blocks;
    for (int p = 0; p < 4; p++)
        u->q[p] = rdg_look_up_avx512(value, rdg_nibbles16_avx512(src + 8 + 32 * p, src + 24 + 32 * p));
    uint16_t high;
    uint32_t low;
    memcpy(&high, src + 2, 2);
    memcpy(&low, src + 4, 4);
    /* lane j: nibble j of low, bits 2j and 2j + 1 of high; the upper eight lanes repeat the lower */
    const __m512i j = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    __m512i l = _mm512_and_si512(_mm512_srlv_epi32(_mm512_set1_epi32((int)low), _mm512_slli_epi32(j, 2)),
                                 _mm512_set1_epi32(15));
    __m512i h = _mm512_and_si512(_mm512_srlv_epi32(_mm512_set1_epi32(high), _mm512_slli_epi32(j, 1)),
                                 _mm512_set1_epi32(3));
    __m512i ls = _mm512_sub_epi32(_mm512_add_epi32(l, _mm512_slli_epi32(h, 4)), _mm512_set1_epi32(32));
    u->scale = u->min = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(ls), rdg_half_avx512(src)), factor);
}

RDG_INLINE void rdg_unpack_mxfp4_avx512(const uint8_t *src, int n_blocks, rdg_unpacked_avx512 *u)
{
    static const uint8_t value[16] = RDG_MXFP4_UNSIGNED;
    const __m512 factor = _mm512_insertf32x8(_mm512_set1_ps(1.0f), _mm256_set1_ps(RDG_OFFSET_MXFP4), 1);
    enum { B = sizeof(rdg_block_mxfp4) };
    if (n_blocks < 8) {
        rdg_unpack_plain32_avx512(src, n_blocks, u, rdg_unpack_mxfp4);
        return;
    }
    for (int p = 0; p < 4; p++)
        u->q[p] =
            rdg_look_up_avx512(value, rdg_nibbles16_avx512(src + 2 * p * B + 1, src + (2 * p + 1) * B + 1));
    __m256i e = _mm256_sub_epi32(_mm256_setr_epi32(src[0], src[B], src[2 * B], src[3 * B], src[4 * B],
                                                   src[5 * B], src[6 * B], src[7 * B]),
                                 _mm256_set1_epi32(128));
    __m512 power = _mm512_cvtepi32_ps(_mm512_broadcast_i64x4(e));
    u->scale = u->min = _mm512_scalef_ps(factor, power);
}

/* What a format is to the kernels. sub_elems: 16 or 32; offset: RDG_OFFSET_* of unpack.h. */
typedef struct rdg_block_format_avx512 {
    int block_elems, block_bytes, sub_elems, offset;
    rdg_unpack_avx512_fn *unpack;
} rdg_block_format_avx512;

static const rdg_block_format_avx512 rdg_block_formats_avx512[RDG_TYPE_COUNT] = {
    [RDG_TYPE_Q2_K] = {256, sizeof(rdg_block_q2_k), 16, RDG_OFFSET_NONE, rdg_unpack_q2_k_avx512},
    [RDG_TYPE_Q3_K] = {256, sizeof(rdg_block_q3_k), 16, RDG_OFFSET_Q3_K, rdg_unpack_q3_k_avx512},
    [RDG_TYPE_Q4_K] = {256, sizeof(rdg_block_q4_k), 32, RDG_OFFSET_NONE, rdg_unpack_q4_k_avx512},
    [RDG_TYPE_Q5_K] = {256, sizeof(rdg_block_q5_k), 32, RDG_OFFSET_NONE, rdg_unpack_q5_k_avx512},
    [RDG_TYPE_Q6_K] = {256, sizeof(rdg_block_q6_k), 16, RDG_OFFSET_Q6_K, rdg_unpack_q6_k_avx512},
    [RDG_TYPE_Q8_0] = {32, sizeof(rdg_block_q8_0), 32, RDG_OFFSET_Q8_0, rdg_unpack_q8_0_avx512},
    [RDG_TYPE_Q4_0] = {32, sizeof(rdg_block_q4_0), 32, RDG_OFFSET_Q4_0, rdg_unpack_q4_0_avx512},
    [RDG_TYPE_Q4_1] = {32, sizeof(rdg_block_q4_1), 32, RDG_OFFSET_NONE, rdg_unpack_q4_1_avx512},
    [RDG_TYPE_Q5_0] = {32, sizeof(rdg_block_q5_0), 32, RDG_OFFSET_Q5_0, rdg_unpack_q5_0_avx512},
    [RDG_TYPE_Q5_1] = {32, sizeof(rdg_block_q5_1), 32, RDG_OFFSET_NONE, rdg_unpack_q5_1_avx512},
    [RDG_TYPE_IQ4_NL] = {32, sizeof(rdg_block_iq4_nl), 32, RDG_OFFSET_IQ4, rdg_unpack_iq4_nl_avx512},
    [RDG_TYPE_IQ4_XS] = {256, sizeof(rdg_block_iq4_xs), 32, RDG_OFFSET_IQ4, rdg_unpack_iq4_xs_avx512},
    [RDG_TYPE_MXFP4] = {32, sizeof(rdg_block_mxfp4), 32, RDG_OFFSET_MXFP4, rdg_unpack_mxfp4_avx512},
};

#endif
