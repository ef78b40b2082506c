#include "ops/mul/mul.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

#include <string.h>

static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    for (int i = 0; i < c->op->n_operands; i++)
        if (rdg_tensor_present(&c->operand[i]) && !rdg_gpu_strides(&c->operand[i], s)) return false;
    return rdg_tensor_n_elements(&c->operand[RDG_MUL_A]) <= INT32_MAX;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *a = &c->operand[RDG_MUL_A], *b = &c->operand[RDG_MUL_B],
                     *out = &c->operand[RDG_MUL_OUT];
    struct {
        uint64_t a, b, out;
        uint32_t n, d1, d2, n_rows, a_stride[3], b_stride[4], out_stride[3];
    } push = {.a = rdg_gpu_address(a),
              .b = rdg_gpu_address(b),
              .out = rdg_gpu_address(out),
              .n = (uint32_t)a->dim[0],
              .d1 = (uint32_t)a->dim[1],
              .d2 = (uint32_t)a->dim[2],
              .n_rows = (uint32_t)rdg_tensor_n_rows(a)};
    rdg_gpu_strides(a, push.a_stride);
    uint32_t stride[3];
    if (rdg_tensor_present(b)) {
        rdg_gpu_strides(b, stride);
        push.b_stride[0] = b->dim[0] == 1 ? 0 : 1;
        for (int i = 0; i < 3; i++) push.b_stride[i + 1] = b->dim[i + 1] == 1 ? 0 : stride[i];
    }
    rdg_gpu_strides(out, push.out_stride);
    rdg_gpu_fill(d, "mul", &push, sizeof push);
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(rdg_tensor_n_elements(a), 128))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many elements for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_mul_vulkan = {.name = "f32_vulkan",
                                    .source = "src/ops/mul/mul.comp",
                                    .backend = RDG_BACKEND_VULKAN,
                                    .accepts = accepts,
                                    .gpu = &kernel};
