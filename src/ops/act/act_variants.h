/* The rows of act's table. */
#ifndef RDG_OPS_ACT_VARIANTS_H
#define RDG_OPS_ACT_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_act_avx512, rdg_act_avx2, rdg_act_c;
#endif
