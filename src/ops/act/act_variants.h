/* The rows of act's table. */
#ifndef RDG_OPS_ACT_VARIANTS_H
#define RDG_OPS_ACT_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_act_c;
#endif
