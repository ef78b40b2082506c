/* The rows of attention's table. */
#ifndef RDG_OPS_ATTENTION_VARIANTS_H
#define RDG_OPS_ATTENTION_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_attention_c;
#if defined(__x86_64__)
extern const rdg_variant rdg_attention_avx512, rdg_attention_avx2;
#endif
#endif
