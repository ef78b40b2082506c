/* The rows of matmul's table. */
#ifndef RDG_OPS_MATMUL_VARIANTS_H
#define RDG_OPS_MATMUL_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_matmul_any_c;
#if defined(__x86_64__)
extern const rdg_variant rdg_matmul_q8_avx512, rdg_matmul_float_avx512;
extern const rdg_variant rdg_matmul_q8_avx2, rdg_matmul_float_avx2;
#endif
#endif
