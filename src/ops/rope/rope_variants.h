/* The rows of rope's table. */
#ifndef RDG_OPS_ROPE_VARIANTS_H
#define RDG_OPS_ROPE_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_rope_c;
#endif
