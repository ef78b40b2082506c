/* The row decoders against one formula per element, written from the format's definition over raw bytes:
 * other structure, other half decoder, no block structs. Thousands of random blocks a type, every bit must
 * agree. */
#include <ridge/quantize.h>
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static float half_at(const uint8_t *b, int k)
{
    int bits = b[k] + 256 * b[k + 1], exp = (bits >> 10) % 32, man = bits % 1024;
    double v;
    if (exp == 31)
        v = man ? NAN : INFINITY;
    else
        v = exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24);
    return (float)(bits >> 15 ? -v : v);
}

static int nibble(const uint8_t *b, int i) /* the order of all 32-element formats */
{
    return i < 16 ? b[i] & 15 : b[i - 16] >> 4;
}

static int fifth(const uint8_t *qh, int i)
{
    return (qh[i / 8] >> (i % 8)) & 1;
}

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static int scale6(const uint8_t *s, int j)
{
    return j < 4 ? s[j] & 63 : (s[j + 4] & 15) + 16 * (s[j - 4] >> 6);
}

static int min6(const uint8_t *s, int j)
{
    return j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) + 16 * (s[j] >> 6);
}

static float el_f32(const uint8_t *b, int i)
{
    float f;
    (void)i;
    memcpy(&f, b, 4);
    return f;
}
static float el_f16(const uint8_t *b, int i)
{
    return half_at(b, 2 * i);
}
static float el_bf16(const uint8_t *b, int i)
{
    uint8_t w[4] = {0, 0, b[2 * i], b[2 * i + 1]};
    return el_f32(w, 0);
}
static float el_q4_0(const uint8_t *b, int i)
{
    return half_at(b, 0) * (float)(nibble(b + 2, i) - 8);
}
static float el_q4_1(const uint8_t *b, int i)
{
    float p = half_at(b, 0) * (float)nibble(b + 4, i);
    return p + half_at(b, 2);
}
static float el_q5_0(const uint8_t *b, int i)
{
    return half_at(b, 0) * (float)(nibble(b + 6, i) + 16 * fifth(b + 2, i) - 16);
}
static float el_q5_1(const uint8_t *b, int i)
{
    float p = half_at(b, 0) * (float)(nibble(b + 8, i) + 16 * fifth(b + 4, i));
    return p + half_at(b, 2);
}
static float el_q8_0(const uint8_t *b, int i)
{
    return half_at(b, 0) * (float)(int8_t)b[2 + i];
}
static float el_q8_1(const uint8_t *b, int i)
{
    return half_at(b, 0) * (float)(int8_t)b[4 + i];
}
static float el_q8_k(const uint8_t *b, int i)
{
    return el_f32(b, 0) * (float)(int8_t)b[4 + i];
}
static float el_iq4_nl(const uint8_t *b, int i)
{
    return half_at(b, 0) * (float)iq4[nibble(b + 2, i)];
}
static float el_mxfp4(const uint8_t *b, int i)
{
    return (float)ldexp(1, b[0] - 128) * (float)fp4[nibble(b + 1, i)];
}
static float el_nvfp4(const uint8_t *b, int i)
{
    int s = i / 16, r = i % 16, x = b[s], e = (x >> 3) & 15, m = x & 7, byte = b[4 + 8 * s + r % 8];
    double u = x == 0 || x == 0x7f ? 0 : e == 0 ? ldexp(m, -10) : ldexp(8 + m, e - 11);
    return (float)u * (float)fp4[r < 8 ? byte & 15 : byte >> 4];
}
static float el_q1_0(const uint8_t *b, int i)
{
    float d = half_at(b, 0);
    return (b[2 + i / 8] >> (i % 8)) & 1 ? d : -d;
}
static float el_q2_0(const uint8_t *b, int i)
{
    return half_at(b, 0) * (float)(((b[2 + i / 4] >> (2 * (i % 4))) & 3) - 1);
}
static int two_bits(const uint8_t *qs, int i)
{
    return (qs[32 * (i / 128) + i % 32] >> (2 * ((i % 128) / 32))) & 3;
}
static float el_q2_k(const uint8_t *b, int i)
{
    int j = i / 16;
    float scale = half_at(b, 80) * (float)(b[j] & 15), min = half_at(b, 82) * (float)(b[j] >> 4);
    float p = scale * (float)two_bits(b + 16, i);
    return p - min;
}
static float el_q3_k(const uint8_t *b, int i)
{
    int j = i / 16, h = (b[i % 32] >> (i / 32)) & 1;
    const uint8_t *s = b + 96;
    int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4, high = (s[8 + j % 4] >> (2 * (j / 4))) & 3;
    float scale = half_at(b, 108) * (float)(low + 16 * high - 32);
    return scale * (float)(two_bits(b + 32, i) + 4 * h - 4);
}
static float el_q45_k(const uint8_t *b, const uint8_t *qs, int extra, int i)
{
    int j = i / 32, byte = qs[32 * (i / 64) + i % 32], q = (i % 64 < 32 ? byte & 15 : byte >> 4) + extra;
    float scale = half_at(b, 0) * (float)scale6(b + 4, j), min = half_at(b, 2) * (float)min6(b + 4, j);
    float p = scale * (float)q;
    return p - min;
}
static float el_q4_k(const uint8_t *b, int i)
{
    return el_q45_k(b, b + 16, 0, i);
}
static float el_q5_k(const uint8_t *b, int i)
{
    return el_q45_k(b, b + 48, 16 * ((b[16 + i % 32] >> (i / 32)) & 1), i);
}
static float el_q6_k(const uint8_t *b, int i)
{
    int n = i / 128, g = (i % 128) / 32, l = i % 32, byte = b[64 * n + 32 * (g & 1) + l];
    int q = (g < 2 ? byte & 15 : byte >> 4) + 16 * ((b[128 + 32 * n + l] >> (2 * g)) & 3);
    float scale = half_at(b, 208) * (float)(int8_t)b[192 + i / 16];
    return scale * (float)(q - 32);
}
static float el_iq4_xs(const uint8_t *b, int i)
{
    int j = i / 32, high = b[2] + 256 * b[3], byte = b[8 + 16 * j + i % 16];
    int ls = ((b[4 + j / 2] >> (4 * (j % 2))) & 15) + 16 * ((high >> (2 * j)) & 3);
    float scale = half_at(b, 0) * (float)(ls - 32);
    return scale * (float)iq4[i % 32 < 16 ? byte & 15 : byte >> 4];
}
static float el_tq2_0(const uint8_t *b, int i)
{
    return half_at(b, 64) * (float)(two_bits(b, i) - 1);
}
static float el_tq1_0(const uint8_t *b, int i)
{
    int byte, n;
    if (i < 160)
        byte = b[i % 32], n = i / 32;
    else if (i < 240)
        byte = b[32 + (i - 160) % 16], n = (i - 160) / 16;
    else
        byte = b[48 + (i - 240) % 4], n = (i - 240) / 4;
    for (; n > 0; n--) byte = byte * 3 % 256;
    return half_at(b, 52) * (float)((byte * 3 >> 8) - 1);
}

static const struct {
    rdg_type type;
    float (*element)(const uint8_t *block, int i);
} types[] = {
    {RDG_TYPE_F32, el_f32},       {RDG_TYPE_F16, el_f16},       {RDG_TYPE_BF16, el_bf16},
    {RDG_TYPE_Q4_0, el_q4_0},     {RDG_TYPE_Q4_1, el_q4_1},     {RDG_TYPE_Q5_0, el_q5_0},
    {RDG_TYPE_Q5_1, el_q5_1},     {RDG_TYPE_Q8_0, el_q8_0},     {RDG_TYPE_Q8_1, el_q8_1},
    {RDG_TYPE_Q2_K, el_q2_k},     {RDG_TYPE_Q3_K, el_q3_k},     {RDG_TYPE_Q4_K, el_q4_k},
    {RDG_TYPE_Q5_K, el_q5_k},     {RDG_TYPE_Q6_K, el_q6_k},     {RDG_TYPE_Q8_K, el_q8_k},
    {RDG_TYPE_IQ4_NL, el_iq4_nl}, {RDG_TYPE_IQ4_XS, el_iq4_xs}, {RDG_TYPE_MXFP4, el_mxfp4},
    {RDG_TYPE_NVFP4, el_nvfp4},   {RDG_TYPE_Q1_0, el_q1_0},     {RDG_TYPE_Q2_0, el_q2_0},
    {RDG_TYPE_TQ1_0, el_tq1_0},   {RDG_TYPE_TQ2_0, el_tq2_0},
};

static bool same_bits(float a, float b)
{
    return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a);
}

enum { N_ROWS = 250, BLOCKS_A_ROW = 16 }; /* 4,000 blocks */

static void every_element_of_every_type(void **state)
{
    rdg_rng rng;
    uint64_t seed = (uint64_t)time(NULL);
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    rdg_rng_seed(&rng, seed);
    for (int t = 0; t < RDG_COUNTOF(types); t++) {
        int64_t elems = rdg_type_block_elems(types[t].type), bytes = rdg_type_block_bytes(types[t].type);
        int64_t n_columns = BLOCKS_A_ROW * elems, total = N_ROWS * BLOCKS_A_ROW * bytes;
        /* one byte into an allocation: the blocks are not aligned */
        uint8_t *memory = rdg_alloc((size_t)total + 1), *src = memory + 1;
        float *dst = rdg_alloc_array((size_t)(N_ROWS * n_columns) + 1, sizeof *dst);
        assert_non_null(memory);
        assert_non_null(dst);
        for (int64_t i = 0; i < total; i++) src[i] = (uint8_t)rdg_rng_next(&rng);
        dst[N_ROWS * n_columns] = 1234.5f;
        assert_int_equal(rdg_dequantise_rows(types[t].type, src, dst, N_ROWS, n_columns, NULL), RDG_OK);
        assert_true(dst[N_ROWS * n_columns] == 1234.5f);
        for (int64_t i = 0; i < N_ROWS * n_columns; i++) {
            float expected = types[t].element(src + i / elems * bytes, (int)(i % elems));
            if (!same_bits(dst[i], expected))
                fail_msg("%s block %lld element %lld: got %.9g, expected %.9g", rdg_type_name(types[t].type),
                         (long long)(i / elems), (long long)(i % elems), dst[i], expected);
        }
        rdg_free(memory);
        rdg_free(dst);
    }
}

static void refuses_what_it_cannot_read(void **state)
{
    uint8_t block[512] = {0};
    float out[256];
    rdg_error e = {0};
    (void)state;
    assert_int_equal(rdg_dequantise_rows(RDG_TYPE_IQ2_XXS, block, out, 1, 256, &e), RDG_E_UNSUPPORTED);
    assert_int_equal(rdg_dequantise_rows((rdg_type)4, block, out, 1, 256, &e), RDG_E_UNSUPPORTED);
    assert_int_equal(rdg_dequantise_rows((rdg_type)-1, block, out, 1, 256, &e), RDG_E_UNSUPPORTED);
    assert_int_equal(rdg_dequantise_rows(RDG_TYPE_Q4_K, block, out, 1, 255, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "255"));
    assert_int_equal(rdg_dequantise_rows(RDG_TYPE_Q4_K, block, out, -1, 256, &e), RDG_E_ARGUMENT);
    assert_int_equal(rdg_dequantise_rows(RDG_TYPE_Q4_K, block, out, 0, 256, &e), RDG_OK);
}

static void table_is_complete(void **state)
{
    int n = 0;
    (void)state;
    for (int t = 0; t < RDG_TYPE_COUNT; t++) n += rdg_type_can_dequantise((rdg_type)t);
    assert_int_equal(n, RDG_COUNTOF(types));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_of_every_type),
        cmocka_unit_test(refuses_what_it_cannot_read),
        cmocka_unit_test(table_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
