/* matvec of block formats with AVX-512 VNNI: unpack 256 weights to four registers, multiply with the 8-bit
 * activations of one to four tokens, scale in f32. For one token a thread reads four streams of rows: a core
 * gets more from memory that way than from one. */
#include "ops/matvec/matvec_variants.h"
#include "ops/experts/experts_variants.h"
#include "ops/matvec/q8.h"
#include "ops/matvec/unpack_avx512.h"
#include "ops/matvec/kquant_avx512.h"
#include "base/mem.h"

/* The sums of quarter p lie in lanes of four elements: the sub-block of each lane, for sub-blocks of 16
 * or 32. */
RDG_INLINE __m512i spread_index(int p, int sub_elems)
{
    if (sub_elems == 32)
        return _mm512_add_epi32(_mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
                                _mm512_set1_epi32(2 * p));
    return _mm512_add_epi32(_mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0),
                            _mm512_set1_epi32(4 * p));
}

/* The general loop, for the formats that are not in kquant_avx512.h; arguments as there. The order of the
 * sums depends on n_columns alone. */
RDG_INLINE void dot_general(const rdg_q8_dot_args *a, int64_t row, int n_streams, int first_token,
                            int n_tokens, const rdg_block_format_avx512 f)
{
    const bool fine = f.block_elems == 32; /* a scale for each 32 activations */
    const int per_step = RDG_Q8_ELEMS / f.block_elems, step_bytes = per_step * f.block_bytes;
    const uint8_t *at = (const uint8_t *)a->rows + row * a->row_stride_bytes;
    int64_t n_blocks = a->n_columns / f.block_elems, n_steps = rdg_div_up(n_blocks, per_step);
    __m512 acc[4];
    for (int i = 0; i < n_streams * n_tokens; i++) acc[i] = _mm512_setzero_ps();
    for (int64_t s = 0; s < n_steps; s++, at += step_bytes)
        for (int k = 0; k < n_streams; k++) {
            rdg_unpacked_avx512 u;
            __m512 scale[4];
            rdg_q8_prefetch_avx512(at + k * a->stream_stride_bytes, step_bytes, n_streams);
            f.unpack(at + k * a->stream_stride_bytes, (int)RDG_MIN(per_step, n_blocks - s * per_step), &u);
            for (int p = 0; p < 4; p++)
                scale[p] = _mm512_permutexvar_ps(spread_index(p, f.sub_elems), u.scale);
            for (int t = 0; t < n_tokens; t++) {
                const rdg_q8_block *b = a->x[first_token + t] + s;
                __m512 min = u.min, *sum = &acc[k + t];
                if (fine) { /* 8 scales, 8 minima */
                    min = _mm512_mul_ps(u.min, _mm512_load_ps(b->scale));
                    for (int p = 0; p < 4; p++) scale[p] = _mm512_permutexvar_ps(spread_index(p, 32), min);
                }
                __m512 part = _mm512_mul_ps(min, _mm512_load_ps(f.sub_elems == 32 ? b->sum32 : b->sum));
                for (int p = 0; p < 4; p++) {
                    __m512 dot = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), u.q[p],
                                                                        _mm512_load_si512(b->q + 64 * p)));
                    part = p ? _mm512_fmadd_ps(dot, scale[p], part) : _mm512_fmsub_ps(dot, scale[p], part);
                }
                *sum = fine ? _mm512_add_ps(*sum, part)
                            : _mm512_fmadd_ps(part, _mm512_set1_ps(b->scale[0]), *sum);
            }
        }
    for (int i = 0; i < n_streams * n_tokens; i++)
        a->sums[(first_token + i) * a->sums_stride + row] = _mm512_reduce_add_ps(acc[i]);
}

/* All rows; every argument but the first two is a constant where it is called. */
RDG_INLINE void dot_part(const rdg_q8_dot_args *a, int first_token, int n_streams, int n_tokens,
                         const rdg_type type)
{
    const bool kquant = type == RDG_TYPE_Q4_K || type == RDG_TYPE_Q5_K || type == RDG_TYPE_Q6_K;
    const rdg_kquant_constants_avx512 c = rdg_kquant_make_avx512(type);
    for (int64_t r = 0; r < a->n_rows; r++)
        if (kquant)
            rdg_kquant_dot_avx512(a, r, n_streams, first_token, n_tokens, &c, type);
        else
            dot_general(a, r, n_streams, first_token, n_tokens, rdg_block_formats_avx512[type]);
}

/* More than four tokens: the rows of an item are in L1 or L2 when they are unpacked the second time. */
RDG_INLINE void dot_rows(const rdg_q8_dot_args *a, const rdg_type type)
{
    int t = 0;
    if (a->n_streams > 1) {
        dot_part(a, 0, RDG_Q8_STREAMS, 1, type);
        return;
    }
    for (; t + 4 <= a->n_tokens; t += 4) dot_part(a, t, 1, 4, type);
    for (; t + 2 <= a->n_tokens; t += 2) dot_part(a, t, 1, 2, type);
    for (; t < a->n_tokens; t++) dot_part(a, t, 1, 1, type);
}

#include "ops/matvec/q8_dots.h"

/* The sums of a block, of each 16 and each 32 of its q. */
RDG_INLINE void quantised_sums(rdg_q8_block *out)
{
    const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                  even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i sums = _mm512_setzero_si512(); /* of sub-block 4 p + lane in element p of each lane */
    for (int p = 0; p < 4; p++) {
        __m512i v = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1),
                                        _mm512_load_si512(out->q + 64 * p));
        v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
        v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
        sums = _mm512_mask_mov_epi32(sums, (__mmask16)(0x1111 << p), v);
    }
    sums = _mm512_permutexvar_epi32(in_order, sums);
    __m512i odd = _mm512_srli_epi64(sums, 32); /* beside the even ones */
    __m256i twos = _mm512_castsi512_si256(_mm512_permutexvar_epi32(even, _mm512_add_epi32(sums, odd)));
    _mm512_store_ps(out->sum, _mm512_cvtepi32_ps(sums));
    _mm256_store_ps(out->sum32, _mm256_setzero_ps());
    _mm256_store_ps(out->sum32 + 8, _mm256_cvtepi32_ps(twos));
    _mm256_store_si256((__m256i *)(void *)out->less16,
                       _mm512_cvtepi32_epi16(_mm512_sub_epi32(_mm512_setzero_si512(), sums)));
    _mm_store_si128((__m128i *)(void *)out->sum32w, _mm256_cvtepi32_epi16(twos));
}

/* |x| as an integer orders as the float does and puts NaN above infinity, so neither is lost. */
RDG_INLINE void quantise(const float *x, int64_t n_columns, rdg_q8_block *out, const int group)
{
    const int per_group = group / 16;
    for (int64_t c = 0; c < n_columns; c += RDG_Q8_ELEMS, x += RDG_Q8_ELEMS, out++) {
        int64_t left = n_columns - c;
        __m512 v[16];
        for (int i = 0; i < 16; i++) {
            int64_t n = left - 16 * i;
            __mmask16 m = n >= 16 ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
            v[i] = _mm512_maskz_loadu_ps(m, x + 16 * i);
        }
        for (int g = 0; g < 16; g += per_group) {
            __m512i top = _mm512_setzero_si512();
            for (int i = g; i < g + per_group; i++)
                top = _mm512_max_epu32(top, _mm512_castps_si512(_mm512_abs_ps(v[i])));
            float amax = rdg_f32_from_bits(_mm512_reduce_max_epu32(top));
            __m512 inverse = _mm512_set1_ps(amax > 0x1p-120f ? 127.0f / amax : 0.0f);
            float scale = amax > 0x1p-120f || !(amax == amax) ? amax / 127.0f : 0.0f;
            for (int i = g; i < g + per_group; i++) {
                /* NaN converts to the least integer: its scale is NaN too, but sums must not overflow */
                __m512i q = _mm512_max_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(v[i], inverse)),
                                             _mm512_set1_epi32(-128));
                __m128i bytes = _mm512_cvtsepi32_epi8(q);
                int sub = i / 2; /* and where the sub-block of 32 lies in pair */
                sub = (sub & 4) | (sub & 1) << 1 | (sub & 2) >> 1;
                _mm_store_si128((__m128i *)(void *)(out->q + 16 * i), bytes);
                _mm_store_si128((__m128i *)(void *)(out->pair + 32 * sub + 16 * (i & 1)), bytes);
                out->scale[i / 2] = out->scale[8 + i / 2] = scale;
            }
        }
        quantised_sums(out);
        out->scale256 = out->scale[0];
    }
}

void rdg_q8_quantise_avx512(const float *x, int64_t n_columns, int64_t group, rdg_q8_block *out)
{
    if (group == 32)
        quantise(x, n_columns, out, 32);
    else
        quantise(x, n_columns, out, RDG_Q8_ELEMS);
}

static const rdg_q8_isa isa = {rdg_q8_quantise_avx512, dots, RDG_Q8_STREAMS};

#include "ops/matvec/q8_kernels.h"

const rdg_variant rdg_matvec_q8_avx512 = {.name = "q8_avx512_vnni",
                                          .source = "src/ops/matvec/q8_avx512.c",
                                          .backend = RDG_BACKEND_CPU,
                                          .requires_mask = RDG_CPU_AVX512,
                                          .accepts = accepts_256,
                                          .cpu = &matvec_kernel,
                                          .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                          .rounding = RDG_ROUNDS_BY_BLOCK};
const rdg_variant rdg_matvec_q8x32_avx512 = {.name = "q8x32_avx512_vnni",
                                             .source = "src/ops/matvec/q8_avx512.c",
                                             .backend = RDG_BACKEND_CPU,
                                             .requires_mask = RDG_CPU_AVX512,
                                             .accepts = accepts_32,
                                             .cpu = &matvec_x32_kernel,
                                             .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                             .rounding = RDG_ROUNDS_BY_BLOCK};
const rdg_variant rdg_experts_q8_avx512 = {.name = "q8_avx512_vnni",
                                           .source = "src/ops/matvec/q8_avx512.c",
                                           .backend = RDG_BACKEND_CPU,
                                           .requires_mask = RDG_CPU_AVX512,
                                           .accepts = accepts_any,
                                           .cpu = &experts_kernel,
                                           .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                           .rounding = RDG_ROUNDS_BY_BLOCK};
