/* The rows of matvec's table. */
#ifndef RDG_OPS_MATVEC_VARIANTS_H
#define RDG_OPS_MATVEC_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_matvec_any_c;
#if defined(__x86_64__)
extern const rdg_variant rdg_matvec_q8_avx512, rdg_matvec_q8x32_avx512, rdg_matvec_float_avx512;
extern const rdg_variant rdg_matvec_q8_avx2, rdg_matvec_q8x32_avx2, rdg_matvec_float_avx2;
#endif
#endif
