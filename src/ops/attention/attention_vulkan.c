#include "ops/attention/attention.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"
#include "ops/gpu_types.h"

#include <string.h>

enum { MAX_HEAD_DIM = 1024 };

static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    const rdg_tensor *q = &c->operand[RDG_ATTENTION_Q], *k = &c->operand[RDG_ATTENTION_K],
                     *v = &c->operand[RDG_ATTENTION_V];
    return rdg_gpu_strides(q, s) && rdg_gpu_strides(&c->operand[RDG_ATTENTION_OUT], s) &&
           q->dim[0] <= MAX_HEAD_DIM && v->dim[0] <= MAX_HEAD_DIM && k->stride[1] <= UINT32_MAX &&
           k->stride[2] <= UINT32_MAX && v->stride[1] <= UINT32_MAX && v->stride[2] <= UINT32_MAX &&
           rdg_gpu_decodes(k->type) && rdg_gpu_decodes(v->type);
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *q = &c->operand[RDG_ATTENTION_Q], *k = &c->operand[RDG_ATTENTION_K],
                     *v = &c->operand[RDG_ATTENTION_V], *pos = &c->operand[RDG_ATTENTION_POS],
                     *sinks = &c->operand[RDG_ATTENTION_SINKS], *out = &c->operand[RDG_ATTENTION_OUT];
    rdg_attention_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    uint32_t qs[3], os[3];
    rdg_gpu_strides(q, qs);
    rdg_gpu_strides(out, os);
    struct {
        uint64_t q, k, v, pos, sinks, out;
        uint32_t head_dim, head_dim_v, group, n_slots, q_stride1, q_stride2, out_stride1, out_stride2,
            k_stride1, k_stride2, v_stride1, v_stride2;
        float scale, softcap;
        int32_t window;
        uint32_t unused;
    } push = {.q = rdg_gpu_address(q),
              .k = rdg_gpu_address(k),
              .v = rdg_gpu_address(v),
              .pos = rdg_gpu_address(pos),
              .sinks = rdg_gpu_address(sinks),
              .out = rdg_gpu_address(out),
              .head_dim = (uint32_t)q->dim[0],
              .head_dim_v = (uint32_t)v->dim[0],
              .group = (uint32_t)(q->dim[1] / k->dim[2]),
              .n_slots = (uint32_t)k->dim[1],
              .q_stride1 = qs[0],
              .q_stride2 = qs[1],
              .out_stride1 = os[0],
              .out_stride2 = os[1],
              .k_stride1 = (uint32_t)k->stride[1],
              .k_stride2 = (uint32_t)k->stride[2],
              .v_stride1 = (uint32_t)v->stride[1],
              .v_stride2 = (uint32_t)v->stride[2],
              .scale = p.scale,
              .softcap = p.softcap,
              .window = p.causal ? p.window : -(int32_t)c->n_visible};
    rdg_gpu_fill(d, "attention", &push, sizeof push);
    d->spec[0] = k->type;
    d->spec[1] = v->type;
    d->n_spec = 2;
    d->grid[0] = (uint32_t)q->dim[1];
    d->grid[1] = (uint32_t)q->dim[2];
    d->grid[2] = 1;
    if (q->dim[2] <= env->facts->grid_max[1]) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_attention_vulkan = {.name = "any_vulkan",
                                          .source = "src/ops/attention/attention.comp",
                                          .backend = RDG_BACKEND_VULKAN,
                                          .accepts = accepts,
                                          .gpu = &kernel};
