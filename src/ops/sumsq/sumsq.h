/* sumsq: sums[c, m] += sum of x[c, ., t]^2 and counts[m] += number of those, over tokens (and, with ids, over
 * the rows routed to expert m): what an importance matrix collects
 *
 * x       F32 [n_columns, n_used_or_1, n_tokens]
 * ids     I32 [n_used, n_tokens]; optional: absent = everything goes to m = 0. x.dim[1] == 1 serves all
 * n_used sums    F32 [n_columns, n_matrices]  in/out counts  F32 [n_matrices]             in/out Summation
 * runs over tokens in order for each column, so the result does not depend on the number of threads. */
#ifndef RDG_OPS_SUMSQ_H
#define RDG_OPS_SUMSQ_H
#include "ops/op.h"
enum { RDG_SUMSQ_X, RDG_SUMSQ_IDS, RDG_SUMSQ_SUMS, RDG_SUMSQ_COUNTS };
extern const rdg_op rdg_op_sumsq;
#endif
