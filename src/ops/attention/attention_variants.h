/* The rows of attention's table. */
#ifndef RDG_OPS_ATTENTION_VARIANTS_H
#define RDG_OPS_ATTENTION_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_attention_c;
#endif
