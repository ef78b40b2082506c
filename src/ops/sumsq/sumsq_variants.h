/* The rows of sumsq's table. */
#ifndef RDG_OPS_SUMSQ_VARIANTS_H
#define RDG_OPS_SUMSQ_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_sumsq_c;
#endif
