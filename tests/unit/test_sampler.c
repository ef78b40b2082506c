/* The sampler against direct formulas written a second time here: plain loops over a fully sorted copy, in
 * double. */
#include "engine/sampler_internal.h"
#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { MAX_N = 5000 };

static uint64_t test_seed;
static rdg_rng rng;
static float logits[MAX_N];
static double got[MAX_N], want[MAX_N];

/* The distribution as the formulas see it: l[i] for the tokens that are still in. */
static double l[MAX_N];
static bool in[MAX_N];
static int rank[MAX_N]; /* tokens from the most likely down, the lower id first */
static int n_vocab;

static void fill(int n)
{
    n_vocab = n;
    for (int i = 0; i < n; i++) {
        logits[i] = rdg_rng_normal(&rng) * 2;
        if (rdg_rng_below(&rng, 50) == 0) logits[i] *= 4;               /* heavy tail */
        if (rdg_rng_below(&rng, 3) == 0) logits[i] = roundf(logits[i]); /* ties */
        l[i] = logits[i];
        in[i] = true;
    }
}

static int by_rank(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return l[x] != l[y] ? (l[x] < l[y]) - (l[x] > l[y]) : (x > y) - (x < y);
}

static int ranked(void)
{
    int n = 0;
    for (int i = 0; i < n_vocab; i++)
        if (in[i]) rank[n++] = i;
    qsort(rank, (size_t)n, sizeof *rank, by_rank);
    return n;
}

static void softmax(double *p)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n_vocab; i++)
        if (in[i] && l[i] > max) max = l[i];
    for (int i = 0; i < n_vocab; i++) sum += p[i] = in[i] ? exp(l[i] - max) : 0;
    for (int i = 0; i < n_vocab; i++) p[i] /= sum;
}

static rdg_sampler_params off(void) /* every stage off, only the draw left */
{
    rdg_sampler_params p;
    rdg_sampler_defaults(&p);
    p.temperature = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    return p;
}

static rdg_sampler *create(const rdg_sampler_params *p, int n)
{
    rdg_error e = {0};
    rdg_sampler *s = NULL;
    if (rdg_sampler_create(p, n, &s, &e)) fail_msg("create: %s", e.message);
    return s;
}

static void compare(const char *what)
{
    for (int i = 0; i < n_vocab; i++)
        if (fabs(got[i] - want[i]) > 1e-4 * (want[i] + 1e-9)) /* logits are float: e^(20 / T) magnifies */
            fail_msg("%s: token %d of %d has %.9g, want %.9g (seed %llu)", what, i, n_vocab, got[i], want[i],
                     (unsigned long long)test_seed);
}

/* Runs the sampler on the present logits and compares with softmax(l | in). */
static void expect(const rdg_sampler_params *p, const int32_t *context, int n_context, const char *what)
{
    rdg_error e = {0};
    rdg_sampler *s = create(p, n_vocab);
    for (int i = 0; i < n_context; i++) assert_int_equal(rdg_sampler_accept(s, context[i], &e), RDG_OK);
    for (int again = 0; again < 2; again++) { /* the second pick finds no leavings of the first */
        if (rdg_sampler_distribution(s, logits, got, &e)) fail_msg("%s: %s", what, e.message);
        softmax(want);
        compare(what);
    }
    rdg_sampler_destroy(s);
}

static int size_of_round(int round)
{
    static const int sizes[] = {1, 2, 3, 47, 48, 49, 64, 65, 257, 1031, MAX_N};
    return sizes[round % (int)(sizeof sizes / sizeof *sizes)];
}

static void test_nothing(void **state)
{
    (void)state;
    rdg_sampler_params p = off();
    fill(1031);
    expect(&p, NULL, 0, "no stage");
}

static void test_temperature(void **state)
{
    (void)state;
    for (int r = 0; r < 11; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.temperature = (float)(0.1 + 2 * rdg_rng_uniform(&rng));
        for (int i = 0; i < n_vocab; i++) l[i] /= p.temperature;
        expect(&p, NULL, 0, "temperature");
    }
}

static void test_dynatemp(void **state)
{
    (void)state;
    for (int r = 0; r < 11; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.temperature = 0.9f;
        p.dynatemp_range = r & 1 ? 0.5f : 2.0f; /* the second is cut off at 0 */
        p.dynatemp_exponent = 1.5f;
        softmax(want);
        double h = 0, low = fmax(0, (double)p.temperature - p.dynatemp_range),
               high = (double)p.temperature + p.dynatemp_range;
        for (int i = 0; i < n_vocab; i++)
            if (want[i] > 0) h -= want[i] * log(want[i]);
        double t = n_vocab > 1 ? low + (high - low) * pow(h / log(n_vocab), p.dynatemp_exponent) : 1;
        for (int i = 0; i < n_vocab; i++) l[i] /= t;
        expect(&p, NULL, 0, "dynamic temperature");
    }
}

static void test_top_k(void **state)
{
    (void)state;
    for (int r = 0; r < 44; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.top_k = 1 + (int)rdg_rng_below(&rng, (uint64_t)n_vocab + 2);
        int n = ranked();
        for (int i = p.top_k; i < n; i++) in[rank[i]] = false;
        expect(&p, NULL, 0, "top_k");
    }
}

static void test_top_p(void **state)
{
    (void)state;
    for (int r = 0; r < 44; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.top_p = r < 11 ? 0 : (float)rdg_rng_uniform(&rng);
        softmax(want);
        int n = ranked(), keep = 0;
        for (double held = 0; keep < n && (keep == 0 || held < p.top_p);) held += want[rank[keep++]];
        for (int i = keep; i < n; i++) in[rank[i]] = false;
        expect(&p, NULL, 0, "top_p");
    }
}

static void test_min_p(void **state)
{
    (void)state;
    for (int r = 0; r < 44; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.min_p = r < 11 ? 1 : (float)(0.001 + 0.5 * rdg_rng_uniform(&rng));
        softmax(want);
        ranked();
        for (int i = 0; i < n_vocab; i++) in[i] = want[i] >= want[rank[0]] * p.min_p;
        expect(&p, NULL, 0, "min_p");
    }
}

static void test_top_n_sigma(void **state)
{
    (void)state;
    for (int r = 0; r < 44; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.top_n_sigma = (float)(0.1 + 3 * rdg_rng_uniform(&rng));
        double sum = 0, square = 0;
        for (int i = 0; i < n_vocab; i++) sum += l[i], square += l[i] * l[i];
        double mean = sum / n_vocab, sigma = sqrt(fmax(0, square / n_vocab - mean * mean));
        ranked();
        for (int i = 0; i < n_vocab; i++) in[i] = l[i] >= l[rank[0]] - p.top_n_sigma * sigma;
        expect(&p, NULL, 0, "top_n_sigma");
    }
}

static double distance[MAX_N];
static int by_distance(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    if (distance[x] != distance[y]) return distance[x] < distance[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static void test_typical(void **state)
{
    (void)state;
    for (int r = 0; r < 44; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.typical_p = (float)(0.05 + 0.9 * rdg_rng_uniform(&rng));
        softmax(want);
        double h = 0, held = 0;
        for (int i = 0; i < n_vocab; i++) h -= want[i] > 0 ? want[i] * log(want[i]) : 0;
        for (int i = 0; i < n_vocab; i++) distance[i] = (float)fabs(-log(want[i]) - h);
        int n = ranked(), keep = 0;
        qsort(rank, (size_t)n, sizeof *rank, by_distance);
        while (keep < n && held < p.typical_p) held += want[rank[keep++]];
        for (int i = keep; i < n; i++) in[rank[i]] = false;
        expect(&p, NULL, 0, "typical");
    }
}

static void test_xtc(void **state)
{
    (void)state;
    for (int r = 0; r < 33; r++) {
        rdg_sampler_params p = off();
        fill(size_of_round(r));
        p.xtc_probability = 1;
        p.xtc_threshold = r < 11 ? 0.001f : 0.02f;
        softmax(want);
        int n = ranked(), above = 0;
        while (above < n && want[rank[above]] >= p.xtc_threshold) above++;
        for (int i = 0; i + 1 < above; i++) in[rank[i]] = false;
        expect(&p, NULL, 0, "xtc");
    }
    /* the probability: about 30% of the picks are cut; the same seed gives the same answers */
    rdg_sampler_params p = off();
    float two[2] = {1, 0};
    rdg_error e;
    p.seed = test_seed;
    p.xtc_probability = 0.3f;
    rdg_sampler *s = create(&p, 2);
    int cut = 0;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(rdg_sampler_distribution(s, two, got, &e), RDG_OK);
        cut += got[0] == 0;
    }
    assert_in_range(cut, 2700, 3300);
    rdg_sampler_destroy(s);
}

static void test_bias(void **state)
{
    (void)state;
    fill(257);
    rdg_logit_bias bias[] = {{3, 2.5f}, {256, -INFINITY}, {0, -1}, {3, 0.5f}};
    rdg_sampler_params p = off();
    p.bias = bias;
    p.n_bias = 4;
    l[3] += 3;
    l[0] -= 1;
    in[256] = false;
    expect(&p, NULL, 0, "bias");
    p.top_k = 20;
    int n = ranked();
    for (int i = 20; i < n; i++) in[rank[i]] = false;
    expect(&p, NULL, 0, "bias, then top_k");
}

static void test_penalties(void **state)
{
    (void)state;
    int32_t context[300];
    static const int windows[] = {-1, 1, 7, 64, 150, 300, 1000};
    for (int r = 0; r < 21; r++) {
        rdg_sampler_params p = off();
        fill(97);
        p.penalty_last_n = windows[r % 7];
        p.repeat_penalty = 1.3f;
        p.frequency_penalty = r < 7 ? 0 : 0.2f;
        p.presence_penalty = r < 14 ? 0 : -0.4f;
        int n = r % 2 ? 300 : 40, count[97] = {0};
        for (int i = 0; i < n; i++) context[i] = (int32_t)rdg_rng_below(&rng, 97);
        for (int i = 0; i < n; i++)
            if (p.penalty_last_n < 0 || i >= n - p.penalty_last_n) count[context[i]]++;
        for (int i = 0; i < 97; i++) {
            if (!count[i]) continue;
            l[i] = l[i] > 0 ? l[i] / p.repeat_penalty : l[i] * p.repeat_penalty;
            l[i] -= count[i] * (double)p.frequency_penalty + p.presence_penalty;
        }
        expect(&p, context, n, "penalties");
    }
}

/* The longest k such that the last k tokens also stand right before position j; no breaker among them. */
static int repeat_before(const int32_t *c, int n, int j, const bool *breaker)
{
    int k = 0;
    while (j - 1 - k >= 0 && c[j - 1 - k] == c[n - 1 - k] && !breaker[c[n - 1 - k]]) k++;
    return k;
}

static void test_dry(void **state)
{
    (void)state;
    int32_t context[200], breakers[] = {2};
    bool breaker[5] = {0};
    for (int r = 0; r < 200; r++) {
        rdg_sampler_params p = off();
        fill(5);
        p.dry_multiplier = 0.8f;
        p.dry_base = 1.2f;
        p.dry_allowed_length = r % 4;
        p.dry_last_n = r % 3 ? -1 : 30;
        p.dry_breakers = breakers;
        p.n_dry_breakers = r % 2;
        breaker[2] = r % 2;
        int n = 1 + (int)rdg_rng_below(&rng, 200), first = 0, longest[5] = {0};
        for (int i = 0; i < n; i++) /* long repeats, now and then broken */
            context[i] =
                i > 20 && rdg_rng_below(&rng, 12) ? context[i - 13] : (int32_t)rdg_rng_below(&rng, 5);
        if (p.dry_last_n > 0 && n > 30) first = n - 30;
        for (int j = first + 1; j < n; j++) {
            int k = repeat_before(context + first, n - first, j - first, breaker);
            if (!breaker[context[j]] && k > longest[context[j]]) longest[context[j]] = k;
        }
        for (int i = 0; i < 5; i++)
            if (longest[i] > 0 && longest[i] >= p.dry_allowed_length)
                l[i] -= p.dry_multiplier * pow(p.dry_base, longest[i] - p.dry_allowed_length);
        expect(&p, context, n, "dry");
    }
    /* a repeat so long that base^n overflows still leaves finite logits */
    rdg_sampler_params p = off();
    rdg_error e;
    p.dry_multiplier = 1;
    p.dry_base = 1000;
    fill(5);
    rdg_sampler *s = create(&p, 5);
    for (int i = 0; i < 9000; i++) assert_int_equal(rdg_sampler_accept(s, 1, &e), RDG_OK);
    assert_int_equal(rdg_sampler_distribution(s, logits, got, &e), RDG_OK);
    assert_true(got[1] == 0 && got[0] > 0);
    rdg_sampler_destroy(s);
}

static void test_mirostat(void **state)
{
    (void)state;
    for (int r = 0; r < 40; r++) {
        rdg_sampler_params p = off();
        rdg_error e;
        fill(r % 2 ? 1031 : 30);
        p.mirostat = 1 + r / 20;
        p.mirostat_tau = (float)(1 + 4 * rdg_rng_uniform(&rng));
        p.seed = (uint64_t)r;
        double mu = 2.0 * p.mirostat_tau, full[MAX_N];
        softmax(full);
        int n = ranked();
        rdg_sampler *s = create(&p, n_vocab);
        for (int step = 0; step < 10; step++) {
            int keep = 1;
            if (p.mirostat == 2) {
                while (keep < n && -log2(full[rank[keep]]) <= mu) keep++;
            } else {
                double tb = 0, tt = 0;
                for (int i = 1; i < (n < 100 ? n : 100); i++) {
                    double t = log((i + 1.0) / i);
                    tb += t * log(full[rank[i - 1]] / full[rank[i]]);
                    tt += t * t;
                }
                double exponent = tb / tt, eps = exponent - 1;
                double k = round(pow(eps * pow(2, mu) / (1 - pow(n, -eps)), 1 / exponent));
                keep = k < 1 ? 1 : k > n ? n : (int)k;
            }
            for (int i = 0; i < n; i++) in[rank[i]] = i < keep;
            softmax(want);
            assert_int_equal(rdg_sampler_distribution(s, logits, got, &e), RDG_OK);
            compare("mirostat");
            int32_t token;
            assert_int_equal(rdg_sampler_pick(s, logits, &token, &e), RDG_OK);
            assert_true(in[token]);
            mu -= (double)p.mirostat_eta * (-log2(full[token]) - p.mirostat_tau);
        }
        rdg_sampler_destroy(s);
    }
}

/* Several stages, in two orders; the order matters. */
static void test_order(void **state)
{
    (void)state;
    rdg_sampler_params p = off();
    fill(1031);
    p.temperature = 3;
    p.top_p = 0.7f;
    p.top_k = 100;
    p.order = "temperature;top_k;top_p";
    for (int i = 0; i < n_vocab; i++) l[i] = (float)(l[i] / 3); /* as the stage leaves it */
    int n = ranked(), keep = 0;
    for (int i = 100; i < n; i++) in[rank[i]] = false;
    softmax(want);
    for (double held = 0; held < 0.7f;) held += want[rank[keep++]];
    for (int i = keep; i < n; i++) in[rank[i]] = false;
    expect(&p, NULL, 0, "temperature first");

    for (int i = 0; i < n_vocab; i++) l[i] = logits[i], in[i] = true;
    p.order = "top_p;temperature"; /* top_k is not named, so it is not run */
    softmax(want);
    keep = 0;
    for (double held = 0; held < 0.7f;) held += want[rank[keep++]];
    for (int i = 0; i < n; i++) in[rank[i]] = i < keep, l[rank[i]] = (float)(l[rank[i]] / 3);
    expect(&p, NULL, 0, "temperature last");

    /* penalties after a filter that has sorted */
    int32_t context[1] = {rank[1]};
    for (int i = 0; i < n_vocab; i++) l[i] = logits[i], in[i] = true;
    for (int i = 100; i < n; i++) in[rank[i]] = false;
    l[rank[1]] -= 5;
    p.temperature = 1;
    p.presence_penalty = 5;
    p.order = "top_k;penalties;top_p";
    softmax(want);
    n = ranked();
    keep = 0;
    for (double held = 0; held < 0.7f;) held += want[rank[keep++]];
    for (int i = keep; i < n; i++) in[rank[i]] = false;
    expect(&p, context, 1, "penalties after top_k");
}

static void test_greedy(void **state)
{
    (void)state;
    rdg_sampler_params p;
    rdg_error e;
    int32_t token;
    float x[6] = {1, 5, 2, 5, -3, 4.9f};
    rdg_sampler_defaults(&p);
    p.temperature = 0;
    p.xtc_probability = 1;
    p.presence_penalty = 1;
    rdg_sampler *s = create(&p, 6);
    static const int32_t expected[] = {1, 3, 5,
                                       1, 1, 1}; /* a tie goes to the lower id; each is penalised once */
    for (int i = 0; i < 6; i++) {
        assert_int_equal(rdg_sampler_pick(s, x, &token, &e), RDG_OK);
        assert_int_equal(token, expected[i]);
        assert_int_equal(rdg_sampler_accept(s, token, &e), RDG_OK);
    }
    rdg_sampler_destroy(s);
}

/* The draw follows the distribution (chi-square), the seed decides it, reset restarts it. */
static void test_draw(void **state)
{
    (void)state;
    enum { N = 12, PICKS = 20000 };
    static int32_t first[PICKS];
    rdg_sampler_params p = off();
    rdg_error e;
    int32_t token;
    double hits[N] = {0}, chi = 0;
    fill(N);
    for (int i = 0; i < N; i++)
        l[i] = logits[i] *= 0.2f; /* flat enough for two seeds to differ for certain */
    softmax(want);
    p.seed = test_seed;
    rdg_sampler *s = create(&p, N), *twin = create(&p, N);
    for (int i = 0; i < PICKS; i++) {
        assert_int_equal(rdg_sampler_pick(s, logits, &first[i], &e), RDG_OK);
        assert_int_equal(rdg_sampler_pick(twin, logits, &token, &e), RDG_OK);
        assert_int_equal(token, first[i]);
        hits[first[i]]++;
    }
    for (int i = 0; i < N; i++)
        if (want[i] * PICKS > 5) chi += pow(hits[i] - want[i] * PICKS, 2) / (want[i] * PICKS);
    if (chi > 70) fail_msg("chi-square is %g (seed %llu)", chi, (unsigned long long)test_seed); /* p < 1e-9 */
    rdg_sampler_reset(s);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(rdg_sampler_pick(s, logits, &token, &e), RDG_OK);
        assert_int_equal(token, first[i]);
    }
    rdg_sampler_destroy(twin);
    p.seed++;
    twin = create(&p, N);
    int same = 0;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(rdg_sampler_pick(twin, logits, &token, &e), RDG_OK);
        same += token == first[i];
    }
    assert_true(same < 100);
    rdg_sampler_destroy(twin);
    rdg_sampler_destroy(s);
}

/* Stages that change nothing keep `sample` from picking: the picks are the same all the same. */
static void test_one_definition(void **state)
{
    (void)state;
    enum { N = 500, PICKS = 2000 };
    int32_t a, b;
    rdg_error e;
    /* whole 64ths: their differences are exact, and none lies near a cut of min-p that one of both rounds */
    for (int i = 0; i < N; i++) logits[i] = rintf(rdg_rng_normal(&rng) * 128) / 64;
    const rdg_logit_bias nothing = {.token = 3, .bias = 0};
    rdg_sampler_params p = off();
    p.seed = test_seed;
    p.top_k = 60;
    p.top_p = 0.9f;
    p.min_p = 0.02f;
    rdg_sampler_params q = p;
    q.bias = &nothing;
    q.n_bias = 1;
    rdg_sampler *s = create(&p, N), *t = create(&q, N);
    assert_true(s->simple);
    assert_false(t->simple);
    assert_string_equal(t->not_simple, "n_bias is 1");
    for (int i = 0; i < PICKS; i++) {
        assert_int_equal(rdg_sampler_pick(s, logits, &a, &e), RDG_OK);
        assert_int_equal(rdg_sampler_pick(t, logits, &b, &e), RDG_OK);
        if (a != b) fail_msg("pick %d: %d and %d (seed %llu)", i, a, b, (unsigned long long)test_seed);
    }
    rdg_sampler_destroy(t);
    rdg_sampler_destroy(s);
}

/* Which settings leave the pick to `sample`, and what is said of the others. */
static void test_simple(void **state)
{
    (void)state;
    const rdg_logit_bias bias = {.token = 0, .bias = 1};
    const struct {
        rdg_sampler_params p;
        const char *why;
    } rows[] = {
        {{.temperature = 0}, ""},
        {{.temperature = 0, .typical_p = 0.5f, .top_n_sigma = 1, .mirostat = 2}, ""},
        {{.temperature = 0, .repeat_penalty = 1.5f, .penalty_last_n = 8}, "repeat_penalty is 1.5"},
        {{.temperature = 1, .top_k = 3, .top_p = 0.5f, .min_p = 0.1f}, ""},
        {{.temperature = 1, .presence_penalty = 2, .penalty_last_n = 0}, ""},
        {{.temperature = 1, .presence_penalty = 2, .penalty_last_n = 8}, "presence_penalty is 2"},
        {{.temperature = 1, .dry_multiplier = 1, .dry_last_n = -1}, "dry_multiplier is 1"},
        {{.temperature = 1, .typical_p = 0.5f}, "typical_p is 0.5"},
        {{.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.1f}, "xtc_probability is 1"},
        {{.temperature = 1, .dynatemp_range = 0.5f}, "dynatemp_range is 0.5"},
        {{.temperature = 1, .mirostat = 1}, "mirostat is 1"},
        {{.temperature = 1, .bias = &bias, .n_bias = 1}, "n_bias is 1"},
        {{.temperature = 2, .top_k = 3, .order = "temperature;top_k"},
         "the order puts top_k elsewhere than usual"},
        {{.temperature = 2, .top_k = 3, .order = "top_k;temperature"}, ""},
        {{.temperature = 1, .top_k = 3, .min_p = 0.5f, .order = "min_p;top_k"},
         "the order puts top_k elsewhere than usual"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rdg_sampler_params p = rows[i].p, d = off();
        if (p.repeat_penalty == 0) p.repeat_penalty = 1;
        if (p.typical_p == 0) p.typical_p = 1;
        if (p.top_p == 0) p.top_p = 1;
        p.dry_base = d.dry_base;
        rdg_sampler *s = create(&p, 10);
        assert_string_equal(s->not_simple, rows[i].why);
        assert_int_equal(s->simple, !rows[i].why[0]);
        rdg_sampler_destroy(s);
    }
    /* a stage that the order leaves out is off */
    rdg_sampler_params p = off();
    p.temperature = 2;
    p.top_k = 3;
    p.order = "top_p";
    rdg_sampler *s = create(&p, 10);
    assert_true(s->simple && s->sample.temperature == 1 && s->sample.top_k == 0);
    rdg_sampler_destroy(s);
}

static void test_bad_logits(void **state)
{
    (void)state;
    rdg_sampler_params p;
    rdg_error e;
    int32_t token;
    float x[3] = {0, NAN, 1};
    rdg_sampler_defaults(&p);
    rdg_sampler *s = create(&p, 3);
    assert_int_equal(rdg_sampler_pick(s, x, &token, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "token 1 is NaN"));
    x[1] = INFINITY;
    assert_int_equal(rdg_sampler_pick(s, x, &token, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "+inf"));
    x[0] = x[1] = x[2] = -INFINITY;
    assert_int_equal(rdg_sampler_pick(s, x, &token, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "every logit is -inf"));
    x[1] = -3;
    assert_int_equal(rdg_sampler_pick(s, x, &token, &e), RDG_OK);
    assert_int_equal(token, 1);
    assert_int_equal(rdg_sampler_accept(s, 3, &e), RDG_E_ARGUMENT);
    assert_int_equal(rdg_sampler_accept(s, -1, &e), RDG_E_ARGUMENT);
    rdg_sampler_destroy(s);
    rdg_logit_bias ban = {1, -INFINITY};
    p.bias = &ban;
    p.n_bias = 1;
    s = create(&p, 3);
    assert_int_equal(rdg_sampler_pick(s, x, &token, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "after the logit bias"));
    rdg_sampler_destroy(s);
    rdg_sampler_destroy(NULL);
}

#define REJECT(field, bad)                                                                                   \
    do {                                                                                                     \
        rdg_sampler_params q;                                                                                \
        rdg_sampler *s = NULL;                                                                               \
        rdg_error e = {0};                                                                                   \
        rdg_sampler_defaults(&q);                                                                            \
        q.field = bad;                                                                                       \
        assert_int_equal(rdg_sampler_create(&q, 10, &s, &e), RDG_E_ARGUMENT);                                \
        assert_null(s);                                                                                      \
        if (!strstr(e.message, #field)) fail_msg("no \"" #field "\" in: %s", e.message);                     \
    } while (0)

static void test_bad_params(void **state)
{
    (void)state;
    REJECT(temperature, NAN);
    REJECT(temperature, INFINITY);
    REJECT(top_k, -1);
    REJECT(top_p, -0.1f);
    REJECT(top_p, 1.1f);
    REJECT(min_p, 2);
    REJECT(typical_p, NAN);
    REJECT(top_n_sigma, -1);
    REJECT(xtc_probability, 1.5f);
    REJECT(xtc_threshold, -1);
    REJECT(repeat_penalty, 0);
    REJECT(repeat_penalty, 1e9f);
    REJECT(frequency_penalty, INFINITY);
    REJECT(presence_penalty, 1e9f);
    REJECT(penalty_last_n, -2);
    REJECT(penalty_last_n, INT32_MAX);
    REJECT(dry_multiplier, -1);
    REJECT(dry_base, 0.5f);
    REJECT(dry_allowed_length, -1);
    REJECT(dry_last_n, -2);
    REJECT(dynatemp_range, -1);
    REJECT(dynatemp_exponent, NAN);
    REJECT(mirostat, 3);
    REJECT(mirostat_tau, -1);
    REJECT(mirostat_eta, NAN);
    REJECT(n_bias, 1);
    REJECT(n_bias, -1);
    REJECT(n_dry_breakers, 2);
    REJECT(order, "top_k;bogus_stage");
    REJECT(order, "top_k;top_k");

    rdg_sampler_params p;
    rdg_sampler *s;
    rdg_error e;
    rdg_sampler_defaults(&p);
    assert_int_equal(rdg_sampler_create(&p, 0, &s, &e), RDG_E_ARGUMENT);
    assert_int_equal(rdg_sampler_create(&p, INT64_MAX, &s, &e), RDG_E_ARGUMENT);
    static const rdg_logit_bias bad[] = {{10, 0}, {-1, 0}, {0, NAN}, {0, INFINITY}};
    for (int i = 0; i < 4; i++) {
        p.bias = &bad[i];
        p.n_bias = 1;
        assert_int_equal(rdg_sampler_create(&p, 10, &s, &e), RDG_E_ARGUMENT);
    }
    rdg_sampler_defaults(&p);
    int32_t breaker = 10;
    p.dry_breakers = &breaker;
    p.n_dry_breakers = 1;
    assert_int_equal(rdg_sampler_create(&p, 10, &s, &e), RDG_E_ARGUMENT);
    p.n_dry_breakers = 0;
    p.order = ""; /* no stage at all is a valid order */
    assert_int_equal(rdg_sampler_create(&p, 10, &s, &e), RDG_OK);
    rdg_sampler_destroy(s);
}

/* "test_sampler bench": nanoseconds a pick at a vocabulary of 128k. */
static int bench(void)
{
    enum { N = 128256, PICKS = 200 };
    float *x = rdg_alloc_array(N, sizeof *x);
    if (!x) return 1;
    for (int i = 0; i < N; i++) x[i] = rdg_rng_normal(&rng) * 3;
    static const char *names[] = {"defaults",        "top_p alone", "typical",
                                  "penalties + dry", "greedy",      "mirostat 1"};
    for (int v = 0; v < 6; v++) {
        rdg_sampler_params p = off();
        rdg_error e;
        struct timespec a, b;
        int32_t token;
        if (v == 0) rdg_sampler_defaults(&p);
        if (v == 1) p.top_p = 0.95f;
        if (v == 2) p.typical_p = 0.9f;
        if (v == 3) p.repeat_penalty = 1.1f, p.dry_multiplier = 0.8f, p.top_k = 40;
        if (v == 4) p.temperature = 0;
        if (v == 5) p.mirostat = 1;
        rdg_sampler *s = create(&p, N);
        for (int i = 0; i < 8000; i++) rdg_sampler_accept(s, i % 500, &e);
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < PICKS; i++) rdg_sampler_pick(s, x, &token, &e);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("%-16s %8.0f us a pick\n", names[v],
               ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / PICKS / 1e3);
        rdg_sampler_destroy(s);
    }
    rdg_free(x);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_temperature),
        cmocka_unit_test(test_dynatemp),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_top_p),
        cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_top_n_sigma),
        cmocka_unit_test(test_typical),
        cmocka_unit_test(test_xtc),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_mirostat),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_draw),
        cmocka_unit_test(test_one_definition),
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_bad_logits),
        cmocka_unit_test(test_bad_params),
    };
    test_seed = argc > 1 && strcmp(argv[1], "bench") ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)test_seed);
    rdg_rng_seed(&rng, test_seed);
    if (argc > 1 && strcmp(argv[1], "bench") == 0) return bench();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
