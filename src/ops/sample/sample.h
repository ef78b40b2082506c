/* sample: one token from a row of logits, for a named random number.
 *
 * - logits: F32 [n]; -inf is never picked
 * - draw: I32 [3], seed (low, high word) and step: the same three give the same token
 * - id, out: I32 [1], the token; RDG_SAMPLE_BROKEN if a logit is NaN or +inf, RDG_SAMPLE_NOTHING if all are
 *   -inf
 *
 * temperature <= 0: the largest logit, the first of equals. Otherwise, with the logits in falling order and
 * equal ones by rising id, these cuts are made in turn:
 *
 * - top_k > 0: the first top_k stay
 * - top_p < 1: of those, the shortest row from the front with a weight w(1) of at least top_p of them all; at
 *   least one
 * - min_p > 0: of those, the ones with max - logit <= -ln(min_p), in f32
 *
 * Of what is left, in rising order of ids, the first token is picked with which the sum of the weights w(T)
 * exceeds the random number, uniform below their total.
 *
 * w(T) = 2^-y with y = (max - logit) * (log2(e) / T), the difference, the quotient and the product each
 * rounded to f32. Versions compute w as an integer, floor(2^38 w) up to an error of 2^-30 of it
 * (sample_weight.h): sums of integers do not depend on their order, so that every version and device picks
 * the same token of the same logits, and the random number, Philox(key seed, counter step), is compared with
 * the sum without rounding. */
#ifndef RDG_OPS_SAMPLE_H
#define RDG_OPS_SAMPLE_H

#include "ops/op.h"

typedef struct rdg_sample_params {
    float temperature;
    int32_t top_k;      /* 0 = off */
    float top_p, min_p; /* 1 and 0 = off */
} rdg_sample_params;

enum { RDG_SAMPLE_LOGITS, RDG_SAMPLE_DRAW, RDG_SAMPLE_ID };
enum { RDG_SAMPLE_BROKEN = -1, RDG_SAMPLE_NOTHING = -2, RDG_SAMPLE_MAX_LOGITS = 1 << 24 };

extern const rdg_op rdg_op_sample;

/* The C version as a function, for callers that have no plan. work: rdg_sample_work_bytes(n), 8-byte aligned.
 */
size_t rdg_sample_work_bytes(int64_t n);
int32_t rdg_sample_row(const rdg_sample_params *p, const float *logits, int64_t n, uint64_t seed,
                       uint32_t step, void *work);
/* Why an id below zero came, for messages. */
const char *rdg_sample_problem(int32_t id);

#endif
