/* What a contract's check is written with: each rule looks at one operand of a call and, when it does not
 * hold, keeps the first message (operation, operand, dimension, both values). Later rules then do nothing. */
#ifndef RDG_OPS_CONTRACT_H
#define RDG_OPS_CONTRACT_H

#include "ops/op.h"

typedef struct rdg_contract {
    const rdg_op_call *call;
    rdg_error *e;
    rdg_err err; /* RDG_OK until a rule fails: what the check returns */
} rdg_contract;

/* Rules skip absent operands: rdg_op_check has refused missing ones already. */
void rdg_want_type(rdg_contract *k, int operand, rdg_type type);
void rdg_want_weight(rdg_contract *k, int operand); /* any type that can be dequantised */
void rdg_want_cache(rdg_contract *k, int operand);  /* F32, F16, BF16, Q8_0 or Q4_0 */
void rdg_want_dims(rdg_contract *k, int operand, int64_t d0, int64_t d1, int64_t d2,
                   int64_t d3);                                     /* -1 = any */
void rdg_want_same_dims(rdg_contract *k, int operand, int as);      /* all four */
void rdg_want_broadcast(rdg_contract *k, int operand, int against); /* each dim equal or 1 */
/* Either the very same rows (data and strides) or no byte in common. */
void rdg_want_in_place_or_apart(rdg_contract *k, int operand, int other);
void rdg_want_apart(rdg_contract *k, int operand, int other);
/* A rule of the operation's own. */
void rdg_want(rdg_contract *k, bool holds, const char *fmt, ...) RDG_PRINTF(3, 4);

/* Parameters of the call as the operation's struct. */
#define RDG_PARAMS(call, type) ((const type *)(const void *)(call)->params.bytes)

/* A pass over every element costs this; the common case. */
void rdg_cost_elementwise(const rdg_op_call *call, double flops_per_output_element, rdg_cost *cost);
/* For magnitude functions: what a sum of n products comes to when their signs are random, by the products
 * themselves (their rounding goes with the sum: one may be most of it) or by the norms of a and b, |a| |b| /
 * sqrt(n) (the rounding of one factor may meet the largest of the other); the larger. With the variance of
 * what is lost of each element of b (else NULL): the standard deviation of the sum, and that share of its
 * size that adding up in f32 may cost. */
double rdg_product_size(const float *a, const float *b, const double *variance_of_b, int64_t n);
/* The variance of what n elements lose when each `group` of them becomes whole steps of 1/127 of its largest:
 * step^2 / 12, and 0 for an element that is whole steps already. */
void rdg_rounding_variance(const float *x, int64_t n, int64_t group, double *variance);
/* That for all rows of x, one after the other, as a variant for this type of weights rounds them; NULL if it
 * does not. rdg_free() it. */
rdg_err rdg_rounding_variances(const rdg_tensor *x, rdg_type weights, rdg_rounding rounding,
                               double **variance, rdg_error *e);
/* Bytes of the present operands, dense, into read or written by their flags. */
void rdg_cost_operands(const rdg_op_call *call, rdg_cost *cost);

#endif
