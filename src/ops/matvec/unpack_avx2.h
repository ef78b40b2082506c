/* The hot unpackers with AVX2 registers, to memory: what unpack.h does. Q2_K and Q3_K stay plain C. */
#ifndef RDG_OPS_MATVEC_UNPACK_AVX2_H
#define RDG_OPS_MATVEC_UNPACK_AVX2_H

#include "ops/matvec/unpack.h"

#include <immintrin.h>

RDG_INLINE __m256i rdg_load32_avx2(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

RDG_INLINE void rdg_store32_avx2(uint8_t *p, __m256i v)
{
    _mm256_store_si256((__m256i *)(void *)p, v);
}

RDG_INLINE float rdg_half_avx2(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}

RDG_INLINE __m256i rdg_low_nibbles_avx2(__m256i v)
{
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

/* Eight bytes times f, each twice. */
RDG_INLINE void rdg_pairs_avx2(const uint8_t b[8], float f, float out[16])
{
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)b)));
    v = _mm256_mul_ps(v, _mm256_set1_ps(f));
    _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)));
    _mm256_storeu_ps(out + 8, _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7)));
}

RDG_INLINE void rdg_scale_min_avx2(const uint8_t *src, rdg_unpacked *u)
{
    uint8_t sc[8], mn[8];
    rdg_scale_min_unpack(src + 4, sc, mn);
    rdg_pairs_avx2(sc, rdg_half_avx2(src), u->scale);
    rdg_pairs_avx2(mn, rdg_half_avx2(src + 2), u->min);
}

RDG_INLINE void rdg_unpack_q4_k_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    (void)n_blocks;
    for (int p = 0; p < 4; p++) {
        __m256i b = rdg_load32_avx2(src + 16 + 32 * p);
        rdg_store32_avx2(u->q + 64 * p, rdg_low_nibbles_avx2(b));
        rdg_store32_avx2(u->q + 64 * p + 32, rdg_low_nibbles_avx2(_mm256_srli_epi16(b, 4)));
    }
    rdg_scale_min_avx2(src, u);
}

RDG_INLINE void rdg_unpack_q5_k_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    (void)n_blocks;
    const __m256i sixteen = _mm256_set1_epi8(16);
    __m256i high = rdg_load32_avx2(src + 16);
    for (int p = 0; p < 4; p++) {
        __m256i b = rdg_load32_avx2(src + 48 + 32 * p);
        __m256i h0 = _mm256_and_si256(_mm256_slli_epi16(_mm256_srli_epi16(high, 2 * p), 4), sixteen);
        __m256i h1 = _mm256_and_si256(_mm256_slli_epi16(_mm256_srli_epi16(high, 2 * p + 1), 4), sixteen);
        rdg_store32_avx2(u->q + 64 * p, _mm256_or_si256(rdg_low_nibbles_avx2(b), h0));
        rdg_store32_avx2(u->q + 64 * p + 32,
                         _mm256_or_si256(rdg_low_nibbles_avx2(_mm256_srli_epi16(b, 4)), h1));
    }
    rdg_scale_min_avx2(src, u);
}

RDG_INLINE void rdg_unpack_q6_k_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    (void)n_blocks;
    const __m256i two = _mm256_set1_epi8(0x30);
    for (int n = 0; n < 2; n++) {
        __m256i a = rdg_load32_avx2(src + 64 * n), b = rdg_load32_avx2(src + 64 * n + 32);
        __m256i high = rdg_load32_avx2(src + 128 + 32 * n);
        /* 16-bit shifts leak between bytes only where the mask removes it */
        __m256i h[4] = {_mm256_slli_epi16(high, 4), _mm256_slli_epi16(high, 2), high,
                        _mm256_srli_epi16(high, 2)};
        __m256i l[4] = {a, b, _mm256_srli_epi16(a, 4), _mm256_srli_epi16(b, 4)};
        for (int g = 0; g < 4; g++)
            rdg_store32_avx2(u->q + 128 * n + 32 * g,
                             _mm256_or_si256(rdg_low_nibbles_avx2(l[g]), _mm256_and_si256(h[g], two)));
    }
    const __m256 d = _mm256_set1_ps(rdg_half_avx2(src + 208));
    for (int k = 0; k < 16; k += 8) {
        __m256i sc = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(src + 192 + k)));
        __m256 scale = _mm256_mul_ps(_mm256_cvtepi32_ps(sc), d);
        _mm256_storeu_ps(u->scale + k, scale);
        _mm256_storeu_ps(u->min + k, _mm256_mul_ps(scale, _mm256_set1_ps(RDG_OFFSET_Q6_K)));
    }
}

RDG_INLINE void rdg_unpack_q8_0_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    enum { B = sizeof(rdg_block_q8_0) };
    for (int j = 0; j < n_blocks; j++) {
        const float d = rdg_half_avx2(src + B * j);
        rdg_store32_avx2(u->q + 32 * j,
                         _mm256_xor_si256(rdg_load32_avx2(src + B * j + 2), _mm256_set1_epi8((char)0x80)));
        rdg_unpack_pair(u, j, d, RDG_OFFSET_Q8_0 * d);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

/* Nibbles of one block of 32, the low ones first: 16 bytes. */
RDG_INLINE __m256i rdg_nibbles16_avx2(const uint8_t *p)
{
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
    return rdg_low_nibbles_avx2(_mm256_set_m128i(_mm_srli_epi16(b, 4), b));
}

RDG_INLINE void rdg_unpack_q4_0_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    enum { B = sizeof(rdg_block_q4_0) };
    for (int j = 0; j < n_blocks; j++) {
        const float d = rdg_half_avx2(src + B * j);
        rdg_store32_avx2(u->q + 32 * j, rdg_nibbles16_avx2(src + B * j + 2));
        rdg_unpack_pair(u, j, d, RDG_OFFSET_Q4_0 * d);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

RDG_INLINE void rdg_unpack_q4_1_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    enum { B = sizeof(rdg_block_q4_1) };
    for (int j = 0; j < n_blocks; j++) {
        rdg_store32_avx2(u->q + 32 * j, rdg_nibbles16_avx2(src + B * j + 4));
        rdg_unpack_pair(u, j, rdg_half_avx2(src + B * j), -rdg_half_avx2(src + B * j + 2));
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

/* q plus 16 where the bit of the 32 at p is set. */
RDG_INLINE __m256i rdg_fifth_bits_avx2(__m256i q, const uint8_t *p)
{
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101LL, 0x0202020202020202LL, 0x0303030303030303LL);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ULL);
    int32_t high;
    memcpy(&high, p, 4);
    __m256i b = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(high), byte), bit);
    return _mm256_or_si256(q, _mm256_and_si256(_mm256_cmpeq_epi8(b, bit), _mm256_set1_epi8(16)));
}

RDG_INLINE void rdg_unpack_q5_0_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    enum { B = sizeof(rdg_block_q5_0) };
    for (int j = 0; j < n_blocks; j++) {
        const float d = rdg_half_avx2(src + B * j);
        rdg_store32_avx2(u->q + 32 * j,
                         rdg_fifth_bits_avx2(rdg_nibbles16_avx2(src + B * j + 6), src + B * j + 2));
        rdg_unpack_pair(u, j, d, RDG_OFFSET_Q5_0 * d);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

RDG_INLINE void rdg_unpack_q5_1_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    enum { B = sizeof(rdg_block_q5_1) };
    for (int j = 0; j < n_blocks; j++) {
        rdg_store32_avx2(u->q + 32 * j,
                         rdg_fifth_bits_avx2(rdg_nibbles16_avx2(src + B * j + 8), src + B * j + 4));
        rdg_unpack_pair(u, j, rdg_half_avx2(src + B * j), -rdg_half_avx2(src + B * j + 2));
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

RDG_INLINE __m256i rdg_look_up_avx2(const uint8_t table[16], __m256i nibbles)
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), nibbles);
}

RDG_INLINE void rdg_unpack_iq4_nl_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    static const uint8_t value[16] = RDG_IQ4_UNSIGNED;
    enum { B = sizeof(rdg_block_iq4_nl) };
    for (int j = 0; j < n_blocks; j++) {
        const float d = rdg_half_avx2(src + B * j);
        rdg_store32_avx2(u->q + 32 * j, rdg_look_up_avx2(value, rdg_nibbles16_avx2(src + B * j + 2)));
        rdg_unpack_pair(u, j, d, RDG_OFFSET_IQ4 * d);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

RDG_INLINE void rdg_unpack_iq4_xs_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    static const uint8_t value[16] = RDG_IQ4_UNSIGNED;
    (void)n_blocks;
    const float d = rdg_half_avx2(src);
    uint16_t high;
    uint32_t low;
    memcpy(&high, src + 2, 2);
    memcpy(&low, src + 4, 4);
    for (int j = 0; j < 8; j++) {
        int ls = (int)((low >> (4 * j)) & 15) + 16 * ((high >> (2 * j)) & 3);
        float scale = d * (float)(ls - 32);
        rdg_store32_avx2(u->q + 32 * j, rdg_look_up_avx2(value, rdg_nibbles16_avx2(src + 8 + 16 * j)));
        rdg_unpack_pair(u, j, scale, RDG_OFFSET_IQ4 * scale);
    }
}

RDG_INLINE void rdg_unpack_mxfp4_avx2(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    static const uint8_t value[16] = RDG_MXFP4_UNSIGNED;
    enum { B = sizeof(rdg_block_mxfp4) };
    for (int j = 0; j < n_blocks; j++) {
        /* 2^(e - 128); the two smallest are subnormal */
        const uint32_t e = src[B * j];
        const float d = rdg_f32_from_bits(e >= 2 ? (e - 1) << 23 : 0x00200000u << e);
        rdg_store32_avx2(u->q + 32 * j, rdg_look_up_avx2(value, rdg_nibbles16_avx2(src + B * j + 1)));
        rdg_unpack_pair(u, j, d, RDG_OFFSET_MXFP4 * d);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

static const rdg_block_format rdg_block_formats_avx2[RDG_TYPE_COUNT] = {
    [RDG_TYPE_Q2_K] = {256, sizeof(rdg_block_q2_k), 16, RDG_OFFSET_NONE, rdg_unpack_q2_k},
    [RDG_TYPE_Q3_K] = {256, sizeof(rdg_block_q3_k), 16, RDG_OFFSET_Q3_K, rdg_unpack_q3_k},
    [RDG_TYPE_Q4_K] = {256, sizeof(rdg_block_q4_k), 32, RDG_OFFSET_NONE, rdg_unpack_q4_k_avx2},
    [RDG_TYPE_Q5_K] = {256, sizeof(rdg_block_q5_k), 32, RDG_OFFSET_NONE, rdg_unpack_q5_k_avx2},
    [RDG_TYPE_Q6_K] = {256, sizeof(rdg_block_q6_k), 16, RDG_OFFSET_Q6_K, rdg_unpack_q6_k_avx2},
    [RDG_TYPE_Q8_0] = {32, sizeof(rdg_block_q8_0), 32, RDG_OFFSET_Q8_0, rdg_unpack_q8_0_avx2},
    [RDG_TYPE_Q4_0] = {32, sizeof(rdg_block_q4_0), 32, RDG_OFFSET_Q4_0, rdg_unpack_q4_0_avx2},
    [RDG_TYPE_Q4_1] = {32, sizeof(rdg_block_q4_1), 32, RDG_OFFSET_NONE, rdg_unpack_q4_1_avx2},
    [RDG_TYPE_Q5_0] = {32, sizeof(rdg_block_q5_0), 32, RDG_OFFSET_Q5_0, rdg_unpack_q5_0_avx2},
    [RDG_TYPE_Q5_1] = {32, sizeof(rdg_block_q5_1), 32, RDG_OFFSET_NONE, rdg_unpack_q5_1_avx2},
    [RDG_TYPE_IQ4_NL] = {32, sizeof(rdg_block_iq4_nl), 32, RDG_OFFSET_IQ4, rdg_unpack_iq4_nl_avx2},
    [RDG_TYPE_IQ4_XS] = {256, sizeof(rdg_block_iq4_xs), 32, RDG_OFFSET_IQ4, rdg_unpack_iq4_xs_avx2},
    [RDG_TYPE_MXFP4] = {32, sizeof(rdg_block_mxfp4), 32, RDG_OFFSET_MXFP4, rdg_unpack_mxfp4_avx2},
};

#endif
