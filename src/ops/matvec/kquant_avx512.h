/* Dot products of Q4_K, Q5_K and Q6_K with integer sub-block scales, for AVX-512 VNNI.
 *
 * These formats are what a decode step reads most of, and their sub-block scales are integers: so a block
 * needs one conversion to float instead of one for each quarter. No sum can leave its integers, whatever the
 * file holds: bytes are multiplied to pairs in 16 bits (at most 2 x 63 x 128), pairs times scales are summed
 * in 32 bits (at most 256 x 63 x 128 x 128, and what Q6_K takes away, 2 x 32 x 2048 x 128). About 45
 * instructions for 256 weights where the general loop (q8_avx512.c) takes 61. */
#ifndef RDG_OPS_MATVEC_KQUANT_AVX512_H
#define RDG_OPS_MATVEC_KQUANT_AVX512_H

#include "ops/matvec/unpack_avx512.h"
#include "ops/matvec/q8.h"

/* What a stream will need next. The hardware follows a stream within a page; several streams it follows
 * better than one, and they need less reach. A weight is used once a token: with streams it goes past the
 * second-level cache. Past the end of the weights a prefetch does nothing. */
RDG_INLINE void rdg_q8_prefetch_avx512(const uint8_t *p, int bytes, int n_streams)
{
    for (int k = 0; k < bytes; k += 64)
        if (n_streams > 1)
            _mm_prefetch((const char *)p + 3072 + k, _MM_HINT_NTA);
        else
            _mm_prefetch((const char *)p + 4096 + k, _MM_HINT_T0);
}

/* One block: four registers of weights, the scale of each 16-bit pair of them, and what the minima multiply.
 */
typedef struct rdg_kquant_avx512 {
    __m512i q[4], scale[4];
    __m128i min; /* eight 16-bit minima (Q4_K, Q5_K) */
    __m256i sub; /* sixteen 16-bit scales (Q6_K) */
    __m128 d;    /* d, and dmin if there is one */
} rdg_kquant_avx512;

/* What every block needs. Made once for many rows and opaque to the compiler, which would otherwise build
 * them anew for each row: thirty instructions, as many as five blocks' worth of loads. */
typedef struct rdg_kquant_constants_avx512 {
    __m512i at[4], low;
} rdg_kquant_constants_avx512;

RDG_INLINE __m512i rdg_opaque_avx512(__m512i v)
{
    __asm__("" : "+v"(v));
    return v;
}

RDG_INLINE rdg_kquant_constants_avx512 rdg_kquant_make_avx512(const rdg_type type)
{
    rdg_kquant_constants_avx512 c = {.low = rdg_opaque_avx512(_mm512_set1_epi8(15))};
    for (int p = 0; p < 4; p++) {
        int first = p / 2 * 4 + p % 2; /* sub-blocks first and first + 2, see rdg_q8_block.pair */
        __m512i pair =
            _mm512_inserti64x4(_mm512_set1_epi16((short)first), _mm256_set1_epi16((short)(first + 2)), 1);
        __m512i four = _mm512_cvtepi8_epi16(_mm256_set_epi64x(0x0303030303030303LL, 0x0202020202020202LL,
                                                              0x0101010101010101LL, 0)); /* of 16 */
        four = _mm512_add_epi16(four, _mm512_set1_epi16((short)(4 * p)));
        c.at[p] = rdg_opaque_avx512(type == RDG_TYPE_Q6_K ? four : pair);
    }
    return c;
}

/* d, dmin, scales and minima of Q4_K and Q5_K. */
RDG_INLINE void rdg_kquant_scales_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                         rdg_kquant_avx512 *u)
{
    const __mmask64 even = UINT64_C(0x5555555555555555);
    __m128i head = _mm_loadu_si128((const __m128i *)(const void *)src), s = rdg_scale_min_bytes_avx512(head);
    u->d = _mm_cvtph_ps(head);
    u->min = _mm_unpackhi_epi8(s, _mm_setzero_si128());
    for (int p = 0; p < 4; p++)
        u->scale[p] = _mm512_maskz_permutexvar_epi8(even, c->at[p], _mm512_castsi128_si512(s));
}

RDG_INLINE void rdg_kquant_q4_k_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                       rdg_kquant_avx512 *u)
{
    for (int n = 0; n < 2; n++) {
        __m512i b = _mm512_loadu_si512(src + 16 + 64 * n);
        u->q[2 * n] = _mm512_and_si512(b, c->low);
        u->q[2 * n + 1] = _mm512_and_si512(_mm512_srli_epi16(b, 4), c->low);
    }
    rdg_kquant_scales_avx512(src, c, u);
}

RDG_INLINE void rdg_kquant_q5_k_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                       rdg_kquant_avx512 *u)
{
    const __m512i fifth = _mm512_set1_epi8(16);
    __m512i qh = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(src + 16)));
    for (int n = 0; n < 2; n++) {
        __m512i b = _mm512_loadu_si512(src + 48 + 64 * n);
        for (int k = 0; k < 2; k++) { /* sub-blocks 4 n + k and 4 n + k + 2: bits of those numbers */
            __m512i bit = _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << (4 * n + k))),
                                             _mm256_set1_epi8((char)(1 << (4 * n + k + 2))), 1);
            __m512i q = _mm512_and_si512(k ? _mm512_srli_epi16(b, 4) : b, c->low);
            u->q[2 * n + k] = _mm512_mask_add_epi8(q, _mm512_test_epi8_mask(qh, bit), q, fifth);
        }
    }
    rdg_kquant_scales_avx512(src, c, u);
}

RDG_INLINE void rdg_kquant_q6_k_avx512(const uint8_t *src, const rdg_kquant_constants_avx512 *c,
                                       rdg_kquant_avx512 *u)
{
    uint16_t h;
    rdg_q6_k_bytes_avx512(src, u->q);
    u->sub = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(src + 192)));
    for (int p = 0; p < 4; p++)
        u->scale[p] = _mm512_permutexvar_epi16(c->at[p], _mm512_castsi256_si512(u->sub));
    memcpy(&h, src + 208, 2);
    u->d = _mm_cvtph_ps(_mm_cvtsi32_si128(h));
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
    __m128 d = _mm_mul_ps(u->d, _mm_set1_ps(b->scale[0]));
    __m512i sum = _mm512_madd_epi16(_mm512_maddubs_epi16(u->q[0], _mm512_load_si512(q)), u->scale[0]);
    for (int p = 1; p < 4; p++)
        sum = _mm512_dpwssd_epi32(sum, _mm512_maddubs_epi16(u->q[p], _mm512_load_si512(q + 64 * p)),
                                  u->scale[p]);
    if (q6) { /* w = scale (q - 32) */
        __m256i m = _mm256_madd_epi16(u->sub, _mm256_load_si256((const __m256i *)(const void *)b->sum16));
        sum = _mm512_sub_epi32(sum, _mm512_zextsi256_si512(_mm256_slli_epi32(m, 5)));
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
