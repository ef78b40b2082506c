#include "profile/roofs_cpu_kernels.h"
#include "base/cpu.h"

#include <immintrin.h>

/* As in roofs_cpu_avx512.c: one cache line of each stream a step. */
RDG_INLINE uint64_t read_piece(const void *a, int streams, int ahead)
{
    const char *p = a;
    const size_t part = RDG_ROOF_PIECE_BYTES / (size_t)streams;
    __m256i sum[8];
    uint64_t lane[4];
    for (int i = 0; i < 8; i++) sum[i] = _mm256_setzero_si256();
    for (size_t at = 0; at < part; at += 64)
        for (int s = 0; s < streams; s++) {
            const char *q = p + (size_t)s * part + at;
            if (ahead) _mm_prefetch(q + ahead, _MM_HINT_T0);
            sum[2 * s] = _mm256_add_epi64(sum[2 * s], _mm256_load_si256((const __m256i *)(const void *)q));
            sum[2 * s + 1] =
                _mm256_add_epi64(sum[2 * s + 1], _mm256_load_si256((const __m256i *)(const void *)(q + 32)));
        }
    for (int i = 1; i < 8; i++) sum[0] = _mm256_add_epi64(sum[0], sum[i]);
    _mm256_storeu_si256((__m256i *)(void *)lane, sum[0]);
    return lane[0] + lane[1] + lane[2] + lane[3];
}

static uint64_t read_1(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 1, 0);
}
static uint64_t read_4(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 4, 0);
}
static uint64_t read_1_ahead_1k(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 1, 1024);
}

static uint64_t write_stream(void *a, const void *b, const void *c, int64_t n)
{
    const __m256i v = _mm256_set1_epi32(0x3f800000);
    (void)b, (void)c, (void)n;
    for (size_t at = 0; at < RDG_ROOF_PIECE_BYTES; at += 32)
        _mm256_stream_si256((__m256i *)(void *)((char *)a + at), v);
    _mm_sfence();
    return 0;
}

static uint64_t copy_stream(void *a, const void *b, const void *c, int64_t n)
{
    (void)c, (void)n;
    for (size_t at = 0; at < RDG_ROOF_PIECE_BYTES; at += 128) {
        __m256i v[4];
        for (int i = 0; i < 4; i++)
            v[i] = _mm256_load_si256((const __m256i *)(const void *)((const char *)b + at + 32 * i));
        for (int i = 0; i < 4; i++) _mm256_stream_si256((__m256i *)(void *)((char *)a + at + 32 * i), v[i]);
    }
    _mm_sfence();
    return 0;
}

static uint64_t triad_stream(void *a, const void *b, const void *c, int64_t n)
{
    const __m256 s = _mm256_set1_ps(3.0f);
    const float *x = b, *y = c;
    float *o = a;
    (void)n;
    for (size_t i = 0; i < RDG_ROOF_PIECE_BYTES / sizeof *o; i += 8)
        _mm256_stream_ps(o + i, _mm256_fmadd_ps(s, _mm256_load_ps(y + i), _mm256_load_ps(x + i)));
    _mm_sfence();
    return 0;
}

enum { CHAINS = 12, STEPS = 64 };

static uint64_t fma_f32(void *a, const void *b, const void *c, int64_t n)
{
    __m256 x[CHAINS];
    const __m256 m = _mm256_set1_ps(0.999f), k = _mm256_set1_ps(0.001f);
    float lane[8];
    (void)a, (void)b, (void)c;
    for (int i = 0; i < CHAINS; i++) x[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < n; r++)
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < CHAINS; i++) x[i] = _mm256_fmadd_ps(x[i], m, k);
    for (int i = 1; i < CHAINS; i++) x[0] = _mm256_add_ps(x[0], x[i]);
    _mm256_storeu_ps(lane, x[0]);
    return (uint64_t)(int64_t)lane[0];
}

/* Multiply unsigned by signed bytes, add neighbours twice, accumulate: three instructions for 32 products.
 * The empty asm keeps the compiler from seeing that every round computes the same products. */
static uint64_t dot_int8(void *a, const void *b, const void *c, int64_t n)
{
    __m256i x[8], u = _mm256_set1_epi8(3), s = _mm256_set1_epi8(-2);
    const __m256i ones = _mm256_set1_epi16(1);
    int32_t lane[8];
    (void)a, (void)b, (void)c;
    for (int i = 0; i < 8; i++) x[i] = _mm256_set1_epi32(i);
    for (int64_t r = 0; r < n; r++)
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < 8; i++) {
                __asm__ volatile("" : "+x"(u));
                x[i] = _mm256_add_epi32(x[i], _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), ones));
            }
    for (int i = 1; i < 8; i++) x[0] = _mm256_add_epi32(x[0], x[i]);
    _mm256_storeu_si256((__m256i *)(void *)lane, x[0]);
    return (uint64_t)(int64_t)lane[0];
}

const rdg_roof_kernel rdg_roof_kernels_avx2[] = {
    {"avx2, 1 stream", RDG_ROOF_READ, RDG_CPU_AVX2, read_1, 0},
    {"avx2, 4 streams", RDG_ROOF_READ, RDG_CPU_AVX2, read_4, 0},
    {"avx2, 1 stream, prefetch 1 KiB", RDG_ROOF_READ, RDG_CPU_AVX2, read_1_ahead_1k, 0},
    {"avx2, non-temporal", RDG_ROOF_WRITE, RDG_CPU_AVX2, write_stream, 0},
    {"avx2, non-temporal", RDG_ROOF_COPY, RDG_CPU_AVX2, copy_stream, 0},
    {"avx2, non-temporal", RDG_ROOF_TRIAD, RDG_CPU_AVX2, triad_stream, 0},
    {"avx2 fma", RDG_ROOF_FP32, RDG_CPU_AVX2, fma_f32, 2.0 * 8 * CHAINS *STEPS},
    {"avx2 maddubs", RDG_ROOF_INT8, RDG_CPU_AVX2, dot_int8, 2.0 * 32 * 8 * STEPS},
    {0},
};
