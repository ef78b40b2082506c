#include "ops/layernorm/layernorm.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

#include <string.h>

static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    return rdg_gpu_strides(&c->operand[RDG_LAYERNORM_X], s) &&
           rdg_gpu_strides(&c->operand[RDG_LAYERNORM_OUT], s);
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *x = &c->operand[RDG_LAYERNORM_X], *weight = &c->operand[RDG_LAYERNORM_WEIGHT],
                     *out = &c->operand[RDG_LAYERNORM_OUT];
    const rdg_tensor *bias = &c->operand[RDG_LAYERNORM_BIAS];
    rdg_layernorm_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    struct {
        uint64_t x, weight, bias, out;
        uint32_t n, d1, d2, x_stride[3], out_stride[3], weight_stride1, bias_stride1;
        float eps;
        uint32_t n_rows;
    } push = {.x = rdg_gpu_address(x),
              .weight = rdg_gpu_address(weight),
              .bias = rdg_gpu_address(bias),
              .out = rdg_gpu_address(out),
              .n = (uint32_t)x->dim[0],
              .d1 = (uint32_t)x->dim[1],
              .d2 = (uint32_t)x->dim[2],
              .eps = p.eps,
              .n_rows = (uint32_t)rdg_tensor_n_rows(x)};
    rdg_gpu_strides(x, push.x_stride);
    rdg_gpu_strides(out, push.out_stride);
    if (weight->dim[1] > 1) push.weight_stride1 = (uint32_t)(weight->stride[1] / 4);
    if (rdg_tensor_present(bias) && bias->dim[1] > 1) push.bias_stride1 = (uint32_t)(bias->stride[1] / 4);
    rdg_gpu_fill(d, "layernorm", &push, sizeof push);
    d->spec[0] = x->dim[0] <= 256 ? 64 : x->dim[0] <= 1024 ? 256 : 512;
    d->spec[0] = RDG_MIN(d->spec[0], env->facts->workgroup_max);
    d->n_spec = 1;
    if (rdg_gpu_grid(d, env->facts, rdg_tensor_n_rows(x))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many rows for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_layernorm_vulkan = {.name = "f32_vulkan",
                                          .source = "src/ops/layernorm/layernorm.comp",
                                          .backend = RDG_BACKEND_VULKAN,
                                          .accepts = accepts,
                                          .gpu = &kernel};
