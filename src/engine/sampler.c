/* The sampler: parameters, the accepted tokens, and the draw. The formulas are in sampler_stages.c.
 * Bias comes first, always; a token whose logit is -inf afterwards is out of the game. Greedy (temperature <=
 * 0) takes the largest logit after bias, penalties and DRY; mirostat replaces the filters.
 *
 * Settings of temperature, top-k, top-p and min-p alone are left to the operation `sample`, whatever the
 * device: one definition and one order of random numbers. The draw after the stages follows it: in rising
 * order of ids, with its weights. */
#include "engine/sampler_internal.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "ops/sample/sample_weight.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_ORDER "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
enum { MAX_VOCAB = 1 << 24, MAX_WINDOW = 1 << 24, FIRST_HISTORY = 4096 };

void rdg_sampler_defaults(rdg_sampler_params *p)
{
    *p = (rdg_sampler_params){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical_p = 1,
        .xtc_threshold = 0.1f,
        .repeat_penalty = 1,
        .penalty_last_n = 64,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_last_n = -1,
        .dynatemp_exponent = 1,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1f,
    };
}

/* Checks ---------------------------------------------------------------------------------------------- */

static rdg_err check_numbers(const rdg_sampler_params *p, rdg_error *e)
{
    const struct {
        const char *name;
        double value, low, high;
    } rules[] = {
        {"temperature", p->temperature, -1e6, 1e6},
        {"top_k", p->top_k, 0, INT32_MAX},
        {"top_p", p->top_p, 0, 1},
        {"min_p", p->min_p, 0, 1},
        {"typical_p", p->typical_p, 0, 1},
        {"top_n_sigma", p->top_n_sigma, 0, 1e6},
        {"xtc_probability", p->xtc_probability, 0, 1},
        {"xtc_threshold", p->xtc_threshold, 0, 1},
        {"repeat_penalty", p->repeat_penalty, 1e-3, 1e3},
        {"frequency_penalty", p->frequency_penalty, -1e3, 1e3},
        {"presence_penalty", p->presence_penalty, -1e3, 1e3},
        {"penalty_last_n", p->penalty_last_n, -1, MAX_WINDOW},
        {"dry_multiplier", p->dry_multiplier, 0, 1e3},
        {"dry_base", p->dry_base, 1, 1e3},
        {"dry_allowed_length", p->dry_allowed_length, 0, INT32_MAX},
        {"dry_last_n", p->dry_last_n, -1, MAX_WINDOW},
        {"dynatemp_range", p->dynatemp_range, 0, 1e6},
        {"dynatemp_exponent", p->dynatemp_exponent, 0, 1e3},
        {"mirostat", p->mirostat, 0, 2},
        {"mirostat_tau", p->mirostat_tau, 0, 1e3},
        {"mirostat_eta", p->mirostat_eta, 0, 1e3},
    };
    for (int i = 0; i < RDG_COUNTOF(rules); i++)
        if (!(rules[i].value >= rules[i].low && rules[i].value <= rules[i].high)) /* NaN fails both */
            return rdg_fail(e, RDG_E_ARGUMENT, "sampler: %s is %g; it must be between %g and %g",
                            rules[i].name, rules[i].value, rules[i].low, rules[i].high);
    return RDG_OK;
}

static rdg_err check_lists(const rdg_sampler_params *p, int64_t n_vocab, rdg_error *e)
{
    if (n_vocab < 1 || n_vocab > MAX_VOCAB)
        return rdg_fail(e, RDG_E_ARGUMENT, "sampler: n_vocab is %lld; it must be between 1 and %d",
                        (long long)n_vocab, MAX_VOCAB);
    if (p->n_bias < 0 || (p->n_bias > 0 && !p->bias))
        return rdg_fail(e, RDG_E_ARGUMENT, "sampler: n_bias is %d with %s list", p->n_bias,
                        p->bias ? "a" : "no");
    if (p->n_dry_breakers < 0 || (p->n_dry_breakers > 0 && !p->dry_breakers))
        return rdg_fail(e, RDG_E_ARGUMENT, "sampler: n_dry_breakers is %d with %s list", p->n_dry_breakers,
                        p->dry_breakers ? "a" : "no");
    for (int i = 0; i < p->n_bias; i++) {
        const rdg_logit_bias *b = &p->bias[i];
        if (b->token < 0 || b->token >= n_vocab)
            return rdg_fail(e, RDG_E_ARGUMENT, "sampler: bias %d is for token %d; the vocabulary has %lld", i,
                            (int)b->token, (long long)n_vocab);
        if (isnan(b->bias) || b->bias > 1e30f || (b->bias < -1e30f && !isinf(b->bias)))
            return rdg_fail(
                e, RDG_E_ARGUMENT,
                "sampler: the bias of token %d is %g; it must be finite, or -inf to ban the token",
                (int)b->token, b->bias);
    }
    for (int i = 0; i < p->n_dry_breakers; i++)
        if (p->dry_breakers[i] < 0 || p->dry_breakers[i] >= n_vocab)
            return rdg_fail(e, RDG_E_ARGUMENT, "sampler: DRY breaker %d is token %d; the vocabulary has %lld",
                            i, (int)p->dry_breakers[i], (long long)n_vocab);
    return RDG_OK;
}

/* Resolves the order to the stages that are switched on. */
static rdg_err read_order(rdg_sampler *s, const char *order, rdg_error *e)
{
    const char *at = order ? order : DEFAULT_ORDER;
    uint32_t seen = 0;
    while (*at) {
        size_t n = strcspn(at, ";");
        int found = -1;
        for (int i = 0; i < RDG_SAMPLER_MAX_STAGES; i++)
            if (strlen(rdg_sampler_stages[i].name) == n && memcmp(rdg_sampler_stages[i].name, at, n) == 0)
                found = i;
        if (found < 0)
            return rdg_fail(e, RDG_E_ARGUMENT, "sampler: order names an unknown stage \"%.*s\"; known: %s",
                            (int)RDG_MIN(n, (size_t)64), at, DEFAULT_ORDER);
        if (seen >> found & 1)
            return rdg_fail(e, RDG_E_ARGUMENT, "sampler: order names the stage %s twice",
                            rdg_sampler_stages[found].name);
        seen |= 1u << found;
        if (rdg_sampler_stages[found].active(&s->params))
            s->stages[s->n_stages++] = &rdg_sampler_stages[found];
        at += n;
        if (*at == ';') at++;
    }
    return RDG_OK;
}

static bool has_stage(const rdg_sampler *s, const char *name)
{
    for (int i = 0; i < s->n_stages; i++)
        if (strcmp(s->stages[i]->name, name) == 0) return true;
    return false;
}

/* The first setting that `sample` does not know. Greedy needs no filter. */
static void find_simple(rdg_sampler *s)
{
    static const char *const in_order[] = {"top_k", "top_p", "min_p", "temperature"};
    const rdg_sampler_params *p = &s->params;
    const bool greedy = p->temperature <= 0;
    const struct {
        const char *name;
        double value, off;
        bool used;
    } others[] = {
        {"n_bias", p->n_bias, 0, true},
        {"repeat_penalty", p->repeat_penalty, 1, has_stage(s, "penalties")},
        {"frequency_penalty", p->frequency_penalty, 0, has_stage(s, "penalties")},
        {"presence_penalty", p->presence_penalty, 0, has_stage(s, "penalties")},
        {"dry_multiplier", p->dry_multiplier, 0, has_stage(s, "dry")},
        {"mirostat", p->mirostat, 0, !greedy},
        {"top_n_sigma", p->top_n_sigma, 0, !greedy && has_stage(s, "top_n_sigma")},
        {"typical_p", p->typical_p, 1, !greedy && has_stage(s, "typ_p")},
        {"xtc_probability", p->xtc_probability, 0, !greedy && has_stage(s, "xtc")},
        {"dynatemp_range", p->dynatemp_range, 0, !greedy && has_stage(s, "temperature")},
    };
    for (int i = 0; i < RDG_COUNTOF(others) && !s->not_simple[0]; i++)
        if (others[i].used && others[i].value != others[i].off)
            snprintf(s->not_simple, sizeof s->not_simple, "%s is %g", others[i].name, others[i].value);
    for (int i = 0, at = 0; i < s->n_stages && !greedy && !s->not_simple[0]; i++, at++) {
        while (at < RDG_COUNTOF(in_order) && strcmp(in_order[at], s->stages[i]->name)) at++;
        if (at == RDG_COUNTOF(in_order))
            snprintf(s->not_simple, sizeof s->not_simple, "the order puts %s elsewhere than usual",
                     s->stages[i]->name);
    }
    s->simple = !s->not_simple[0];
    s->sample = (rdg_sample_params){.temperature = has_stage(s, "temperature") || greedy ? p->temperature : 1,
                                    .top_k = has_stage(s, "top_k") ? p->top_k : 0,
                                    .top_p = has_stage(s, "top_p") ? p->top_p : 1,
                                    .min_p = has_stage(s, "min_p") ? p->min_p : 0};
}

/* Life ------------------------------------------------------------------------------------------------ */

static rdg_err allocate(rdg_sampler *s, rdg_error *e)
{
    const rdg_sampler_params *p = &s->params;
    size_t n = (size_t)s->n_vocab;
    size_t bytes = RDG_MAX(2 * n * sizeof *s->candidates, rdg_sample_work_bytes(s->n_vocab));
    s->candidates = rdg_alloc(bytes);
    bool ok = s->candidates;
    s->scratch = ok ? s->candidates + n : NULL;
    if (p->n_bias) {
        s->bias = rdg_alloc_array((size_t)p->n_bias, sizeof *s->bias);
        if (s->bias) memcpy(s->bias, p->bias, (size_t)p->n_bias * sizeof *s->bias);
        ok = ok && s->bias;
    }
    if (has_stage(s, "penalties")) {
        s->count = rdg_alloc_array(n, sizeof *s->count);
        ok = ok && s->count;
    }
    if (has_stage(s, "typ_p")) {
        s->logit_of = rdg_alloc_array(n, sizeof *s->logit_of);
        ok = ok && s->logit_of;
    }
    if (has_stage(s, "dry")) {
        s->dry_match = rdg_alloc_array(n, sizeof *s->dry_match);
        s->breaker = rdg_alloc_array(n, sizeof *s->breaker);
        ok = ok && s->dry_match && s->breaker;
        for (int i = 0; ok && i < p->n_dry_breakers; i++) s->breaker[p->dry_breakers[i]] = 1;
    }
    if (!ok)
        return rdg_fail(e, RDG_E_NOMEM, "sampler: no memory for a vocabulary of %lld", (long long)s->n_vocab);
    s->params.bias = s->bias;
    s->params.dry_breakers = NULL; /* now in breaker[] */
    s->params.order = NULL;        /* now in stages[] */
    return RDG_OK;
}

rdg_err rdg_sampler_create(const rdg_sampler_params *p, int64_t n_vocab, rdg_sampler **out, rdg_error *e)
{
    *out = NULL;
    rdg_err err = check_numbers(p, e);
    if (!err) err = check_lists(p, n_vocab, e);
    if (err) return err;
    rdg_sampler *s = rdg_alloc(sizeof *s);
    if (!s) return rdg_fail(e, RDG_E_NOMEM, "sampler: no memory");
    s->params = *p;
    s->n_vocab = n_vocab;
    err = read_order(s, p->order, e);
    if (!err) find_simple(s);
    if (!err) err = allocate(s, e);
    if (err) {
        rdg_sampler_destroy(s);
        return err;
    }
    rdg_sampler_reset(s);
    *out = s;
    return RDG_OK;
}

void rdg_sampler_destroy(rdg_sampler *s)
{
    if (!s) return;
    rdg_free(s->dry_z);
    rdg_free(s->history);
    rdg_free(s->breaker);
    rdg_free(s->dry_match);
    rdg_free(s->logit_of);
    rdg_free(s->count);
    rdg_free(s->bias);
    rdg_free(s->candidates);
    rdg_free(s);
}

void rdg_sampler_reset(rdg_sampler *s)
{
    rdg_rng_seed(&s->rng, s->params.seed);
    s->mu = 2.0 * s->params.mirostat_tau;
    s->n_picks = 0;
    s->n_history = 0;
    if (s->count) memset(s->count, 0, (size_t)s->n_vocab * sizeof *s->count);
}

/* How many accepted tokens any stage looks back on; -1: all. */
static int64_t window(const rdg_sampler *s)
{
    int64_t penalties = s->count ? s->params.penalty_last_n : 0, dry = s->breaker ? s->params.dry_last_n : 0;
    return penalties < 0 || dry < 0 ? -1 : RDG_MAX(penalties, dry);
}

/* Room for one more token. A bounded window keeps between one and two windows of tokens, so that the trimming
 * costs nothing on average; the memory is taken with the first tokens, and grows afterwards only for a window
 * of -1. */
static rdg_err make_room(rdg_sampler *s, int64_t look_back, rdg_error *e)
{
    if (look_back >= 0 && s->n_history == 2 * (size_t)look_back) {
        memmove(s->history, s->history + look_back, (size_t)look_back * sizeof *s->history);
        s->n_history = (size_t)look_back;
    }
    size_t want = s->history_cap < FIRST_HISTORY ? FIRST_HISTORY : s->n_history;
    if (!rdg_grow(&s->history, want, &s->history_cap, sizeof *s->history) ||
        (s->breaker && !rdg_grow(&s->dry_z, want, &s->dry_z_cap, sizeof *s->dry_z)))
        return rdg_fail(e, RDG_E_NOMEM, "sampler: no memory for a history of %zu tokens", s->n_history + 1);
    return RDG_OK;
}

rdg_err rdg_sampler_accept(rdg_sampler *s, int32_t token, rdg_error *e)
{
    if (token < 0 || token >= s->n_vocab)
        return rdg_fail(e, RDG_E_ARGUMENT, "sampler: accepted token %d; the vocabulary has %lld", (int)token,
                        (long long)s->n_vocab);
    int64_t look_back = window(s);
    if (look_back == 0) return RDG_OK;
    rdg_err err = make_room(s, look_back, e);
    if (err) return err;
    s->history[s->n_history++] = token;
    if (s->count) {
        s->count[token]++;
        int64_t last_n = s->params.penalty_last_n;
        if (last_n > 0 && s->n_history > (size_t)last_n)
            s->count[s->history[s->n_history - 1 - (size_t)last_n]]--;
    }
    return RDG_OK;
}

/* Picking --------------------------------------------------------------------------------------------- */

static rdg_err load(rdg_sampler *s, const float *logits, rdg_error *e)
{
    int64_t n = s->n_vocab, n_out = 0;
    for (int64_t i = 0; i < n; i++) {
        s->candidates[i] = (rdg_candidate){logits[i], (int32_t)i};
        if (logits[i] - logits[i] == 0) continue; /* finite */
        if (!(logits[i] < 0))
            return rdg_fail(e, RDG_E_ARGUMENT,
                            "sampler: the logit of token %lld is %s: the model's output is broken",
                            (long long)i, isnan(logits[i]) ? "NaN" : "+inf");
        n_out++;
    }
    for (int i = 0; i < s->params.n_bias; i++) {
        rdg_candidate *c = &s->candidates[s->bias[i].token];
        if (isinf(c->logit)) continue;
        c->logit += s->bias[i].bias;
        if (c->logit > 1e38f) c->logit = 1e38f;
        if (isinf(c->logit)) n_out++;
    }
    if (n_out) {
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++)
            if (!isinf(s->candidates[i].logit)) s->candidates[kept++] = s->candidates[i];
        n = kept;
    }
    if (n == 0)
        return rdg_fail(e, RDG_E_ARGUMENT, "sampler: every logit is -inf%s: there is no token to pick",
                        s->params.n_bias ? " after the logit bias" : "");
    s->n = n;
    s->n_sorted = 0;
    return RDG_OK;
}

static rdg_err run_stages(rdg_sampler *s, const float *logits, rdg_error *e)
{
    bool greedy = s->params.temperature <= 0;
    rdg_err err = load(s, logits, e);
    if (err) return err;
    for (int i = 0; i < s->n_stages; i++) {
        const rdg_stage *stage = s->stages[i];
        if (greedy && stage->kind != RDG_STAGE_ADJUST) continue;
        if (s->params.mirostat && stage->kind == RDG_STAGE_FILTER) continue;
        stage->apply(s);
    }
    if (greedy) {
        rdg_candidate best = s->candidates[0];
        for (int64_t i = 1; i < s->n; i++)
            if (s->candidates[i].logit > best.logit) best = s->candidates[i];
        s->candidates[0] = best;
        s->n = 1;
    }
    return RDG_OK;
}

/* Draws among the candidates by their probabilities. */
static int64_t draw(rdg_sampler *s, uint32_t step)
{
    if (s->n == 1) return 0;
    rdg_sampler_forget_order(s);
    const float max = rdg_sampler_max(s), scale = rdg_sample_scale(1);
    uint64_t total = 0, weight;
    for (int64_t i = 0; i < s->n; i++) total += rdg_sample_weight((max - s->candidates[i].logit) * scale);
    uint64_t left = rdg_sample_target(total, s->params.seed, step);
    int64_t i = 0;
    while (left >= (weight = rdg_sample_weight((max - s->candidates[i].logit) * scale))) {
        left -= weight;
        i++;
    }
    return i;
}

rdg_err rdg_sampler_pick(rdg_sampler *s, const float *logits, int32_t *token, rdg_error *e)
{
    const uint32_t step = s->n_picks++;
    if (s->simple) {
        *token = rdg_sample_row(&s->sample, logits, s->n_vocab, s->params.seed, step, s->candidates);
        return *token < 0 ? load(s, logits, e) : RDG_OK; /* which says what is wrong with the logits */
    }
    rdg_err err = run_stages(s, logits, e);
    if (err) return err;
    if (s->params.mirostat && s->params.temperature > 0) {
        /* Surprise is measured on the distribution before the cut, as the bound is. */
        float max = rdg_sampler_max(s);
        double log_sum = log(rdg_sampler_sum(s, max)) + max;
        rdg_mirostat_cut(s);
        int64_t i = draw(s, step);
        double surprise = (log_sum - s->candidates[i].logit) / log(2.0);
        s->mu -= s->params.mirostat_eta * (surprise - s->params.mirostat_tau);
        *token = s->candidates[i].id;
        return RDG_OK;
    }
    *token = s->candidates[draw(s, step)].id;
    return RDG_OK;
}

rdg_err rdg_sampler_distribution(rdg_sampler *s, const float *logits, double *probability, rdg_error *e)
{
    rdg_err err = run_stages(s, logits, e);
    if (err) return err;
    if (s->params.mirostat && s->params.temperature > 0) rdg_mirostat_cut(s);
    float max = rdg_sampler_max(s);
    double sum = rdg_sampler_sum(s, max);
    memset(probability, 0, (size_t)s->n_vocab * sizeof *probability);
    for (int64_t i = 0; i < s->n; i++)
        probability[s->candidates[i].id] = exp((double)s->candidates[i].logit - max) / sum;
    return RDG_OK;
}
