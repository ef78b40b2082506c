#include "ops/matmul/matvec_q8.h"
#include "ops/matmul/matmul.h"
#include "ops/gpu_planar.h"
#include "ops/gpu_rows.h"
#include "ops/matvec/q8.h"

enum { TURNS_MAX = 16 };

/* How a launch is cut. workgroups: about what a large GPU holds at once; beyond that a workgroup takes
 * several groups of rows in turn, so that x is normalised and quantised once for all of them. */
typedef struct launch_shape {
    uint32_t local; /* threads a workgroup */
    uint32_t rows;  /* a subgroup works on at once */
    uint32_t depth; /* steps of weights in flight */
    uint32_t workgroups;
    uint32_t hold; /* of x in registers: 0 nothing, 1 x, 2 the norm's weights too */
} launch_shape;

/* The best of whole decode steps of an 8B model in Q4_K_M on an H200 (2026-11-30; README has the ladder). All
 * workgroups of a group of launches should find a place at once, 2048 threads a core at up to 32 registers
 * and half as many at up to 64: those of a second wave begin when others end. Fewer, larger workgroups read x
 * less often. */
static launch_shape shape_of(const rdg_matvec_q8 *m, const rdg_device_facts *f, uint32_t width)
{
    int64_t n_columns = m->weight->dim[0], n_rows = m->weight->dim[1];
    if (width == 32 && f->workgroup_max >= 512) {
        bool large = f->workgroup_max >= 1024;
        if (m->weight2) return (launch_shape){512, 2, 1, 264, 0};
        if (n_rows >= 65536)
            return large ? (launch_shape){1024, 2, 1, 132, 0} : (launch_shape){512, 2, 1, 264, 0};
        if (m->norm_weight) return (launch_shape){512, 2, 1, 264, n_columns <= 4096 ? 2 : 0};
        if (n_rows >= 2048)
            return large ? (launch_shape){1024, 1, 2, 132, n_columns <= 8192 ? 1 : 0}
                         : (launch_shape){512, 1, 2, 264, n_columns <= 4096 ? 1 : 0};
        return (launch_shape){256, 1, 2, 528, 0};
    }
    /* few rows: enough subgroups to fill the machine */
    return (launch_shape){256, m->weight2 || n_rows < 2048 ? 1 : 2, 2, 528, 0};
}

uint32_t rdg_gpu_step_width(const rdg_device_facts *f)
{
    if (!(f->features & RDG_GPU_INT8_DOT_ANY)) return 0;
    if (f->features & RDG_GPU_SUBGROUP_32) return 32;
    return f->subgroup_width >= 8 && f->subgroup_width <= 64 ? f->subgroup_width : 0;
}

static bool aligned(const rdg_tensor *t, uint64_t a)
{
    /* on the device, or where the host data will be copied to with its address modulo 16 */
    return (t->buffer ? rdg_gpu_address(t) : (uintptr_t)t->data) % a == 0;
}

bool rdg_matvec_q8_accepts(const rdg_matvec_q8 *m, const rdg_device_facts *f)
{
    const rdg_tensor *w = m->weight;
    int64_t n = w->dim[0];
    uint32_t type = rdg_gpu_weight_type(w);
    bool known = type == RDG_TYPE_Q4_K || type == RDG_TYPE_Q5_K || type == RDG_TYPE_Q6_K + RDG_GPU_PLANAR ||
                 type == RDG_TYPE_Q8_0 + RDG_GPU_PLANAR || type == RDG_TYPE_Q4_0 + RDG_GPU_PLANAR;
    /* workgroup memory: bytes, a scale for each 32, a sum for each 16, the reduction's and the chain's */
    int64_t shared = n + n / 8 + n / 4 + 1024 + 16;
    if (!known || !rdg_gpu_step_width(f) || f->workgroup_max < 256 || shared > f->shared_bytes) return false;
    if (n % 32 || w->stride[1] % 16 || w->stride[1] > UINT32_MAX || w->dim[2] != 1 || m->x->dim[1] != 1)
        return false;
    if (!aligned(w, 16) || !aligned(m->x, 16) || (m->norm_weight && !aligned(m->norm_weight, 16)))
        return false;
    if (m->norm_weight && m->norm_weight->dim[1] != 1) return false;
    if (m->weight2 && (rdg_gpu_weight_type(m->weight2) != type || m->weight2->dim[0] != n ||
                       m->weight2->dim[1] != w->dim[1] || !aligned(m->weight2, 16)))
        return false;
    return true;
}

int rdg_matvec_q8_encode(const rdg_matvec_q8 *m, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *w = m->weight;
    struct {
        uint64_t weight, weight2, x, norm_weight, bias, residual, out, chain, clock;
        uint32_t n_rows, row_bytes, chain_before;
        float eps, alpha, limit;
    } push = {.weight = rdg_gpu_address(w),
              .weight2 = m->weight2 ? rdg_gpu_address(m->weight2) : 0,
              .x = rdg_gpu_address(m->x),
              .norm_weight = m->norm_weight ? rdg_gpu_address(m->norm_weight) : 0,
              .bias = m->bias ? rdg_gpu_address(m->bias) : 0,
              .residual = m->residual ? rdg_gpu_address(m->residual) : 0,
              .out = rdg_gpu_address(m->out),
              .chain = env->chain.counter,
              .clock = env->chain.clock,
              .chain_before = env->chain.before,
              .n_rows = (uint32_t)w->dim[1],
              .row_bytes = (uint32_t)w->stride[1],
              .eps = m->eps,
              .alpha = m->glu.alpha,
              .limit = m->glu.limit};
    rdg_gpu_fill(d, env->chain.clock ? "matvec_q8_clock" : "matvec_q8", &push, sizeof push);
    uint32_t width = rdg_gpu_step_width(env->facts);
    launch_shape shape = shape_of(m, env->facts, width);
    int64_t groups = rdg_div_up(w->dim[1], (int64_t)shape.rows * (shape.local / width));
    uint32_t turns = (uint32_t)RDG_MIN(rdg_div_up(groups, shape.workgroups), TURNS_MAX);
    const uint32_t spec[] = {shape.local,
                             rdg_gpu_weight_type(w),
                             (uint32_t)w->dim[0],
                             shape.rows,
                             m->norm_weight != NULL,
                             m->weight2 ? 1 + (uint32_t)m->glu.act : 0,
                             width,
                             shape.depth,
                             turns,
                             shape.hold,
                             rdg_gpu_chain_spec(&env->chain)};
    _Static_assert(sizeof spec <= sizeof d->spec, "more constants than a kernel may have");
    for (int i = 0; i < RDG_COUNTOF(spec); i++) d->spec[i] = spec[i];
    d->n_spec = RDG_COUNTOF(spec);
    d->subgroup = width;
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(groups, turns))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "%lld rows are too many for one launch", (long long)w->dim[1]);
    return 0;
}

static const rdg_tensor *given(const rdg_tensor *t)
{
    return rdg_tensor_present(t) ? t : NULL;
}

static rdg_matvec_q8 plain(const rdg_op_call *c)
{
    return (rdg_matvec_q8){.weight = &c->operand[RDG_MATMUL_WEIGHT],
                           .x = &c->operand[RDG_MATMUL_X],
                           .bias = given(&c->operand[RDG_MATMUL_BIAS]),
                           .residual = given(&c->operand[RDG_MATMUL_RESIDUAL]),
                           .out = &c->operand[RDG_MATMUL_OUT]};
}

/* Facts that every device has which passes the row's requirements; encode checks the rest again with the real
 * ones. */
static bool accepts(const rdg_op_call *c)
{
    static const rdg_device_facts least = {
        .features = RDG_GPU_INT8_DOT_ANY, .subgroup_width = 8, .workgroup_max = 256, .shared_bytes = 32768};
    rdg_matvec_q8 m = plain(c);
    return rdg_matvec_q8_accepts(&m, &least);
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    rdg_matvec_q8 m = plain(c);
    if (!rdg_matvec_q8_accepts(&m, env->facts)) {
        rdg_fail(e, RDG_E_UNSUPPORTED,
                 "operands are not aligned to 16 bytes or the device's subgroups do not fit");
        return 0;
    }
    return rdg_matvec_q8_encode(&m, env, d, e);
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_matvec_q8_vulkan = {.name = "q8_vulkan",
                                          .source = "src/ops/matmul/matvec_q8.comp",
                                          .backend = RDG_BACKEND_VULKAN,
                                          .requires_mask = RDG_GPU_INT8_DOT_ANY,
                                          .accepts = accepts,
                                          .gpu = &kernel,
                                          .tolerance = {RDG_TOLERANCE_SIZE, RDG_ROUNDING_BOUND},
                                          .rounding = RDG_ROUNDS_BY_32};
