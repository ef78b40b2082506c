/* The GPU rows that take every format: matvec, experts and matmul. Faster ones for single formats come before
 * them. */
#include "ops/matmul/matmul.h"
#include "ops/experts/experts.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"
#include "ops/gpu_planar.h"
#include "ops/gpu_types.h"

typedef struct matvec_push {
    uint64_t weight, x, bias, residual, out, ids;
    uint32_t n_columns, n_rows, row_bytes, x_stride, residual_stride, out_stride;
    uint32_t n_used, x_dim1, x_stride1, out_stride1, bias_stride, ids_stride, n_experts;
    uint64_t expert_bytes;
} matvec_push;

static bool accepts_matvec(const rdg_op_call *c)
{
    const rdg_tensor *w = &c->operand[RDG_MATMUL_WEIGHT];
    return rdg_gpu_decodes(w->type) && w->stride[1] <= UINT32_MAX &&
           c->operand[RDG_MATMUL_X].dim[1] <= RDG_MATVEC_MAX_TOKENS;
}

static uint32_t width(int64_t n_columns, const rdg_gpu_env *env)
{
    return RDG_MIN(n_columns <= 512 ? 32 : n_columns <= 2048 ? 64 : 128, env->facts->workgroup_max);
}

static int encode_matvec(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *w = &c->operand[RDG_MATMUL_WEIGHT], *x = &c->operand[RDG_MATMUL_X],
                     *bias = &c->operand[RDG_MATMUL_BIAS], *residual = &c->operand[RDG_MATMUL_RESIDUAL],
                     *out = &c->operand[RDG_MATMUL_OUT];
    matvec_push push = {.weight = rdg_gpu_address(w),
                        .x = rdg_gpu_address(x),
                        .bias = rdg_gpu_address(bias),
                        .residual = rdg_gpu_address(residual),
                        .out = rdg_gpu_address(out),
                        .n_columns = (uint32_t)w->dim[0],
                        .n_rows = (uint32_t)w->dim[1],
                        .row_bytes = (uint32_t)w->stride[1],
                        .x_stride = (uint32_t)(x->stride[1] / 4),
                        .residual_stride = (uint32_t)(residual->stride[1] / 4),
                        .out_stride = (uint32_t)(out->stride[1] / 4)};
    rdg_gpu_fill(d, "matvec", &push, sizeof push);
    d->spec[0] = width(w->dim[0], env);
    d->spec[1] = rdg_gpu_weight_type(w);
    d->spec[2] = (uint32_t)x->dim[1];
    d->spec[3] = 0;
    d->n_spec = 4;
    d->grid[0] = (uint32_t)w->dim[1];
    d->grid[1] = d->grid[2] = 1;
    if (w->dim[1] <= env->facts->grid_max[0]) return 1;
    rdg_fail(e, RDG_E_LIMIT, "%lld rows are too many for one launch", (long long)w->dim[1]);
    return 0;
}

static bool accepts_experts(const rdg_op_call *c)
{
    const rdg_tensor *w = &c->operand[RDG_EXPERTS_WEIGHT];
    return rdg_gpu_decodes(w->type) && w->stride[1] <= UINT32_MAX;
}

static int encode_experts(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *w = &c->operand[RDG_EXPERTS_WEIGHT], *x = &c->operand[RDG_EXPERTS_X],
                     *ids = &c->operand[RDG_EXPERTS_IDS], *bias = &c->operand[RDG_EXPERTS_BIAS],
                     *out = &c->operand[RDG_EXPERTS_OUT];
    matvec_push push = {.weight = rdg_gpu_address(w),
                        .x = rdg_gpu_address(x),
                        .bias = rdg_gpu_address(bias),
                        .out = rdg_gpu_address(out),
                        .ids = rdg_gpu_address(ids),
                        .n_columns = (uint32_t)w->dim[0],
                        .n_rows = (uint32_t)w->dim[1],
                        .row_bytes = (uint32_t)w->stride[1],
                        .x_stride = (uint32_t)(x->stride[2] / 4),
                        .out_stride = (uint32_t)(out->stride[2] / 4),
                        .n_used = (uint32_t)ids->dim[0],
                        .x_dim1 = (uint32_t)x->dim[1],
                        .x_stride1 = (uint32_t)(x->stride[1] / 4),
                        .out_stride1 = (uint32_t)(out->stride[1] / 4),
                        .bias_stride = (uint32_t)(bias->stride[1] / 4),
                        .ids_stride = (uint32_t)(ids->stride[1] / 4),
                        .n_experts = (uint32_t)w->dim[2],
                        .expert_bytes = (uint64_t)w->stride[2]};
    rdg_gpu_fill(d, "matvec", &push, sizeof push);
    d->spec[0] = width(w->dim[0], env);
    d->spec[1] = rdg_gpu_weight_type(w);
    d->spec[2] = 1;
    d->spec[3] = 1;
    d->n_spec = 4;
    d->grid[0] = (uint32_t)w->dim[1];
    d->grid[1] = (uint32_t)ids->dim[0];
    d->grid[2] = (uint32_t)ids->dim[1];
    if (w->dim[1] <= env->facts->grid_max[0] && ids->dim[1] <= env->facts->grid_max[2]) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
    return 0;
}

static int encode_matmul(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *w = &c->operand[RDG_MATMUL_WEIGHT], *x = &c->operand[RDG_MATMUL_X],
                     *bias = &c->operand[RDG_MATMUL_BIAS], *residual = &c->operand[RDG_MATMUL_RESIDUAL],
                     *out = &c->operand[RDG_MATMUL_OUT];
    struct {
        uint64_t weight, x, bias, residual, out;
        uint32_t n_columns, n_rows, n_tokens, row_bytes, x_stride, residual_stride, out_stride;
    } push = {rdg_gpu_address(w),
              rdg_gpu_address(x),
              rdg_gpu_address(bias),
              rdg_gpu_address(residual),
              rdg_gpu_address(out),
              (uint32_t)w->dim[0],
              (uint32_t)w->dim[1],
              (uint32_t)x->dim[1],
              (uint32_t)w->stride[1],
              (uint32_t)(x->stride[1] / 4),
              (uint32_t)(residual->stride[1] / 4),
              (uint32_t)(out->stride[1] / 4)};
    rdg_gpu_fill(d, "matmul", &push, sizeof push);
    d->spec[0] = rdg_gpu_weight_type(w);
    d->n_spec = 1;
    d->grid[0] = (uint32_t)rdg_div_up(w->dim[1], 64);
    d->grid[1] = (uint32_t)rdg_div_up(x->dim[1], 64);
    d->grid[2] = 1;
    if (d->grid[0] <= env->facts->grid_max[0] && d->grid[1] <= env->facts->grid_max[1]) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many rows or tokens for one launch");
    return 0;
}

static bool accepts_matmul(const rdg_op_call *c)
{
    const rdg_tensor *w = &c->operand[RDG_MATMUL_WEIGHT];
    return rdg_gpu_decodes(w->type) && w->stride[1] <= UINT32_MAX;
}

static const rdg_gpu_kernel matvec = {.encode = encode_matvec}, experts = {.encode = encode_experts},
                            matmul = {.encode = encode_matmul};
const rdg_variant rdg_matvec_vulkan = {.name = "any_vulkan",
                                       .source = "src/ops/matmul/matvec.comp",
                                       .backend = RDG_BACKEND_VULKAN,
                                       .accepts = accepts_matvec,
                                       .gpu = &matvec};
const rdg_variant rdg_experts_vulkan = {.name = "any_vulkan",
                                        .source = "src/ops/matmul/matvec.comp",
                                        .backend = RDG_BACKEND_VULKAN,
                                        .accepts = accepts_experts,
                                        .gpu = &experts};
/* A result is one chain of f32 sums over the columns. */
const rdg_variant rdg_matmul_vulkan = {.name = "any_vulkan",
                                       .source = "src/ops/matmul/matmul.comp",
                                       .backend = RDG_BACKEND_VULKAN,
                                       .accepts = accepts_matmul,
                                       .gpu = &matmul,
                                       .tolerance = {RDG_TOLERANCE_NORMALISED, 6e-6}};
