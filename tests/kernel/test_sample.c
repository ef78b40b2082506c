/* sample as it is used: many steps in a row on a device, without the host in between.
 *
 *  - the draws of many steps follow the exact distribution (chi-square; a false alarm once in a thousand
 * million runs)
 *  - each step picks what the C version picks for the same logits, seed and step: tokens, ring, position and
 * step
 *  - broken logits come out as what they are, and the scratch serves the next step all the same
 *
 * Fresh data each run; the seed is printed. Usage: test_sample [DEVICE [SEED]]; DEVICE cpu looks at the C
 * version alone; without a device it is skipped. */
#include "base/clock.h"
#include "base/rng.h"
#include "ops/sample/sample_step.h"
#include "ops/sample/sample_weight.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 256, ALARM_SIGMAS = 6 };

typedef struct bench {
    rdg_device *d; /* NULL: the C version */
    rdg_gpu_cache *cache;
    rdg_rng rng;
    int failures;
} bench;

typedef struct trial {
    const float *logits;
    int64_t n;
    rdg_sample_params p;
    uint64_t seed;
} trial;

static void need(rdg_err err, const rdg_error *e)
{
    if (!err) return;
    printf("%s: %s\n", rdg_err_name(err), e->message);
    exit(1);
}

static void expect(bench *b, bool ok, const char *what)
{
    if (!ok) printf("FAIL: %s\n", what);
    b->failures += !ok;
}

static void by_c(const trial *t, uint32_t first_step, int n_steps, int32_t *ids)
{
    void *work = malloc(rdg_sample_work_bytes(t->n));
    for (int i = 0; i < n_steps; i++)
        ids[i] = rdg_sample_row(&t->p, t->logits, t->n, t->seed, first_step + (uint32_t)i, work);
    free(work);
}

/* What a device keeps for a trial. */
typedef struct loop {
    rdg_buffer *logits, *words, *scratch, *ring;
    rdg_list *list;
    int32_t *host; /* of words: draw, then token, then position, then guards */
} loop;

enum { AT_TOKEN = 64, AT_POSITION = 128, N_WORDS = 192, GUARD = 0x5a5a5a5a };

static void start(bench *b, const trial *t, uint32_t first_step, loop *x)
{
    rdg_error e;
    rdg_gpu_dispatch d[RDG_GPU_MAX_DISPATCHES];
    const uint64_t scratch = rdg_sample_scratch_bytes(&t->p, t->n);
    rdg_event done;
    memset(x, 0, sizeof *x);
    need(rdg_buffer_create(b->d, RDG_MEMORY_SHARED, (uint64_t)t->n * 4, "logits", &x->logits, &e), &e);
    need(rdg_buffer_create(b->d, RDG_MEMORY_SHARED, N_WORDS * 4, "words", &x->words, &e), &e);
    need(rdg_buffer_create(b->d, RDG_MEMORY_READBACK, STEPS * 4, "ring", &x->ring, &e), &e);
    need(rdg_buffer_create(b->d, RDG_MEMORY_DEVICE, scratch, "scratch", &x->scratch, &e), &e);
    need(rdg_list_create(b->d, 0, 0, "clear", &x->list, &e), &e);
    rdg_list_fill(x->list, x->scratch, 0, scratch, 0);
    need(rdg_list_finish(x->list, &e), &e);
    need(rdg_submit(b->d, x->list, NULL, 0, &done, &e), &e);
    need(rdg_event_wait(b->d, done, -1, &e), &e);
    rdg_list_destroy(x->list);
    memcpy(rdg_buffer_host(x->logits), t->logits, (size_t)t->n * 4);
    x->host = rdg_buffer_host(x->words);
    for (int i = 0; i < N_WORDS; i++) x->host[i] = GUARD;
    const uint32_t draw[3] = {(uint32_t)t->seed, (uint32_t)(t->seed >> 32), first_step};
    memcpy(x->host, draw, sizeof draw);
    x->host[AT_POSITION] = 1000;
    const uint64_t words = rdg_buffer_address(x->words);
    const rdg_sample_step s = {.logits = rdg_buffer_address(x->logits),
                               .n = t->n,
                               .draw = words,
                               .id = words + 4 * AT_TOKEN,
                               .position = words + 4 * AT_POSITION,
                               .ring = rdg_buffer_address(x->ring),
                               .ring_size = STEPS};
    memset(d, 0, sizeof d);
    int n = rdg_sample_step_encode(&t->p, &s, rdg_buffer_address(x->scratch), d);
    need(rdg_list_create(b->d, 0, 0, "steps", &x->list, &e), &e);
    for (int i = 0; i < STEPS; i++) {
        rdg_list_barrier(x->list);
        need(rdg_gpu_dispatch_all(b->cache, x->list, d, n, &e), &e);
    }
    need(rdg_list_finish(x->list, &e), &e);
}

static void run(bench *b, loop *x)
{
    rdg_error e;
    rdg_event done;
    need(rdg_submit(b->d, x->list, NULL, 0, &done, &e), &e);
    need(rdg_event_wait(b->d, done, -1, &e), &e);
}

static void finish(loop *x)
{
    rdg_list_destroy(x->list);
    rdg_buffer_destroy(x->ring);
    rdg_buffer_destroy(x->scratch);
    rdg_buffer_destroy(x->words);
    rdg_buffer_destroy(x->logits);
}

static int falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* As sample.h defines it for top-p. */
static double weight(double max, double logit)
{
    return exp2(-(double)((float)(max - logit) * rdg_sample_scale(1)));
}

/* The exact distribution, without ties at a cut: those would depend on the order. */
static void distribution(const trial *t, double *p)
{
    double *sorted = malloc((size_t)t->n * sizeof *sorted), max = -INFINITY, sum = 0, held = 0;
    int64_t n = t->n;
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = t->logits[i];
        max = fmax(max, t->logits[i]);
    }
    qsort(sorted, (size_t)n, sizeof *sorted, falling);
    if (t->p.top_k > 0 && t->p.top_k < n) n = t->p.top_k;
    for (int64_t i = 0; i < n; i++) sum += weight(max, sorted[i]);
    for (int64_t i = 0; i < n && t->p.top_p < 1; i++) {
        held += weight(max, sorted[i]);
        if (held < (double)t->p.top_p * sum) continue;
        n = i + 1;
    }
    const float far = t->p.min_p > 0 ? (float)-log((double)t->p.min_p) : INFINITY;
    sum = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const bool in = t->logits[i] >= sorted[n - 1] && (float)(max - t->logits[i]) <= far;
        sum += p[i] = in ? exp((t->logits[i] - max) / (double)t->p.temperature) : 0;
    }
    for (int64_t i = 0; i < t->n; i++) p[i] /= sum;
    free(sorted);
}

/* Tokens that are expected fewer than ten times count together. */
static void follows(bench *b, const trial *t, const int64_t *hits, int64_t n_draws)
{
    char what[128];
    double *p = malloc((size_t)t->n * sizeof *p), chi = 0, rest = 0, rest_hits = 0;
    int bins = 0;
    bool impossible = false;
    distribution(t, p);
    for (int64_t i = 0; i < t->n; i++) {
        double want = p[i] * (double)n_draws, have = (double)hits[i];
        impossible = impossible || (p[i] == 0 && hits[i]);
        if (want < 10) {
            rest += want;
            rest_hits += have;
            continue;
        }
        chi += (have - want) * (have - want) / want;
        bins++;
    }
    if (rest > 1) {
        chi += (rest_hits - rest) * (rest_hits - rest) / rest;
        bins++;
    }
    /* Wilson and Hilferty: the cube root of chi-square by its degrees of freedom is nearly normal */
    double f = bins > 1 ? bins - 1 : 1, a = 2 / (9 * f), bound = f * pow(1 - a + ALARM_SIGMAS * sqrt(a), 3);
    snprintf(
        what, sizeof what, "T %g, top-k %d, top-p %g, min-p %g: chi-square %.1f of at most %.1f, %d bins",
        (double)t->p.temperature, (int)t->p.top_k, (double)t->p.top_p, (double)t->p.min_p, chi, bound, bins);
    printf("%s\n", what);
    expect(b, !impossible, "a token was drawn that the cuts exclude");
    expect(b, bins > 0, "no token came often enough");
    expect(b, chi < bound, what);
    free(p);
}

static void check_distribution(bench *b, int64_t n, float spread, rdg_sample_params p, int rounds)
{
    float *logits = malloc((size_t)n * sizeof *logits);
    int64_t *hits = calloc((size_t)n, sizeof *hits);
    for (int64_t i = 0; i < n; i++) logits[i] = spread * rdg_rng_normal(&b->rng);
    const trial t = {logits, n, p, rdg_rng_next(&b->rng)};
    const uint32_t first = (uint32_t)rdg_rng_next(&b->rng);
    int32_t ids[STEPS];
    loop x;
    if (b->d) start(b, &t, first, &x);
    for (int r = 0; r < rounds; r++) {
        const uint32_t step = first + (uint32_t)r * STEPS;
        by_c(&t, step, STEPS, ids);
        if (b->d) {
            run(b, &x);
            const volatile int32_t *ring = rdg_buffer_host(x.ring);
            int wrong = 0;
            for (int i = 0; i < STEPS; i++) wrong += ring[(step + (uint32_t)i) % STEPS] != ids[i];
            if (wrong) printf("%d of %d steps\n", wrong, STEPS);
            expect(b, !wrong, "the device picks otherwise than the C version");
            expect(b, x.host[AT_TOKEN] == ids[STEPS - 1], "the token is not the last pick");
            expect(b, x.host[AT_POSITION] == 1000 + (r + 1) * STEPS,
                   "the position did not move on with each step");
            expect(b, (uint32_t)x.host[2] == step + STEPS, "the step did not move on");
        }
        for (int i = 0; i < STEPS; i++) hits[ids[i] < 0 ? 0 : ids[i]]++;
    }
    if (b->d) {
        int touched = 0;
        for (int i = 0; i < N_WORDS; i++)
            touched += i > 2 && i != AT_TOKEN && i != AT_POSITION && x.host[i] != GUARD;
        expect(b, !touched, "words beside the results were written");
        finish(&x);
    }
    follows(b, &t, hits, (int64_t)rounds * STEPS);
    free(hits);
    free(logits);
}

/* The weights of a device bit for bit: their sum, which it leaves in the scratch by bins (sample.comp:
 * S_BINS). */
static void check_weights(bench *b)
{
    enum { N = 20000, BINS = 1024, BINS_AT = 16 + 2 * 256, WORDS = BINS_AT + 3 * BINS };
    static float logits[N];
    const trial t = {logits, N, {1, 40, 0.9f, 0}, 1};
    float max = -INFINITY;
    uint64_t want = 0, got = 0;
    uint32_t count = 0;
    rdg_buffer *back;
    rdg_error e;
    rdg_event done;
    loop x;
    for (int i = 0; i < N; i++) {
        logits[i] = (float)(rdg_rng_uniform(&b->rng) * 48);
        max = fmaxf(max, logits[i]);
    }
    for (int i = 0; i < N; i++) want += rdg_sample_weight((max - logits[i]) * rdg_sample_scale(1));
    start(b, &t, 0, &x);
    run(b, &x);
    rdg_list_destroy(x.list);
    need(rdg_buffer_create(b->d, RDG_MEMORY_READBACK, WORDS * 4, "back", &back, &e), &e);
    need(rdg_list_create(b->d, 0, 0, "back", &x.list, &e), &e);
    rdg_list_copy(x.list, back, 0, x.scratch, 0, WORDS * 4);
    need(rdg_list_finish(x.list, &e), &e);
    need(rdg_submit(b->d, x.list, NULL, 0, &done, &e), &e);
    need(rdg_event_wait(b->d, done, -1, &e), &e);
    const uint32_t *bins = (const uint32_t *)rdg_buffer_host(back) + BINS_AT;
    for (int i = 0; i < BINS; i++) {
        count += bins[3 * i];
        got += bins[3 * i + 1] | (uint64_t)bins[3 * i + 2] << 32;
    }
    printf("weights of %u logits: %llu, on the device %llu\n", count, (unsigned long long)want,
           (unsigned long long)got);
    expect(b, count == N && got == want, "the device's weights differ");
    rdg_buffer_destroy(back);
    finish(&x);
}

/* Broken, empty, and good logits again in the same scratch. */
static void check_broken(bench *b)
{
    enum { N = 3000 };
    static float logits[N];
    const rdg_sample_params kinds[] = {{0, 0, 1, 0}, {1, 0, 1, 0}, {0.8f, 40, 0.95f, 0.05f}};
    for (int k = 0; k < 3; k++) {
        const trial t = {logits, N, kinds[k], rdg_rng_next(&b->rng)};
        int32_t id, want;
        loop x;
        for (int i = 0; i < N; i++) logits[i] = rdg_rng_normal(&b->rng);
        by_c(&t, 7 + 4 * STEPS, 1, &want);
        if (b->d) start(b, &t, 7, &x);
        float *live = b->d ? rdg_buffer_host(x.logits) : logits;
        const struct {
            float value;
            int32_t id;
        } breaks[] = {
            {NAN, RDG_SAMPLE_BROKEN}, {INFINITY, RDG_SAMPLE_BROKEN}, {-INFINITY, RDG_SAMPLE_NOTHING}};
        for (int w = 0; w < 3; w++) {
            float saved[N];
            memcpy(saved, live, sizeof saved);
            for (int i = 0; i < (w == 2 ? N : 1); i++) live[w == 2 ? i : N / 2] = breaks[w].value;
            if (b->d) {
                run(b, &x);
                id = x.host[AT_TOKEN];
            } else {
                by_c(&t, 7, 1, &id);
            }
            expect(b, id == breaks[w].id, "broken logits are not reported as such");
            memcpy(live, saved, sizeof saved);
        }
        if (b->d) {
            run(b, &x);
            id = ((const volatile int32_t *)rdg_buffer_host(x.ring))[(7 + 3 * STEPS + STEPS) % STEPS];
            int32_t again[STEPS];
            by_c(&t, 7 + 3 * STEPS, STEPS, again);
            expect(b, x.host[AT_TOKEN] == again[STEPS - 1],
                   "after broken logits good ones are not picked from");
            finish(&x);
        }
    }
}

int main(int argc, char **argv)
{
    bench b = {0};
    rdg_error e;
    const char *name = argc > 1 ? argv[1] : "vulkan";
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)rdg_clock_ns();
    if (strcmp(name, "cpu")) {
        rdg_device_options o = {.validation = true};
        rdg_err rc = rdg_device_open(name, &o, &b.d, &e);
        if (rc) rc = rdg_device_open(name, NULL, &b.d, &e);
        if (rc) {
            printf("skipped: %s\n", e.message);
            return 77;
        }
        need(rdg_gpu_cache_create(b.d, &b.cache, &e), &e);
    }
    printf("%s, seed %llu\n", name, (unsigned long long)seed);
    rdg_rng_seed(&b.rng, seed);
    const int rounds = b.d ? 6 : 160;
    check_distribution(&b, 24, 1, (rdg_sample_params){1, 0, 1, 0}, rounds);
    check_distribution(&b, 24, 1, (rdg_sample_params){0.6f, 0, 1, 0}, rounds);
    check_distribution(&b, 701, 1.5f, (rdg_sample_params){1.4f, 20, 1, 0}, rounds);
    check_distribution(&b, 701, 2, (rdg_sample_params){1, 0, 0.8f, 0}, rounds);
    check_distribution(&b, 701, 2, (rdg_sample_params){1.2f, 0, 1, 0.1f}, rounds);
    check_distribution(&b, 2500, 2, (rdg_sample_params){0.8f, 40, 0.95f, 0.05f}, rounds);
    check_broken(&b);
    if (b.d) check_weights(&b);
    rdg_gpu_cache_destroy(b.cache);
    rdg_device_close(b.d);
    printf("%d failures\n", b.failures);
    return b.failures != 0;
}
