/* The sampler's state and its table of stages.
 * A pick loads the logits into candidates, runs the stages in order, and draws. Candidates [0, n_sorted) are
 * the most likely ones in falling order; the others follow in rising id. Thus equal logits always rank by the
 * lower id, and no stage has to sort the whole vocabulary. */
#ifndef RDG_ENGINE_SAMPLER_INTERNAL_H
#define RDG_ENGINE_SAMPLER_INTERNAL_H

#include <ridge/sampler.h>
#include "base/rng.h"
#include "ops/sample/sample.h"

#include <stddef.h>

typedef struct rdg_candidate {
    float logit; /* always finite once loaded */
    int32_t id;
} rdg_candidate;

enum { RDG_SAMPLER_MAX_STAGES = 9 };

typedef enum rdg_stage_kind {
    RDG_STAGE_ADJUST,      /* changes logits: runs before greedy and mirostat too */
    RDG_STAGE_TEMPERATURE, /* skipped by greedy */
    RDG_STAGE_FILTER,      /* removes candidates: skipped by greedy and mirostat */
} rdg_stage_kind;

typedef struct rdg_stage {
    const char *name;
    rdg_stage_kind kind;
    bool (*active)(const rdg_sampler_params *p);
    void (*apply)(rdg_sampler *s);
} rdg_stage;

struct rdg_sampler {
    rdg_sampler_params params; /* its pointers point to the copies below */
    rdg_logit_bias *bias;
    uint8_t *breaker; /* per token id: stops DRY's matching; NULL without DRY */
    int64_t n_vocab;
    const rdg_stage *stages[RDG_SAMPLER_MAX_STAGES];
    int n_stages;

    rdg_candidate *candidates, *scratch; /* n_vocab each, in one block */
    int64_t n, n_sorted;
    float *logit_of;  /* per token id: scratch of typ_p; NULL without it */
    rdg_rng rng;      /* of XTC */
    uint32_t n_picks; /* which random number of the seed is next */
    /* Settings that the operation `sample` knows: it picks then, here or on a device. */
    bool simple;
    rdg_sample_params sample;
    char not_simple[96]; /* the first setting that it does not know; "" if simple */
    double mu;           /* mirostat: the surprise that is allowed next, in bits */

    int32_t *history; /* accepted tokens, oldest first; trimmed when no stage can see that far back */
    size_t n_history, history_cap;
    int32_t *count;     /* per token id: times in the penalty window; NULL without penalties */
    int32_t *dry_match; /* per token id: longest repeat that it would extend; all 0 between picks; NULL
                           without DRY */
    int32_t *dry_z;     /* scratch of DRY, one a token of history */
    size_t dry_z_cap;
};

extern const rdg_stage rdg_sampler_stages[RDG_SAMPLER_MAX_STAGES]; /* in the default order */

/* Makes the m most likely candidates a sorted prefix (all of them if there are fewer). The others are dropped
 * unless keep_rest. Linear in the number of candidates. */
void rdg_sampler_sort_top(rdg_sampler *s, int64_t m, bool keep_rest);
/* Back to rising ids, nothing sorted. */
void rdg_sampler_forget_order(rdg_sampler *s);
/* The largest logit among the candidates. */
float rdg_sampler_max(const rdg_sampler *s);
/* Sum of exp(logit - max) over the candidates, in their order. */
double rdg_sampler_sum(const rdg_sampler *s, float max);
/* Cuts the candidates by mirostat's current bound; the caller draws and moves the bound. */
void rdg_mirostat_cut(rdg_sampler *s);

/* The distribution that pick draws from: probability[n_vocab], 0 for what was cut. XTC draws its random
 * number and mirostat's bound is not changed. For tests and log-probabilities. */
rdg_err rdg_sampler_distribution(rdg_sampler *s, const float *logits, double *probability, rdg_error *e);

#endif
