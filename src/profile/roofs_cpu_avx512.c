#include "profile/roofs_cpu_kernels.h"
#include "base/cpu.h"

#include <immintrin.h>

/* `streams` places of the piece are read in turn, two cache lines of each a step. Hardware prefetchers follow
 * each stream; `ahead` > 0 adds a software prefetch that many bytes in front. */
RDG_INLINE uint64_t read_piece(const void *a, int streams, int ahead)
{
    const char *p = a;
    const size_t part = RDG_ROOF_PIECE_BYTES / (size_t)streams;
    __m512i sum[16];
    for (int i = 0; i < 16; i++) sum[i] = _mm512_setzero_si512();
    for (size_t at = 0; at < part; at += 128)
        for (int s = 0; s < streams; s++) {
            const char *q = p + (size_t)s * part + at;
            if (ahead) {
                _mm_prefetch(q + ahead, _MM_HINT_T0);
                _mm_prefetch(q + ahead + 64, _MM_HINT_T0);
            }
            sum[2 * s] = _mm512_add_epi64(sum[2 * s], _mm512_load_si512(q));
            sum[2 * s + 1] = _mm512_add_epi64(sum[2 * s + 1], _mm512_load_si512(q + 64));
        }
    for (int i = 1; i < 16; i++) sum[0] = _mm512_add_epi64(sum[0], sum[i]);
    return (uint64_t)_mm512_reduce_add_epi64(sum[0]);
}

static uint64_t read_1(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 1, 0);
}
static uint64_t read_2(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 2, 0);
}
static uint64_t read_4(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 4, 0);
}
static uint64_t read_8(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 8, 0);
}
static uint64_t read_1_ahead_1k(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 1, 1024);
}
static uint64_t read_1_ahead_4k(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 1, 4096);
}
static uint64_t read_4_ahead_1k(void *a, const void *b, const void *c, int64_t n)
{
    (void)b, (void)c, (void)n;
    return read_piece(a, 4, 1024);
}

static uint64_t write_stream(void *a, const void *b, const void *c, int64_t n)
{
    const __m512i v = _mm512_set1_epi32(0x3f800000);
    (void)b, (void)c, (void)n;
    for (size_t at = 0; at < RDG_ROOF_PIECE_BYTES; at += 64)
        _mm512_stream_si512((__m512i *)(void *)((char *)a + at), v);
    _mm_sfence();
    return 0;
}

static uint64_t write_cached(void *a, const void *b, const void *c, int64_t n)
{
    const __m512i v = _mm512_set1_epi32(0x3f800000);
    (void)b, (void)c, (void)n;
    for (size_t at = 0; at < RDG_ROOF_PIECE_BYTES; at += 64) _mm512_store_si512((char *)a + at, v);
    return 0;
}

static uint64_t copy_stream(void *a, const void *b, const void *c, int64_t n)
{
    (void)c, (void)n;
    for (size_t at = 0; at < RDG_ROOF_PIECE_BYTES; at += 256) {
        __m512i v[4];
        for (int i = 0; i < 4; i++) v[i] = _mm512_load_si512((const char *)b + at + 64 * i);
        for (int i = 0; i < 4; i++) _mm512_stream_si512((__m512i *)(void *)((char *)a + at + 64 * i), v[i]);
    }
    _mm_sfence();
    return 0;
}

static uint64_t triad_stream(void *a, const void *b, const void *c, int64_t n)
{
    const __m512 s = _mm512_set1_ps(3.0f);
    (void)n;
    for (size_t at = 0; at < RDG_ROOF_PIECE_BYTES; at += 128)
        for (int i = 0; i < 2; i++) {
            size_t k = at + 64 * (size_t)i;
            __m512 v =
                _mm512_fmadd_ps(s, _mm512_load_ps((const char *)c + k), _mm512_load_ps((const char *)b + k));
            _mm512_stream_ps((float *)(void *)((char *)a + k), v);
        }
    _mm_sfence();
    return 0;
}

enum {
    CHAINS = 16,
    STEPS = 64
}; /* more chains than latency times units, and registers are left for constants */

static uint64_t fma_f32(void *a, const void *b, const void *c, int64_t n)
{
    __m512 x[CHAINS];
    const __m512 m = _mm512_set1_ps(0.999f), k = _mm512_set1_ps(0.001f);
    (void)a, (void)b, (void)c;
    for (int i = 0; i < CHAINS; i++) x[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < n; r++)
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < CHAINS; i++) x[i] = _mm512_fmadd_ps(x[i], m, k);
    for (int i = 1; i < CHAINS; i++) x[0] = _mm512_add_ps(x[0], x[i]);
    return (uint64_t)(int64_t)_mm512_reduce_add_ps(x[0]);
}

static uint64_t dot_int8(void *a, const void *b, const void *c, int64_t n)
{
    __m512i x[CHAINS], u = _mm512_set1_epi8(3), s = _mm512_set1_epi8(-2);
    (void)a, (void)b, (void)c;
    for (int i = 0; i < CHAINS; i++) x[i] = _mm512_set1_epi32(i);
    for (int64_t r = 0; r < n; r++)
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < CHAINS; i++) x[i] = _mm512_dpbusd_epi32(x[i], u, s);
    for (int i = 1; i < CHAINS; i++) x[0] = _mm512_add_epi32(x[0], x[i]);
    return (uint64_t)(int64_t)_mm512_reduce_add_epi32(x[0]);
}

const rdg_roof_kernel rdg_roof_kernels_avx512[] = {
    {"avx512, 1 stream", RDG_ROOF_READ, RDG_CPU_AVX512, read_1, 0},
    {"avx512, 2 streams", RDG_ROOF_READ, RDG_CPU_AVX512, read_2, 0},
    {"avx512, 4 streams", RDG_ROOF_READ, RDG_CPU_AVX512, read_4, 0},
    {"avx512, 8 streams", RDG_ROOF_READ, RDG_CPU_AVX512, read_8, 0},
    {"avx512, 1 stream, prefetch 1 KiB", RDG_ROOF_READ, RDG_CPU_AVX512, read_1_ahead_1k, 0},
    {"avx512, 1 stream, prefetch 4 KiB", RDG_ROOF_READ, RDG_CPU_AVX512, read_1_ahead_4k, 0},
    {"avx512, 4 streams, prefetch 1 KiB", RDG_ROOF_READ, RDG_CPU_AVX512, read_4_ahead_1k, 0},
    {"avx512, non-temporal", RDG_ROOF_WRITE, RDG_CPU_AVX512, write_stream, 0},
    {"avx512, cached", RDG_ROOF_WRITE, RDG_CPU_AVX512, write_cached, 0},
    {"avx512, non-temporal", RDG_ROOF_COPY, RDG_CPU_AVX512, copy_stream, 0},
    {"avx512, non-temporal", RDG_ROOF_TRIAD, RDG_CPU_AVX512, triad_stream, 0},
    {"avx512 fma", RDG_ROOF_FP32, RDG_CPU_AVX512, fma_f32, 2.0 * 16 * CHAINS *STEPS},
    {"avx512 vnni", RDG_ROOF_INT8, RDG_CPU_AVX512, dot_int8, 2.0 * 64 * CHAINS *STEPS},
    {0},
};
