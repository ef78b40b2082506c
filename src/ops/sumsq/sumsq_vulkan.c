#include "ops/sumsq/sumsq.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    return rdg_gpu_strides(&c->operand[RDG_SUMSQ_X], s) && rdg_gpu_strides(&c->operand[RDG_SUMSQ_SUMS], s);
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *x = &c->operand[RDG_SUMSQ_X], *ids = &c->operand[RDG_SUMSQ_IDS],
                     *sums = &c->operand[RDG_SUMSQ_SUMS], *counts = &c->operand[RDG_SUMSQ_COUNTS];
    bool routed = rdg_tensor_present(ids);
    struct {
        uint64_t x, ids, sums, counts;
        uint32_t n_columns, n_matrices, n_used, n_tokens, x_dim1, x_stride1, x_stride2, ids_stride,
            sums_stride;
    } push = {.x = rdg_gpu_address(x),
              .ids = rdg_gpu_address(ids),
              .sums = rdg_gpu_address(sums),
              .counts = rdg_gpu_address(counts),
              .n_columns = (uint32_t)x->dim[0],
              .n_matrices = (uint32_t)sums->dim[1],
              .n_used = (uint32_t)(routed ? ids->dim[0] : x->dim[1]),
              .n_tokens = (uint32_t)x->dim[2],
              .x_dim1 = (uint32_t)x->dim[1],
              .x_stride1 = (uint32_t)(x->stride[1] / 4),
              .x_stride2 = (uint32_t)(x->stride[2] / 4),
              .ids_stride = (uint32_t)(routed ? ids->stride[1] / 4 : 0),
              .sums_stride = (uint32_t)(sums->stride[1] / 4)};
    rdg_gpu_fill(d, "sumsq", &push, sizeof push);
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(x->dim[0] * sums->dim[1], 64))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many columns for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
/* What an addition loses is added to the next one, so the number of tokens does not matter. */
const rdg_variant rdg_sumsq_vulkan = {.name = "f32_vulkan",
                                      .source = "src/ops/sumsq/sumsq.comp",
                                      .backend = RDG_BACKEND_VULKAN,
                                      .accepts = accepts,
                                      .gpu = &kernel,
                                      .tolerance = {RDG_TOLERANCE_NORMALISED, 5e-7}};
