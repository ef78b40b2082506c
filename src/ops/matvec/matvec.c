/* matvec: matmul's contract for up to RDG_MATVEC_MAX_TOKENS tokens, where reading the weights is what takes
 * the time. */
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_cases.h"
#include "ops/matmul/matmul_contract.h"
#include "ops/matvec/matvec_variants.h"
#include "ops/gpu_rows.h"

/* The same kernel as matmul's: one pass over the weights whatever the number of tokens. */
const rdg_variant rdg_matvec_any_c = {.name = "any_c",
                                      .source = "src/ops/matmul/matmul_c.c",
                                      .backend = RDG_BACKEND_CPU,
                                      .cpu = &rdg_matmul_any_c_kernel};

static const rdg_variant *const variants[] = {
#if defined(__x86_64__)
    &rdg_matvec_q8_avx512,
    &rdg_matvec_q8x32_avx512,
    &rdg_matvec_float_avx512,
    &rdg_matvec_q8_avx2,
    &rdg_matvec_q8x32_avx2,
    &rdg_matvec_float_avx2,
#endif
    &rdg_matvec_any_c,
    &rdg_matvec_q8_vulkan,
    &rdg_matmul_f16_vulkan,
    &rdg_matvec_vulkan,
    NULL};

const rdg_op rdg_op_matvec = {
    .name = "matvec",
    .summary = "out[r, t] = sum_c weight[c, r] * x[c, t] + bias[r] + residual[r, t], few tokens",
    .operands = rdg_matmul_operands,
    .n_operands = RDG_COUNTOF(rdg_matmul_operands),
    .check = rdg_matmul_check,
    .cost = rdg_matmul_cost,
    .reference = rdg_matmul_reference,
    .tolerance = {RDG_TOLERANCE_NORMALISED, 2e-6},
    .magnitude = rdg_matmul_magnitude,
    .variants = variants,
    .cases = &rdg_matvec_cases,
};
