#include "ops/act/act.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

#include <string.h>

static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    for (int i = 0; i < c->op->n_operands; i++)
        if (rdg_tensor_present(&c->operand[i]) && !rdg_gpu_strides(&c->operand[i], s)) return false;
    return rdg_tensor_n_elements(&c->operand[RDG_ACT_X]) <= INT32_MAX;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *x = &c->operand[RDG_ACT_X], *out = &c->operand[RDG_ACT_OUT];
    rdg_act_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    struct {
        uint64_t x, out;
        uint32_t n, d1, d2, n_rows, x_stride[3], out_stride[3];
        float cap;
    } push = {.x = rdg_gpu_address(x),
              .out = rdg_gpu_address(out),
              .n = (uint32_t)x->dim[0],
              .d1 = (uint32_t)x->dim[1],
              .d2 = (uint32_t)x->dim[2],
              .n_rows = (uint32_t)rdg_tensor_n_rows(x),
              .cap = p.cap};
    rdg_gpu_strides(x, push.x_stride);
    rdg_gpu_strides(out, push.out_stride);
    rdg_gpu_fill(d, "act", &push, sizeof push);
    d->spec[0] = (uint32_t)p.act;
    d->n_spec = 1;
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(rdg_tensor_n_elements(x), 128))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many elements for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
/* f32 throughout: up to five roundings on the way to an exponent's argument, each a relative error of the
 * result as large as the argument, and eight beside. */
const rdg_variant rdg_act_vulkan = {.name = "f32_vulkan",
                                    .source = "src/ops/act/act.comp",
                                    .backend = RDG_BACKEND_VULKAN,
                                    .accepts = accepts,
                                    .gpu = &kernel,
                                    .tolerance = {RDG_TOLERANCE_SIZE, 1.5e-6}};
