/* The rows of experts' table. */
#ifndef RDG_OPS_EXPERTS_VARIANTS_H
#define RDG_OPS_EXPERTS_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_experts_any_c;
#if defined(__x86_64__)
extern const rdg_variant rdg_experts_q8_avx512, rdg_experts_q8_avx2;
#endif
#endif
