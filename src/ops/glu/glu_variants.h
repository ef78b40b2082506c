/* The rows of glu's table. */
#ifndef RDG_OPS_GLU_VARIANTS_H
#define RDG_OPS_GLU_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_glu_avx512, rdg_glu_avx2, rdg_glu_c;
#endif
