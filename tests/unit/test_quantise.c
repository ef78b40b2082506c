/* Row quantisers: known bytes made by tests/tools/quantise_vectors.py, plain C against the wide versions, and
 * what must hold for any input. */
#include <ridge/quantize.h>
#include "quant/quant.h"
#include "quant/search.h"
#include "base/compiler.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"

#include <jansson.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "format/verify.h"

static int64_t first_bad_block(rdg_type t, const void *blocks, int64_t n)
{
    int64_t first;
    rdg_blocks_not_finite(t, blocks, n, &first);
    return first;
}

static void from_hex(const char *hex, void *out, size_t bytes)
{
    unsigned char *p = out;
    assert_int_equal(strlen(hex), 2 * bytes);
    for (size_t i = 0; i < bytes; i++) {
        unsigned v;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
        p[i] = (unsigned char)v;
    }
}

static void row_from_json(json_t *array, json_int_t i, float *row)
{
    from_hex(json_string_value(json_object_get(json_array_get(array, (size_t)i), "f32")), row,
             256 * sizeof *row);
}

static void known_bytes(void **state)
{
    json_error_t error;
    json_t *doc = json_load_file(RIDGE_TEST_TREE "/data/quantise/vectors.json", 0, &error), *one;
    size_t n;
    (void)state;
    if (!doc) fail_msg("vectors.json: %s", error.text);
    json_t *inputs = json_object_get(doc, "inputs"), *importances = json_object_get(doc, "importances");
    assert_true(json_array_size(json_object_get(doc, "cases")) > 350);
    json_array_foreach(json_object_get(doc, "cases"), n, one)
    {
        const char *type_name = json_string_value(json_object_get(one, "type"));
        json_int_t input = json_integer_value(json_object_get(one, "input"));
        json_int_t k = json_integer_value(json_object_get(one, "importance"));
        float x[256], h[256];
        unsigned char expected[1024], got[1024], plain[1024];
        rdg_type t;
        assert_true(rdg_type_from_name(type_name, &t));
        size_t bytes = (size_t)rdg_type_row_bytes(t, 256);
        row_from_json(inputs, input, x);
        if (k >= 0) row_from_json(importances, k, h);
        from_hex(json_string_value(json_object_get(one, "bytes")), expected, bytes);
        assert_int_equal(rdg_quantise_rows(t, x, got, 1, 256, k >= 0 ? h : NULL, NULL), RDG_OK);
        rdg_quant_ops[t].quantise(&rdg_search_plain, x, plain, 256, k >= 0 ? h : NULL);
        assert_memory_equal(plain, got, bytes);
        for (size_t i = 0; i < bytes; i++)
            if (got[i] != expected[i])
                fail_msg("%s, input %d (%s), importance %d: byte %zu is %02x, expected %02x", type_name,
                         (int)input,
                         json_string_value(json_object_get(json_array_get(inputs, (size_t)input), "name")),
                         (int)k, i, got[i], expected[i]);
    }
    json_decref(doc);
}

static rdg_rng rng;

static void seed_rng(void)
{
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    rdg_rng_seed(&rng, seed);
}

enum { N_COLUMNS = 1024, N_STYLES = 7 };

/* Random rows of several kinds, so that every branch of the searches is taken. */
static void random_row(int style, float *x)
{
    float scale = expf(3.0f * rdg_rng_normal(&rng) - 4.0f);
    for (int i = 0; i < N_COLUMNS; i++) {
        float v = rdg_rng_normal(&rng);
        if (style == 1) v = v * v * v * v * v;
        if (style == 2) v = fabsf(v) + 0.3f;
        if (style == 3) v = -fabsf(v) - 1.0f;
        if (style == 4) v = rdg_rng_below(&rng, 9) ? 0.0f : v;
        if (style == 5) v = i / 32 % 3 ? 0.37f : 0.0f;
        if (style == 6) v = (float)rdg_rng_below(&rng, 16) - 8.0f; /* many exact ties */
        x[i] = style == 6 ? v : v * scale;
    }
}

static void random_importance(float *h)
{
    for (int i = 0; i < N_COLUMNS; i++)
        h[i] = rdg_rng_below(&rng, 10) ? expf(3.0f * rdg_rng_normal(&rng)) : 0.0f;
    int dead = (int)rdg_rng_below(&rng, N_COLUMNS / 256);
    for (int i = 256 * dead; i < 256 * dead + 64; i++) h[i] = 0.0f;
}

static void wide_search_gives_the_same_bytes(void **state)
{
    const rdg_search *best = rdg_search_best(rdg_cpu_features());
    static float x[N_COLUMNS], h[N_COLUMNS];
    (void)state;
    if (best == &rdg_search_plain) skip();
    seed_rng();
    for (int repeat = 0; repeat < 30; repeat++)
        for (int style = 0; style < N_STYLES; style++) {
            random_row(style, x);
            random_importance(h);
            for (int t = 0; t < RDG_TYPE_COUNT; t++)
                for (int weighted = 0; weighted < 2; weighted++) {
                    /* all lengths: whole groups of lanes, and groups with a tail */
                    int64_t elems = rdg_type_block_elems((rdg_type)t);
                    if (!rdg_type_can_quantise((rdg_type)t)) continue;
                    int64_t n = elems * (1 + (int64_t)rdg_rng_below(&rng, (uint64_t)(N_COLUMNS / elems)));
                    unsigned char a[4 * N_COLUMNS], b[4 * N_COLUMNS];
                    size_t bytes = (size_t)rdg_type_row_bytes((rdg_type)t, n);
                    rdg_quant_ops[t].quantise(&rdg_search_plain, x, a, n, weighted ? h : NULL);
                    rdg_quant_ops[t].quantise(best, x, b, n, weighted ? h : NULL);
                    if (memcmp(a, b, bytes) != 0)
                        fail_msg("%s style %d weighted %d columns %lld: %s differs from plain",
                                 rdg_type_name((rdg_type)t), style, weighted, (long long)n, best->name);
                }
        }
}

/* Largest error of an unweighted format, as a part of the largest element of its block; generous bounds that
 * a wrong bit anywhere exceeds. Normalised rms error on normal data: known to the field to a few per cent. */
static const struct {
    rdg_type type;
    double rms; /* upper bound for N(0, 1) rows without importance */
} quality[] = {
    {RDG_TYPE_F32, 0},      {RDG_TYPE_F16, 3e-4},     {RDG_TYPE_BF16, 3e-3},    {RDG_TYPE_Q8_0, 0.006},
    {RDG_TYPE_Q8_1, 0.006}, {RDG_TYPE_Q8_K, 0.01},    {RDG_TYPE_Q6_K, 0.023},   {RDG_TYPE_Q5_K, 0.042},
    {RDG_TYPE_Q5_0, 0.05},  {RDG_TYPE_Q5_1, 0.045},   {RDG_TYPE_Q4_K, 0.085},   {RDG_TYPE_Q4_0, 0.10},
    {RDG_TYPE_Q4_1, 0.09},  {RDG_TYPE_IQ4_NL, 0.085}, {RDG_TYPE_IQ4_XS, 0.087}, {RDG_TYPE_Q3_K, 0.17},
    {RDG_TYPE_Q2_K, 0.31},  {RDG_TYPE_MXFP4, 0.13},   {RDG_TYPE_NVFP4, 0.11},   {RDG_TYPE_Q1_0, 0.65},
    {RDG_TYPE_Q2_0, 0.85},  {RDG_TYPE_TQ2_0, 0.95},
};

static double weighted_rms(rdg_type t, const float *x, int64_t n, const float *used, const float *judge)
{
    static unsigned char block[4 * N_COLUMNS];
    static float y[N_COLUMNS];
    double sum = 0, norm = 0;
    assert_int_equal(rdg_quantise_rows(t, x, block, 1, n, used, NULL), RDG_OK);
    assert_int_equal(rdg_dequantise_rows(t, block, y, 1, n, NULL), RDG_OK);
    for (int64_t i = 0; i < n; i++) {
        double w = judge ? judge[i] : 1, d = (double)y[i] - x[i];
        sum += w * d * d;
        norm += w * (double)x[i] * x[i];
    }
    return sqrt(sum / norm);
}

static void error_is_what_the_bits_allow(void **state)
{
    static float x[N_COLUMNS];
    int n_listed = 0;
    (void)state;
    seed_rng();
    for (int k = 0; k < RDG_COUNTOF(quality); k++) {
        double sum = 0;
        for (int repeat = 0; repeat < 20; repeat++) {
            for (int i = 0; i < N_COLUMNS; i++) x[i] = rdg_rng_normal(&rng);
            sum += weighted_rms(quality[k].type, x, N_COLUMNS, NULL, NULL) / 20;
        }
        if (!(sum <= quality[k].rms))
            fail_msg("%s: rms error %g, expected at most %g", rdg_type_name(quality[k].type), sum,
                     quality[k].rms);
        n_listed++;
    }
    for (int t = 0; t < RDG_TYPE_COUNT; t++) n_listed -= rdg_type_can_quantise((rdg_type)t);
    assert_int_equal(n_listed, 0);
}

static void importance_lowers_the_error_where_it_matters(void **state)
{
    static const rdg_type weighted[] = {RDG_TYPE_Q2_K, RDG_TYPE_Q3_K,   RDG_TYPE_Q4_K,  RDG_TYPE_Q5_K,
                                        RDG_TYPE_Q6_K, RDG_TYPE_Q4_0,   RDG_TYPE_Q4_1,  RDG_TYPE_Q5_0,
                                        RDG_TYPE_Q5_1, RDG_TYPE_IQ4_NL, RDG_TYPE_IQ4_XS};
    static float x[N_COLUMNS], h[N_COLUMNS];
    (void)state;
    seed_rng();
    for (int k = 0; k < RDG_COUNTOF(weighted); k++) {
        double with = 0, without = 0;
        for (int repeat = 0; repeat < 20; repeat++) {
            for (int i = 0; i < N_COLUMNS; i++) {
                x[i] = rdg_rng_normal(&rng);
                h[i] = i % 8 == 3 ? 50.0f : 0.1f;
            }
            with += weighted_rms(weighted[k], x, N_COLUMNS, h, h);
            without += weighted_rms(weighted[k], x, N_COLUMNS, NULL, h);
        }
        if (!(with < 0.9 * without))
            fail_msg("%s: weighted error %g with importance, %g without", rdg_type_name(weighted[k]), with,
                     without);
    }
}

/* All-zero rows stay zero, rows of one value keep it, and unexcited columns (importance 0) are not lost. */
static void degenerate_rows(void **state)
{
    static float x[N_COLUMNS], y[N_COLUMNS], h[N_COLUMNS], zero[N_COLUMNS];
    static unsigned char block[4 * N_COLUMNS];
    (void)state;
    for (int t = 0; t < RDG_TYPE_COUNT; t++) {
        rdg_type type = (rdg_type)t;
        if (!rdg_type_can_quantise(type)) continue;
        for (int i = 0; i < N_COLUMNS; i++) h[i] = (float)(i % 7);
        for (int w = 0; w < 3; w++) { /* no importance, some, all zero */
            const float *importance = w == 0 ? NULL : w == 1 ? h : zero;
            for (int value = 0; value < 3; value++) {
                float v = value == 0 ? 0.0f : value == 1 ? 0.75f : -0.75f;
                for (int i = 0; i < N_COLUMNS; i++) x[i] = v;
                assert_int_equal(rdg_quantise_rows(type, x, block, 1, N_COLUMNS, importance, NULL), RDG_OK);
                assert_int_equal(rdg_dequantise_rows(type, block, y, 1, N_COLUMNS, NULL), RDG_OK);
                for (int i = 0; i < N_COLUMNS; i++)
                    if (!(fabsf(y[i] - v) <= 0.08f * fabsf(v)))
                        fail_msg("%s importance kind %d: %g became %g", rdg_type_name(type), w, v, y[i]);
            }
            for (int i = 0; i < N_COLUMNS; i++) x[i] = i == 100 ? -1e-30f : i % 50 == 0 ? FLT_MIN / 64 : 0.0f;
            assert_int_equal(rdg_quantise_rows(type, x, block, 1, N_COLUMNS, importance, NULL), RDG_OK);
            assert_int_equal(rdg_dequantise_rows(type, block, y, 1, N_COLUMNS, NULL), RDG_OK);
            for (int i = 0; i < N_COLUMNS; i++) assert_true(fabsf(y[i]) <= 2e-30f);
        }
    }
}

static void refuses_what_it_cannot_store(void **state)
{
    static float x[N_COLUMNS], h[N_COLUMNS];
    static unsigned char block[4 * N_COLUMNS];
    const float bad[] = {NAN, INFINITY, -INFINITY};
    rdg_error e;
    (void)state;
    for (int t = 0; t < RDG_TYPE_COUNT; t++) {
        rdg_type type = (rdg_type)t;
        if (!rdg_type_can_quantise(type)) continue;
        for (int i = 0; i < N_COLUMNS; i++) x[i] = 0.5f;
        for (int k = 0; k < 3; k++) {
            x[700] = bad[k];
            assert_int_equal(rdg_quantise_rows(type, x, block, 1, N_COLUMNS, NULL, &e), RDG_E_MALFORMED);
            assert_non_null(strstr(e.message, "700"));
        }
        if (rdg_quant_ops[t].n_halves == 0) continue;
        for (float v = 1e7f; v < 1e38f; v *= 10) { /* never a silent infinity or zero */
            x[700] = v;
            rdg_err err = rdg_quantise_rows(type, x, block, 1, N_COLUMNS, NULL, &e);
            if (err == RDG_OK) {
                float y[N_COLUMNS];
                assert_int_equal(rdg_dequantise_rows(type, block, y, 1, N_COLUMNS, NULL), RDG_OK);
                assert_true(fabsf(y[700] - v) < 0.2f * v);
            } else {
                assert_int_equal(err, RDG_E_MALFORMED);
            }
        }
        x[700] = 0.5f;
        for (int i = 0; i < N_COLUMNS; i++) h[i] = 1.0f;
        const float bad_importance[] = {NAN, INFINITY, -1.0f, FLT_MAX};
        for (int k = 0; k < 4; k++) {
            h[3] = bad_importance[k];
            assert_int_equal(rdg_quantise_rows(type, x, block, 1, N_COLUMNS, h, &e), RDG_E_MALFORMED);
        }
    }
    assert_int_equal(rdg_quantise_rows(RDG_TYPE_IQ3_S, x, block, 1, N_COLUMNS, NULL, &e), RDG_E_UNSUPPORTED);
    assert_int_equal(rdg_quantise_rows(RDG_TYPE_Q4_K, x, block, 1, 300, NULL, &e), RDG_E_ARGUMENT);
}

/* A written file is checked for scales that are not finite. */
static void bad_blocks_are_found(void **state)
{
    (void)state;
    for (int t = 0; t < RDG_TYPE_COUNT; t++) {
        unsigned char b[3 * 300] = {0};
        rdg_type type = (rdg_type)t;
        size_t bytes = (size_t)rdg_type_block_bytes(type);
        if (!rdg_type_can_dequantise(type)) continue;
        assert_int_equal(first_bad_block(type, b, 3), -1);
        for (int k = 0; k < rdg_quant_ops[t].n_halves; k++) {
            size_t at = 2 * bytes + (size_t)rdg_quant_ops[t].half_at[k];
            b[at + 1] = 0xfc; /* -Inf */
            assert_int_equal(first_bad_block(type, b, 3), 2);
            b[at + 1] = 0xfb; /* -65504 or thereabouts */
            b[at] = 0xff;
            assert_int_equal(first_bad_block(type, b, 3), -1);
        }
    }
    const unsigned char mx[34] = {[17] = 0xff}, bf[4] = {0x80, 0x3f, 0x80, 0x7f};
    const float f[2] = {1.0f, NAN};
    assert_int_equal(first_bad_block(RDG_TYPE_MXFP4, mx, 2), 1);
    assert_int_equal(first_bad_block(RDG_TYPE_BF16, bf, 2), 1);
    assert_int_equal(first_bad_block(RDG_TYPE_F32, f, 2), 1);
}

static void rounding(void **state)
{
    (void)state;
    seed_rng();
    for (int i = -2000; i <= 2000; i++) { /* ties and their neighbours */
        const float near[3] = {nextafterf((float)i / 2, -1e9f), (float)i / 2, nextafterf((float)i / 2, 1e9f)};
        for (int k = 0; k < 3; k++) {
            assert_true(rdg_round_away(near[k]) == roundf(near[k]));
            assert_true(rdg_round_even(near[k]) == rintf(near[k]));
        }
    }
    for (int i = 0; i < 100000; i++) {
        float v = 100.0f * rdg_rng_normal(&rng);
        assert_true(rdg_round_away(v) == roundf(v));
    }
    assert_true(rdg_round_clip(NAN, -3.0f, 9.0f) == -3.0f);
    assert_true(rdg_round_clip(INFINITY, -3.0f, 9.0f) == 9.0f);
    for (float v = -200.0f; v < 200.0f; v += 0.25f) { /* the closest value of IQ4_NL; ties go up */
        static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
        int best = 0;
        for (int k = 1; k < 16; k++)
            if (fabsf(v - (float)values[k]) <= fabsf(v - (float)values[best])) best = k;
        assert_int_equal(rdg_iq4_nearest(v), best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding),
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(wide_search_gives_the_same_bytes),
        cmocka_unit_test(error_is_what_the_bits_allow),
        cmocka_unit_test(importance_lowers_the_error_where_it_matters),
        cmocka_unit_test(degenerate_rows),
        cmocka_unit_test(refuses_what_it_cannot_store),
        cmocka_unit_test(bad_blocks_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
