/* The rows of layernorm's table. */
#ifndef RDG_OPS_LAYERNORM_VARIANTS_H
#define RDG_OPS_LAYERNORM_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_layernorm_c;
#endif
