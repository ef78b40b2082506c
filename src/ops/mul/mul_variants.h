/* The rows of mul's table. */
#ifndef RDG_OPS_MUL_VARIANTS_H
#define RDG_OPS_MUL_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_mul_c;
#endif
