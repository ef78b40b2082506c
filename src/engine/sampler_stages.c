/* The stages of the sampler: each is one formula on the candidates. Sums are in double precision and in the
 * candidates' order, so the result depends on nothing but the logits and the accepted tokens.
 * Sorting is by radix, on the bits of the logit: linear whatever the logits are. */
#include "engine/sampler_internal.h"
#include "base/compiler.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

enum { DIGIT_BITS = 11, N_DIGITS = 3, N_BINS = 1 << DIGIT_BITS };

/* Order-preserving map of finite floats to unsigned integers; -0 and +0 are one value. */
static inline uint32_t logit_key(float f)
{
    uint32_t u = rdg_f32_bits(f + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static inline uint32_t digit(uint32_t key, int d)
{
    return (key >> (d * DIGIT_BITS)) & (N_BINS - 1);
}

/* Stable sort of c, largest logit first (or smallest id first); t is scratch of the same size. */
static void radix_sort(rdg_candidate *c, rdg_candidate *t, int64_t n, bool by_id)
{
    if (n <= 48) {
        for (int64_t i = 1; i < n; i++) {
            rdg_candidate x = c[i];
            int64_t j = i;
            for (; j > 0 && (by_id ? c[j - 1].id > x.id : c[j - 1].logit < x.logit); j--) c[j] = c[j - 1];
            c[j] = x;
        }
        return;
    }
    rdg_candidate *from = c, *to = t;
    for (int d = 0; d < N_DIGITS; d++) {
        uint32_t start[N_BINS] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++)
            start[digit(by_id ? (uint32_t)from[i].id : ~logit_key(from[i].logit), d)]++;
        for (int b = 0; b < N_BINS; b++) {
            uint32_t here = start[b];
            start[b] = sum;
            sum += here;
        }
        for (int64_t i = 0; i < n; i++)
            to[start[digit(by_id ? (uint32_t)from[i].id : ~logit_key(from[i].logit), d)]++] = from[i];
        rdg_candidate *swap = from;
        from = to;
        to = swap;
    }
    memcpy(c, from, (size_t)n * sizeof *c); /* an odd number of passes ends in t */
}

/* The key of the m-th largest of n > m candidates; *n_equal: how many with exactly this key belong to the m.
 */
static uint32_t select_key(const rdg_candidate *c, int64_t n, int64_t m, int64_t *n_equal)
{
    uint32_t key = 0, mask = 0;
    int64_t need = m;
    for (int d = N_DIGITS - 1; d >= 0; d--) {
        uint32_t bins[N_BINS] = {0};
        for (int64_t i = 0; i < n; i++) {
            uint32_t k = logit_key(c[i].logit);
            if ((k & mask) == key) bins[digit(k, d)]++;
        }
        int b = N_BINS - 1;
        while ((int64_t)bins[b] < need) need -= bins[b--];
        key |= (uint32_t)b << (d * DIGIT_BITS);
        mask |= (uint32_t)(N_BINS - 1) << (d * DIGIT_BITS);
    }
    *n_equal = need;
    return key;
}

void rdg_sampler_sort_top(rdg_sampler *s, int64_t m, bool keep_rest)
{
    rdg_candidate *rest = s->candidates + s->n_sorted;
    int64_t n_rest = s->n - s->n_sorted, need = m - s->n_sorted;
    if (need > 0 && need >= n_rest) {
        radix_sort(rest, s->scratch, n_rest, false);
        s->n_sorted = s->n;
    } else if (need > 0) {
        int64_t n_equal, n_top = 0, n_left = 0;
        uint32_t key = select_key(rest, n_rest, need, &n_equal);
        for (int64_t i = 0; i < n_rest; i++) {
            uint32_t k = logit_key(rest[i].logit);
            if (k > key || (k == key && n_equal-- > 0))
                s->scratch[n_top++] = rest[i];
            else if (keep_rest)
                rest[n_left++] = rest[i];
        }
        if (keep_rest) memmove(rest + need, rest, (size_t)n_left * sizeof *rest);
        memcpy(rest, s->scratch, (size_t)need * sizeof *rest);
        radix_sort(rest, s->scratch, need, false);
        s->n_sorted = m;
    }
    if (!keep_rest && s->n > m) {
        s->n = m;
        s->n_sorted = RDG_MIN(s->n_sorted, m);
    }
}

/* Logits are about to change by unequal amounts: back to rising id. */
void rdg_sampler_forget_order(rdg_sampler *s)
{
    if (s->n_sorted) radix_sort(s->candidates, s->scratch, s->n, true);
    s->n_sorted = 0;
}

float rdg_sampler_max(const rdg_sampler *s)
{
    float max = s->candidates[0].logit;
    if (s->n_sorted == 0)
        for (int64_t i = 1; i < s->n; i++) max = s->candidates[i].logit > max ? s->candidates[i].logit : max;
    return max;
}

double rdg_sampler_sum(const rdg_sampler *s, float max)
{
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) sum += exp((double)s->candidates[i].logit - max);
    return sum;
}

/* Keeps logits from `low` up; the order stays. */
static void keep_from(rdg_sampler *s, double low)
{
    int64_t n = 0, n_sorted = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->candidates[i].logit < low) continue;
        if (i < s->n_sorted) n_sorted++;
        s->candidates[n++] = s->candidates[i];
    }
    s->n = n;
    s->n_sorted = n_sorted;
}

/* -sum p ln p, in nats. */
static double entropy(const rdg_sampler *s, float max, double sum)
{
    double h = 0, log_sum = log(sum);
    for (int64_t i = 0; i < s->n; i++) {
        double log_p = (double)s->candidates[i].logit - max - log_sum;
        h -= exp(log_p) * log_p;
    }
    return h;
}

/* Penalties ------------------------------------------------------------------------------------------- */

/* positive logits / repeat, others * repeat, once a token; then - count * frequency - presence */
static void apply_penalties(rdg_sampler *s)
{
    const rdg_sampler_params *p = &s->params;
    rdg_sampler_forget_order(s);
    for (int64_t i = 0; i < s->n; i++) {
        rdg_candidate *c = &s->candidates[i];
        int32_t count = s->count[c->id];
        if (count == 0) continue;
        double l = c->logit;
        l = l > 0 ? l / p->repeat_penalty : l * p->repeat_penalty;
        l -= (double)count * p->frequency_penalty + p->presence_penalty;
        c->logit = (float)RDG_MAX(-1e30, RDG_MIN(1e30, l));
    }
}

static bool penalties_active(const rdg_sampler_params *p)
{
    return p->penalty_last_n != 0 &&
           (p->repeat_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0);
}

/* DRY: a token that would extend a repeat of n >= allowed tokens loses multiplier * base^(n - allowed). The
 * repeat lengths at all places come from one linear pass: with the text reversed they are its Z function. */
static void apply_dry(rdg_sampler *s)
{
    const rdg_sampler_params *p = &s->params;
    size_t n = s->n_history;
    if (p->dry_last_n >= 0 && n > (size_t)p->dry_last_n) n = (size_t)p->dry_last_n;
    const int32_t *last = s->history + s->n_history - 1; /* last[-i]: the text read backwards */
    size_t limit = 0;
    while (limit < n && !s->breaker[*(last - limit)]) limit++;
    if (n < 2 || limit == 0) return;

    rdg_sampler_forget_order(s);
    int32_t *z = s->dry_z;
    size_t left = 0, right = 0; /* the match found so far that reaches farthest: [left, right) */
    for (size_t i = 1; i < n; i++) {
        size_t k = 0;
        if (i < right) k = RDG_MIN((size_t)z[i - left], right - i);
        while (i + k < n && *(last - k) == *(last - (i + k))) k++;
        z[i] = (int32_t)k;
        if (i + k > right) {
            left = i;
            right = i + k;
        }
        int32_t next = *(last - (i - 1)), length = (int32_t)RDG_MIN(k, limit);
        if (!s->breaker[next] && length > s->dry_match[next]) s->dry_match[next] = length;
    }
    for (int64_t i = 0; i < s->n; i++) {
        rdg_candidate *c = &s->candidates[i];
        int32_t length = s->dry_match[c->id];
        if (length == 0 || length < p->dry_allowed_length) continue;
        double penalty = p->dry_multiplier * pow(p->dry_base, (double)(length - p->dry_allowed_length));
        c->logit = (float)RDG_MAX(-1e30, c->logit - RDG_MIN(penalty, 1e30));
    }
    for (size_t i = 0; i < n; i++) s->dry_match[*(last - i)] = 0;
}

static bool dry_active(const rdg_sampler_params *p)
{
    return p->dry_multiplier > 0 && p->dry_last_n != 0;
}

/* Filters --------------------------------------------------------------------------------------------- */

/* keeps logits >= max - n sigma, sigma the standard deviation over the candidates */
static void apply_top_n_sigma(rdg_sampler *s)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < s->n; i++) mean += s->candidates[i].logit;
    mean /= (double)s->n;
    for (int64_t i = 0; i < s->n; i++) {
        double d = s->candidates[i].logit - mean;
        square += d * d;
    }
    keep_from(s, rdg_sampler_max(s) - s->params.top_n_sigma * sqrt(square / (double)s->n));
}

static bool top_n_sigma_active(const rdg_sampler_params *p)
{
    return p->top_n_sigma > 0;
}

static void apply_top_k(rdg_sampler *s)
{
    rdg_sampler_sort_top(s, s->params.top_k, false);
}

static bool top_k_active(const rdg_sampler_params *p)
{
    return p->top_k > 0;
}

/* Candidates that lie nearest to the entropy in surprise, |-ln p - H| smallest, until they hold typical_p. */
static void apply_typical(rdg_sampler *s)
{
    float max = rdg_sampler_max(s);
    double sum = rdg_sampler_sum(s, max), h = entropy(s, max, sum), log_sum = log(sum), held = 0;
    rdg_sampler_forget_order(s);
    /* The same search as top-p's, with the distance (negative: nearest is largest) in place of the logit. */
    int64_t n = s->n, taken = 0;
    rdg_candidate *c = s->candidates;
    float *original = s->logit_of;
    for (int64_t i = 0; i < n; i++) {
        original[c[i].id] = c[i].logit;
        c[i].logit = (float)-fabs(log_sum + max - c[i].logit - h);
    }
    for (int64_t m = 64; taken < n && held < s->params.typical_p; m *= 4) {
        rdg_sampler_sort_top(s, m, true);
        for (; taken < s->n_sorted && held < s->params.typical_p; taken++)
            held += exp((double)original[c[taken].id] - max) / sum;
    }
    s->n = taken;
    for (int64_t i = 0; i < taken; i++) c[i].logit = original[c[i].id];
    rdg_sampler_forget_order(s);
}

static bool typical_active(const rdg_sampler_params *p)
{
    return p->typical_p < 1;
}

/* The most likely candidates until they hold top_p. Looks at 64 of them first and at four times as many each
 * time that they do not suffice. */
static void apply_top_p(rdg_sampler *s)
{
    float max = rdg_sampler_max(s);
    double sum = rdg_sampler_sum(s, max), held = 0;
    int64_t taken = 0;
    for (int64_t m = 64; taken < s->n; m *= 4) {
        rdg_sampler_sort_top(s, m, true);
        while (taken < s->n_sorted) {
            held += exp((double)s->candidates[taken++].logit - max) / sum;
            if (held >= s->params.top_p) {
                s->n = s->n_sorted = taken;
                return;
            }
        }
    }
}

static bool top_p_active(const rdg_sampler_params *p)
{
    return p->top_p < 1;
}

/* keeps p >= min_p * p_max */
static void apply_min_p(rdg_sampler *s)
{
    keep_from(s, rdg_sampler_max(s) + log((double)s->params.min_p));
}

static bool min_p_active(const rdg_sampler_params *p)
{
    return p->min_p > 0;
}

/* With xtc_probability: of the candidates with p >= threshold only the least likely stays (of equal ones, the
 * one with the highest id). The random number is drawn whether it is needed or not. */
static void apply_xtc(rdg_sampler *s)
{
    if (rdg_rng_uniform(&s->rng) >= s->params.xtc_probability) return;
    float max = rdg_sampler_max(s);
    double low = max + log(rdg_sampler_sum(s, max)) + log((double)s->params.xtc_threshold);
    int64_t last = -1, n = 0, n_above = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const rdg_candidate *c = &s->candidates[i];
        if (c->logit < low) continue;
        n_above++;
        if (last < 0 || c->logit < s->candidates[last].logit ||
            (c->logit == s->candidates[last].logit && c->id > s->candidates[last].id))
            last = i;
    }
    if (n_above < 2) return;
    int64_t n_sorted = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->candidates[i].logit >= low && i != last) continue;
        if (i < s->n_sorted) n_sorted++;
        s->candidates[n++] = s->candidates[i];
    }
    s->n = n;
    s->n_sorted = n_sorted;
}

static bool xtc_active(const rdg_sampler_params *p)
{
    return p->xtc_probability > 0 &&
           p->xtc_threshold <= 0.5f; /* two candidates cannot both be above a half */
}

/* logits / T. Dynamic: T goes from temperature - range to temperature + range with (H / ln n)^exponent. */
static void apply_temperature(rdg_sampler *s)
{
    const rdg_sampler_params *p = &s->params;
    double t = p->temperature;
    if (p->dynatemp_range > 0) {
        if (s->n < 2) return;
        float max = rdg_sampler_max(s);
        double low = RDG_MAX(0.0, t - p->dynatemp_range), high = t + p->dynatemp_range;
        double share = entropy(s, max, rdg_sampler_sum(s, max)) / log((double)s->n);
        t = low + (high - low) * pow(RDG_MAX(0.0, RDG_MIN(1.0, share)), p->dynatemp_exponent);
    }
    if (t == 1) return;
    t = RDG_MAX(t, 1e-9);
    for (int64_t i = 0; i < s->n; i++) {
        double l = s->candidates[i].logit / t;
        s->candidates[i].logit = (float)RDG_MAX(-1e30, RDG_MIN(1e30, l));
    }
}

static bool temperature_active(const rdg_sampler_params *p)
{
    return p->temperature != 1 || p->dynatemp_range > 0;
}

const rdg_stage rdg_sampler_stages[RDG_SAMPLER_MAX_STAGES] = {
    {"penalties", RDG_STAGE_ADJUST, penalties_active, apply_penalties},
    {"dry", RDG_STAGE_ADJUST, dry_active, apply_dry},
    {"top_n_sigma", RDG_STAGE_FILTER, top_n_sigma_active, apply_top_n_sigma},
    {"top_k", RDG_STAGE_FILTER, top_k_active, apply_top_k},
    {"typ_p", RDG_STAGE_FILTER, typical_active, apply_typical},
    {"top_p", RDG_STAGE_FILTER, top_p_active, apply_top_p},
    {"min_p", RDG_STAGE_FILTER, min_p_active, apply_min_p},
    {"xtc", RDG_STAGE_FILTER, xtc_active, apply_xtc},
    {"temperature", RDG_STAGE_TEMPERATURE, temperature_active, apply_temperature},
};

/* Mirostat -------------------------------------------------------------------------------------------- */

/* The exponent of Zipf's law that fits the most likely candidates: least squares of ln(p_i / p_(i+1)) on
 * ln((i + 1) / i), i from 1. */
static double zipf_exponent(const rdg_sampler *s, int64_t m)
{
    double tb = 0, tt = 0;
    for (int64_t i = 0; i + 1 < m; i++) {
        double t = log((double)(i + 2) / (double)(i + 1));
        tb += t * ((double)s->candidates[i].logit - s->candidates[i + 1].logit);
        tt += t * t;
    }
    return tt > 0 ? tb / tt : 1;
}

void rdg_mirostat_cut(rdg_sampler *s)
{
    if (s->params.mirostat == 2) { /* surprise -log2 p <= mu, and the most likely one in any case */
        float max = rdg_sampler_max(s);
        double low = max + log(rdg_sampler_sum(s, max)) - s->mu * log(2.0);
        if (low > max)
            rdg_sampler_sort_top(s, 1, false);
        else
            keep_from(s, low);
        return;
    }
    int64_t m = RDG_MIN(s->n, 100);
    rdg_sampler_sort_top(s, m, true);
    double exponent = zipf_exponent(s, m), epsilon = exponent - 1, n = (double)s->n;
    /* 1 - n^-epsilon over epsilon tends to ln n as epsilon tends to 0 */
    double norm = fabs(epsilon) < 1e-9 ? log(n) : (1 - pow(n, -epsilon)) / epsilon;
    double k = exponent > 0 ? pow(pow(2, s->mu) / norm, 1 / exponent) : n;
    rdg_sampler_sort_top(s, k >= n ? s->n : k < 1.5 ? 1 : (int64_t)(k + 0.5), false);
}
