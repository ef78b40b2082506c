/* The rows of matmul's table. */
#ifndef RDG_OPS_MATMUL_VARIANTS_H
#define RDG_OPS_MATMUL_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_matmul_any_c;
#endif
