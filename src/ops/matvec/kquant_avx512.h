/* Dot products of Q4_K, Q5_K and Q6_K with integer sub-block scales, for AVX-512 VNNI.
 *
 * These formats are what a decode step reads most of, and their sub-block scales are integers: so a block
 * needs one conversion to float instead of one for each quarter. A sum of four products fits 16 bits (at most
 * 4 x 63 x 128), so two registers of such sums become one before they meet their scales, and what that gives
 * fits 32 bits whatever the file holds (256 x 63 x 128 x 128, and what Q6_K takes away, 16 x 4096 x 2048).
 * About 45 instructions for 256 weights where the general loop (q8_avx512.c) takes 61. */
#ifndef RDG_OPS_MATVEC_KQUANT_AVX512_H
#define RDG_OPS_MATVEC_KQUANT_AVX512_H

#include "ops/matvec/unpack_avx512.h"
#include "ops/matvec/q8.h"

/* What a stream will need next. The hardware follows a stream within a page; several streams it follows
 * better than one, and they need less reach. A weight is used once a token: with streams it goes past the
 * second-level cache. Past the end of the weights a prefetch does nothing. Asking twice for a line takes a
 * place of those that are under way, so blocks ask for the last line that they touch only if it is not the
 * next one's first (blocks of a multiple of 16 bytes, where that recurs too soon to be mispredicted). */
RDG_INLINE void rdg_q8_prefetch_avx512(const uint8_t *p, int bytes, int n_streams)
{
    int k = 0;
    if (n_streams == 1) {
        for (; k < bytes; k += 64) _mm_prefetch((const char *)p + 4096 + k, _MM_HINT_T0);
        return;
    }
    for (; k + 64 < bytes; k += 64) _mm_prefetch((const char *)p + RDG_Q8_REACH_BYTES + k, _MM_HINT_NTA);
    if (bytes % 16 || (int)((uintptr_t)p % 64) + bytes >= k + 64)
        _mm_prefetch((const char *)p + RDG_Q8_REACH_BYTES + k, _MM_HINT_NTA);
}

/* One block: four registers of weights, the scales of two registers of sums, and what the minima multiply. */
typedef struct rdg_kquant_avx512 {
    __m512i q[4], scale[2];
    __m128i min;    /* eight 16-bit minima (Q4_K, Q5_K) */
    __m512i offset; /* 32 times sixteen 16-bit scales, then zeros (Q6_K) */
    __m128 d;       /* d, and dmin if there is one */
} rdg_kquant_avx512;

/* What every block needs. Made once for many rows and opaque to the compiler, which would otherwise build
 * it anew for each row. at: for each 16-bit sum of rdg_kquant_multiply_avx512 the place of its scale. */
typedef struct rdg_kquant_constants_avx512 {
    __m512i at[2], low;
} rdg_kquant_constants_avx512;

RDG_INLINE __m512i rdg_opaque_avx512(__m512i v)
{
    __asm__("" : "+v"(v));
    return v;
}

/* Registers 2 h and 2 h + 1 of weights lie in turn in the lanes of the sums, four of each in 128 bits. In
 * Q6_K a sub-block of 16 fills a lane; in the others the registers are the sub-blocks (0 2) (1 3) (4 6) (5
 * 7), see rdg_q8_block.pair, and a scale is a byte whose upper half (0x80) is nothing. */
RDG_INLINE rdg_kquant_constants_avx512 rdg_kquant_make_avx512(const rdg_type type)
{
    rdg_kquant_constants_avx512 c = {.low = rdg_opaque_avx512(_mm512_set1_epi8(15))};
    for (int h = 0; h < 2; h++) {
        short at[32];
        for (int i = 0; i < 32; i++) {
            int lane = i / 8, second = i / 4 % 2;
            at[i] = (short)(type == RDG_TYPE_Q6_K ? 8 * h + 4 * second + lane
                                                  : 0x8000 | (4 * h + lane / 2 * 2 + second));
        }
        c.at[h] = rdg_opaque_avx512(_mm512_loadu_si512(at));
    }
    return c;
}

/* d, dmin, scales and minima of Q4_K and Q5_K. */
RDG_INLINE void rdg_kquant_scales_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                         rdg_kquant_avx512 *u)
{
    __m128i head = _mm_loadu_si128((const __m128i *)(const void *)src);
    __m128i s = rdg_scale_min_bytes_avx512(head);
    u->d = _mm_cvtph_ps(head);
    u->min = _mm_unpackhi_epi8(s, _mm_setzero_si128());
    __m512i all = _mm512_broadcast_i32x4(s);
    for (int h = 0; h < 2; h++) u->scale[h] = _mm512_shuffle_epi8(all, c->at[h]);
}

RDG_INLINE void rdg_kquant_nibbles_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                          __m512i q[4])
{
    for (int n = 0; n < 2; n++) {
        /* opaque: loaded once, though two instructions could take it from memory */
        __m512i b = rdg_opaque_avx512(_mm512_loadu_si512(src + 64 * n));
        q[2 * n] = _mm512_and_si512(b, c->low);
        q[2 * n + 1] = _mm512_and_si512(_mm512_srli_epi16(b, 4), c->low);
    }
}

/* Bit j of qh is the fifth of sub-block j: to bit 4, by register the sub-blocks (0 2) (1 3) (4 6) (5 7). */
RDG_INLINE void rdg_kquant_fifth_avx512(const uint8_t *src, __m512i q[4])
{
    const __m512i fifth = _mm512_set1_epi8(16);
    __m512i qh = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)src)), v[4];
    for (int p = 0; p < 4; p++) {
        int j = p / 2 * 4 + p % 2; /* and j + 2 */
        v[p] = p < 2 ? _mm512_sllv_epi16(qh, _mm512_inserti64x4(_mm512_set1_epi16((short)(4 - j)),
                                                                _mm256_set1_epi16((short)(2 - j)), 1))
                     : _mm512_srlv_epi16(qh, _mm512_inserti64x4(_mm512_set1_epi16((short)(j - 4)),
                                                                _mm256_set1_epi16((short)(j - 2)), 1));
        q[p] = _mm512_ternarylogic_epi32(q[p], v[p], fifth, 0xf8); /* a or (b and c) */
    }
}

RDG_INLINE void rdg_kquant_q4_k_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                       rdg_kquant_avx512 *u)
{
    rdg_kquant_nibbles_avx512(src + 16, c, u->q);
    rdg_kquant_scales_avx512(src, c, u);
}

RDG_INLINE void rdg_kquant_q5_k_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                       rdg_kquant_avx512 *u)
{
    rdg_kquant_nibbles_avx512(src + 48, c, u->q);
    rdg_kquant_fifth_avx512(src + 16, u->q);
    rdg_kquant_scales_avx512(src, c, u);
}

RDG_INLINE void rdg_kquant_q6_k_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                       rdg_kquant_avx512 *u)
{
    uint16_t d;
    rdg_q6_k_bytes_avx512(src, u->q);
    __m512i s = _mm512_castsi256_si512(
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(src + 192))));
    for (int h = 0; h < 2; h++) u->scale[h] = _mm512_permutexvar_epi16(c->at[h], s);
    u->offset = _mm512_zextsi256_si512(_mm256_slli_epi16(_mm512_castsi512_si256(s), 5));
    memcpy(&d, src + 208, 2);
    u->d = _mm_cvtph_ps(_mm_cvtsi32_si128(d));
}

RDG_INLINE void rdg_kquant_unpack_avx512(const uint8_t *block, const rdg_kquant_constants_avx512 *c,
                                         const rdg_type type, rdg_kquant_avx512 *u)
{
    if (type == RDG_TYPE_Q6_K)
        rdg_kquant_q6_k_avx512(block, c, u);
    else if (type == RDG_TYPE_Q5_K)
        rdg_kquant_q5_k_avx512(block, c, u);
    else
        rdg_kquant_q4_k_avx512(block, c, u);
}

/* Adds the product of a block and 256 activations; what the minima take away is kept apart until the end. */
RDG_INLINE void rdg_kquant_multiply_avx512(const rdg_kquant_avx512 *u, const rdg_q8_block *b,
                                           const rdg_type type, __m512 *acc, __m128 *min)
{
    const bool q6 = type == RDG_TYPE_Q6_K;
    const int8_t *q = q6 ? b->q : b->pair;
    __m128 d = _mm_mul_ps(u->d, _mm_set1_ps(b->scale256));
    __m512i dot[4], sum = _mm512_setzero_si512();
    for (int p = 0; p < 4; p++)
        dot[p] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), u->q[p], _mm512_load_si512(q + 64 * p));
    for (int h = 0; h < 2; h++) {
        __m512i pairs = _mm512_packs_epi32(dot[2 * h], dot[2 * h + 1]);
        sum = h ? _mm512_dpwssd_epi32(sum, pairs, u->scale[h]) : _mm512_madd_epi16(pairs, u->scale[h]);
    }
    if (q6) { /* w = scale (q - 32) */
        __m256i less = _mm256_load_si256((const __m256i *)(const void *)b->less16);
        sum = _mm512_dpwssd_epi32(sum, u->offset, _mm512_zextsi256_si512(less));
    } else {
        __m128i m = _mm_madd_epi16(u->min, _mm_load_si128((const __m128i *)(const void *)b->sum32w));
        *min = _mm_fmadd_ps(_mm_cvtepi32_ps(m), _mm_shuffle_ps(d, d, 0x55), *min);
    }
    *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_broadcastss_ps(d), *acc);
}

/* One row of each of k streams times one token, or of one stream times n tokens (constants where it is
 * called): sums[i * sums_stride], i the stream or the token. */
RDG_INLINE void rdg_kquant_dot_avx512(const rdg_q8_dot_args *a, int64_t row, int n_streams, int first_token,
                                      int n_tokens, const rdg_kquant_constants_avx512 *c, const rdg_type type)
{
    const int block_bytes = rdg_block_formats_avx512[type].block_bytes;
    const uint8_t *at = (const uint8_t *)a->rows + row * a->row_stride_bytes;
    int64_t n_blocks = a->n_columns / RDG_Q8_ELEMS;
    __m512 acc[4];
    __m128 min[4];
    for (int i = 0; i < n_streams * n_tokens; i++) {
        acc[i] = _mm512_setzero_ps();
        min[i] = _mm_setzero_ps();
    }
    for (int64_t s = 0; s < n_blocks; s++, at += block_bytes)
        for (int k = 0; k < n_streams; k++) {
            const uint8_t *block = at + k * a->stream_stride_bytes;
            rdg_kquant_avx512 u;
            rdg_q8_prefetch_avx512(block, block_bytes, n_streams);
            rdg_kquant_unpack_avx512(block, c, type, &u);
            for (int t = 0; t < n_tokens; t++)
                rdg_kquant_multiply_avx512(&u, a->x[first_token + t] + s, type, &acc[k + t], &min[k + t]);
        }
    for (int i = 0; i < n_streams * n_tokens; i++)
        a->sums[(first_token + i) * a->sums_stride + row] =
            _mm512_reduce_add_ps(_mm512_sub_ps(acc[i], _mm512_zextps128_ps512(min[i])));
}

#endif
