/* From logits to the next token. The k-th pick since the last reset uses the k-th random number of the seed,
 * so that the same seed and the same logits give the same token, whatever the thread count and the device. */
#ifndef RIDGE_SAMPLER_H
#define RIDGE_SAMPLER_H

#include <ridge/error.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdg_sampler rdg_sampler;

typedef struct rdg_logit_bias {
    int32_t token;
    float bias;
} rdg_logit_bias;

/* A zero-initialised struct is not the default: call rdg_sampler_defaults. Every stage has a value that
 * switches it off, given in brackets. */
typedef struct rdg_sampler_params {
    uint64_t seed;
    float temperature;                         /* <= 0: greedy */
    int32_t top_k;                             /* [0] */
    float top_p;                               /* [1] */
    float min_p;                               /* [0] */
    float typical_p;                           /* [1] */
    float top_n_sigma;                         /* [0] */
    float xtc_probability, xtc_threshold;      /* [0], 0.1 */
    float repeat_penalty;                      /* [1] */
    float frequency_penalty, presence_penalty; /* [0] */
    int32_t penalty_last_n;                    /* 64; 0 = off, -1 = whole context */
    float dry_multiplier, dry_base;            /* [0], 1.75 */
    int32_t dry_allowed_length, dry_last_n;    /* 2, -1 = whole context */
    const int32_t *dry_breakers;               /* token ids at which repetition matching stops */
    int n_dry_breakers;
    float dynatemp_range, dynatemp_exponent; /* [0], 1 */
    int mirostat;                            /* [0], 1 or 2 */
    float mirostat_tau, mirostat_eta;        /* 5, 0.1 */
    const rdg_logit_bias *bias;
    int n_bias;
    const char *order; /* stages separated by ';':
                          "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"; NULL = this */
} rdg_sampler_params;
void rdg_sampler_defaults(
    rdg_sampler_params *p); /* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, seed 0 */

rdg_err rdg_sampler_create(const rdg_sampler_params *p, int64_t n_vocab, rdg_sampler **out, rdg_error *e);
void rdg_sampler_destroy(rdg_sampler *s);
/* Tells the sampler what the context holds (prompt tokens too), for the penalties. */
rdg_err rdg_sampler_accept(rdg_sampler *s, int32_t token, rdg_error *e);
/* Picks the next token from n_vocab logits (not changed). Does not accept it. NaN logits are an error. */
rdg_err rdg_sampler_pick(rdg_sampler *s, const float *logits, int32_t *token, rdg_error *e);
void rdg_sampler_reset(rdg_sampler *s); /* forgets accepted tokens, restarts the seed */

#ifdef __cplusplus
}
#endif
#endif
