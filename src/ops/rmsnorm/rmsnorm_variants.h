/* The rows of rmsnorm's table. */
#ifndef RDG_OPS_RMSNORM_VARIANTS_H
#define RDG_OPS_RMSNORM_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_rmsnorm_c;
#endif
