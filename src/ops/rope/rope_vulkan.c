#include "ops/rope/rope_table.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

#include <math.h>
#include <string.h>

enum { MAX_PAIRS = 512 };

/* Factors are needed on the host for the table: a weight of the file, which lies in the map. */
static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    const rdg_tensor *factors = &c->operand[RDG_ROPE_FACTORS];
    rdg_rope_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    return rdg_gpu_strides(&c->operand[RDG_ROPE_X], s) && rdg_gpu_strides(&c->operand[RDG_ROPE_OUT], s) &&
           p.n_dims <= 2 * MAX_PAIRS && (!rdg_tensor_present(factors) || factors->type == RDG_TYPE_F32);
}

bool rdg_rope_table(const rdg_rope_params *p, const float *factors, uint64_t *table)
{
    for (int i = 0; i < p->n_dims / 2; i++) {
        double e = pow(p->freq_base, -2.0 * i / p->n_dims) / (factors ? (double)factors[i] : 1.0);
        double f = p->freq_scale * e;
        if (p->ext_factor != 0.0f) {
            double ramp = (i - (double)p->corr_low) / fmax(0.001, (double)p->corr_high - p->corr_low);
            ramp = (1.0 - fmin(1.0, fmax(0.0, ramp))) * p->ext_factor;
            f = f * (1.0 - ramp) + e * ramp;
        }
        double turns = f * 0.15915494309189533577; /* 1 / (2 pi) */
        turns -= floor(turns);
        if (!(turns >= 0.0 && turns < 1.0)) return false;
        table[i] = (uint64_t)(turns * 0x1p64);
    }
    return true;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *x = &c->operand[RDG_ROPE_X], *pos = &c->operand[RDG_ROPE_POS],
                     *factors = &c->operand[RDG_ROPE_FACTORS], *out = &c->operand[RDG_ROPE_OUT];
    rdg_rope_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    uint64_t table[MAX_PAIRS];
    if (rdg_tensor_present(factors) && !factors->data) {
        rdg_fail(e, RDG_E_INTERNAL, "the frequency factors are not in host memory");
        return 0;
    }
    if (!rdg_rope_table(&p, rdg_tensor_present(factors) ? factors->data : NULL, table)) {
        rdg_fail(e, RDG_E_MALFORMED, "a rotary frequency is not finite: base %g, scale %g", p.freq_base,
                 p.freq_scale);
        return 0;
    }
    uint32_t xs[3], os[3];
    rdg_gpu_strides(x, xs);
    rdg_gpu_strides(out, os);
    struct {
        uint64_t x, pos, table, out;
        uint32_t head_dim, n_heads, n_tokens, n_dims, x_stride1, x_stride2, out_stride1, out_stride2, neox;
        float magnitude;
    } push = {.x = rdg_gpu_address(x),
              .pos = rdg_gpu_address(pos),
              .out = rdg_gpu_address(out),
              .head_dim = (uint32_t)x->dim[0],
              .n_heads = (uint32_t)x->dim[1],
              .n_tokens = (uint32_t)x->dim[2],
              .n_dims = (uint32_t)p.n_dims,
              .x_stride1 = xs[0],
              .x_stride2 = xs[1],
              .out_stride1 = os[0],
              .out_stride2 = os[1],
              .neox = p.style == RDG_ROPE_NEOX,
              .magnitude = p.magnitude};
    push.table = rdg_gpu_constant(env, table, (size_t)(p.n_dims / 2) * sizeof *table, e);
    if (!push.table) return 0;
    rdg_gpu_fill(d, "rope", &push, sizeof push);
    int64_t per_head = x->dim[0] - p.n_dims / 2;
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(per_head * x->dim[1] * x->dim[2], 64))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_rope_vulkan = {.name = "f32_vulkan",
                                     .source = "src/ops/rope/rope.comp",
                                     .backend = RDG_BACKEND_VULKAN,
                                     .accepts = accepts,
                                     .gpu = &kernel};
