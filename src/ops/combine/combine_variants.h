/* The rows of combine's table. */
#ifndef RDG_OPS_COMBINE_VARIANTS_H
#define RDG_OPS_COMBINE_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_combine_c;
#endif
