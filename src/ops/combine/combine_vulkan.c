#include "ops/combine/combine.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    for (int i = 0; i < c->op->n_operands; i++)
        if (rdg_tensor_present(&c->operand[i]) && !rdg_gpu_strides(&c->operand[i], s)) return false;
    return true;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *x = &c->operand[RDG_COMBINE_X], *weights = &c->operand[RDG_COMBINE_WEIGHTS],
                     *residual = &c->operand[RDG_COMBINE_RESIDUAL], *out = &c->operand[RDG_COMBINE_OUT];
    struct {
        uint64_t x, weights, residual, out;
        uint32_t n, n_used, n_tokens, x_stride1, x_stride2, weights_stride, residual_stride, out_stride;
    } push = {rdg_gpu_address(x),
              rdg_gpu_address(weights),
              rdg_gpu_address(residual),
              rdg_gpu_address(out),
              (uint32_t)x->dim[0],
              (uint32_t)x->dim[1],
              (uint32_t)x->dim[2],
              (uint32_t)(x->stride[1] / 4),
              (uint32_t)(x->stride[2] / 4),
              (uint32_t)(weights->stride[1] / 4),
              (uint32_t)(residual->stride[1] / 4),
              (uint32_t)(out->stride[1] / 4)};
    rdg_gpu_fill(d, "combine", &push, sizeof push);
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(x->dim[0] * x->dim[2], 128))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_combine_vulkan = {.name = "f32_vulkan",
                                        .source = "src/ops/combine/combine.comp",
                                        .backend = RDG_BACKEND_VULKAN,
                                        .accepts = accepts,
                                        .gpu = &kernel};
