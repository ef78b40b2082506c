/* matmul on matrix units: activations to f16 (once for all products that read them), then the product. */
#include "ops/matmul/matmul.h"
#include "ops/gpu.h"
#include "ops/gpu_planar.h"
#include "ops/gpu_rows.h"

static bool known(uint32_t type)
{
    return type == RDG_TYPE_F16 || type == RDG_TYPE_BF16 || type == RDG_TYPE_Q4_K || type == RDG_TYPE_Q5_K ||
           type == RDG_TYPE_Q6_K + RDG_GPU_PLANAR || type == RDG_TYPE_Q8_0 + RDG_GPU_PLANAR ||
           type == RDG_TYPE_Q4_0 + RDG_GPU_PLANAR;
}

static bool aligned(const rdg_tensor *t)
{
    return (t->buffer ? rdg_gpu_address(t) : (uintptr_t)t->data) % 16 == 0;
}

static bool accepts(const rdg_op_call *c)
{
    const rdg_tensor *w = &c->operand[RDG_MATMUL_WEIGHT], *x = &c->operand[RDG_MATMUL_X];
    return known(rdg_gpu_weight_type(w)) && w->dim[0] % 32 == 0 && w->stride[1] % 16 == 0 &&
           w->stride[1] <= UINT32_MAX && aligned(w) && aligned(x) && x->stride[1] % 16 == 0 && x->dim[1] >= 2;
}

static uint64_t scratch_bytes(const rdg_op_call *c, const rdg_gpu_env *env)
{
    (void)env;
    const rdg_tensor *x = &c->operand[RDG_MATMUL_X];
    return (uint64_t)(rdg_round_up(x->dim[1], 128) * x->dim[0] * 2);
}

static int encode_tile(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, const char *module,
                       int64_t tile, uint32_t width, rdg_error *e)
{
    const rdg_tensor *w = &c->operand[RDG_MATMUL_WEIGHT], *x = &c->operand[RDG_MATMUL_X],
                     *bias = &c->operand[RDG_MATMUL_BIAS], *residual = &c->operand[RDG_MATMUL_RESIDUAL],
                     *out = &c->operand[RDG_MATMUL_OUT];
    int n = 0;
    if (env->prepared != rdg_gpu_address(x) || !env->prepared) {
        struct {
            uint64_t x, out;
            uint32_t n_columns, n_tokens, n_padded, x_stride;
        } push = {rdg_gpu_address(x),
                  env->scratch,
                  (uint32_t)x->dim[0],
                  (uint32_t)x->dim[1],
                  (uint32_t)rdg_round_up(x->dim[1], 128),
                  (uint32_t)(x->stride[1] / 4)};
        rdg_gpu_fill(&d[0], "pack_f16", &push, sizeof push);
        if (!rdg_gpu_grid(&d[0], env->facts, rdg_div_up(x->dim[0] / 8 * push.n_padded, 128))) {
            rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
            return 0;
        }
        n = 1;
    }
    struct {
        uint64_t weight, x, bias, residual, out;
        uint32_t n_columns, n_rows, n_tokens, row_bytes, residual_stride, out_stride, whole;
    } push = {rdg_gpu_address(w),
              env->scratch,
              rdg_gpu_address(bias),
              rdg_gpu_address(residual),
              rdg_gpu_address(out),
              (uint32_t)w->dim[0],
              (uint32_t)w->dim[1],
              (uint32_t)x->dim[1],
              (uint32_t)w->stride[1],
              (uint32_t)(residual->stride[1] / 4),
              (uint32_t)(out->stride[1] / 4),
              0};
    push.whole = w->dim[1] % tile == 0 && x->dim[1] % tile == 0 && !rdg_tensor_present(bias) &&
                 aligned(out) && out->stride[1] % 16 == 0 &&
                 (!rdg_tensor_present(residual) || (aligned(residual) && residual->stride[1] % 16 == 0));
    rdg_gpu_fill(&d[n], module, &push, sizeof push);
    d[n].spec[0] = rdg_gpu_weight_type(w);
    d[n].spec[1] = width;
    d[n].n_spec = 2;
    d[n].subgroup = width;
    d[n].barrier_before = n > 0;
    d[n].grid[0] = (uint32_t)rdg_div_up(x->dim[1], tile);
    d[n].grid[1] = (uint32_t)rdg_div_up(w->dim[1], tile);
    d[n].grid[2] = 1;
    if (d[n].grid[1] <= env->facts->grid_max[1]) return n + 1;
    rdg_fail(e, RDG_E_LIMIT, "%lld rows are too many for one launch", (long long)w->dim[1]);
    return 0;
}

/* Large tiles read less from workgroup memory for a product, but a large GPU (132 multiprocessors) needs many
 * of them to be busy: below this many, the small ones were faster at every shape tried (README). */
enum { LARGE_TILE = 128, SMALL_TILE = 64, LEAST_LARGE_TILES = 100 };

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    int64_t n_rows = c->operand[RDG_MATMUL_WEIGHT].dim[1], n_tokens = c->operand[RDG_MATMUL_X].dim[1];
    int64_t n_large = rdg_div_up(n_rows, LARGE_TILE) * rdg_div_up(n_tokens, LARGE_TILE);
    if (n_tokens <= SMALL_TILE || n_large < LEAST_LARGE_TILES)
        return encode_tile(c, env, d, "matmul_f16_small", SMALL_TILE, 32, e);
    return encode_tile(c, env, d, "matmul_f16", LARGE_TILE, 32, e);
}

static int encode_emulated(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    return encode_tile(c, env, d, "matmul_f16_emulated", 32, env->facts->subgroup_width, e);
}

static const rdg_gpu_kernel kernel = {
    .encode = encode, .scratch_bytes = scratch_bytes, .prepares = 1 + RDG_MATMUL_X};
static const rdg_gpu_kernel emulated = {
    .encode = encode_emulated, .scratch_bytes = scratch_bytes, .prepares = 1 + RDG_MATMUL_X};
/* Both factors are rounded to 11 bits; with scale and minimum of Q4_K and Q5_K rounded too, weights lose a
 * little more. In matvec's table too: a few tokens waste most of a tile and still take the time of reading
 * the weights about once. */
const rdg_variant rdg_matmul_f16_vulkan = {.name = "f16_vulkan_matrix",
                                           .source = "src/ops/matmul/matmul_f16.comp",
                                           .backend = RDG_BACKEND_VULKAN,
                                           .requires_mask =
                                               RDG_GPU_MATRIX_F16 | RDG_GPU_SUBGROUP_32 | RDG_GPU_SHARED_48K,
                                           .accepts = accepts,
                                           .gpu = &kernel,
                                           .tolerance = {RDG_TOLERANCE_NORMALISED, 4e-3},
                                           .rounding = RDG_ROUNDS_TO_HALF};
/* Not in matmul's table: the same kernel for tests on devices without matrix units. */
const rdg_variant rdg_matmul_f16_emulated = {.name = "f16_vulkan_emulated",
                                             .source = "src/ops/matmul/matmul_f16.comp",
                                             .backend = RDG_BACKEND_VULKAN,
                                             .requires_mask = RDG_GPU_FLOAT16,
                                             .accepts = accepts,
                                             .gpu = &emulated,
                                             .tolerance = {RDG_TOLERANCE_NORMALISED, 4e-3},
                                             .rounding = RDG_ROUNDS_TO_HALF};
