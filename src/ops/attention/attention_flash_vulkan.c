/* attention of many tokens on matrix units, and the same kernel without them for tests. */
#include "ops/attention/attention.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

#include <string.h>

enum { SUBGROUPS = 4, MAX_HEAD_DIM = 256 };

static bool aligned(const rdg_tensor *t)
{
    return (t->buffer ? rdg_gpu_address(t) : (uintptr_t)t->data) % 16 == 0;
}

static bool accepts(const rdg_op_call *c)
{
    const rdg_tensor *q = &c->operand[RDG_ATTENTION_Q], *k = &c->operand[RDG_ATTENTION_K],
                     *v = &c->operand[RDG_ATTENTION_V], *out = &c->operand[RDG_ATTENTION_OUT];
    rdg_attention_params p;
    uint32_t s[3];
    memcpy(&p, c->params.bytes, sizeof p);
    int64_t group = q->dim[1] / k->dim[2];
    return p.causal && q->dim[2] >= 2 && k->type == RDG_TYPE_F16 && v->type == RDG_TYPE_F16 &&
           rdg_tensor_dense(k) && rdg_tensor_dense(v) && k->dim[1] % 16 == 0 && q->dim[0] == v->dim[0] &&
           q->dim[0] % 16 == 0 && q->dim[0] <= MAX_HEAD_DIM && group <= 16 && 16 % group == 0 &&
           rdg_gpu_strides(q, s) && rdg_gpu_strides(out, s) && rdg_tensor_bytes(k) / k->dim[2] < INT32_MAX &&
           aligned(k) && aligned(v);
}

static int encode_as(const rdg_op_call *c, const char *module, uint32_t width, uint32_t subs,
                     rdg_gpu_dispatch *d)
{
    const rdg_tensor *q = &c->operand[RDG_ATTENTION_Q], *k = &c->operand[RDG_ATTENTION_K],
                     *v = &c->operand[RDG_ATTENTION_V], *out = &c->operand[RDG_ATTENTION_OUT],
                     *sinks = &c->operand[RDG_ATTENTION_SINKS];
    rdg_attention_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    uint32_t qs[3], os[3], group = (uint32_t)(q->dim[1] / k->dim[2]);
    rdg_gpu_strides(q, qs);
    rdg_gpu_strides(out, os);
    struct {
        uint64_t q, k, v, pos, sinks, out;
        uint32_t n_heads, n_tokens, n_slots, q_stride1, q_stride2, out_stride1, out_stride2;
        float scale, softcap;
        int32_t window;
    } push = {rdg_gpu_address(q),
              rdg_gpu_address(k),
              rdg_gpu_address(v),
              rdg_gpu_address(&c->operand[RDG_ATTENTION_POS]),
              rdg_gpu_address(sinks),
              rdg_gpu_address(out),
              (uint32_t)q->dim[1],
              (uint32_t)q->dim[2],
              (uint32_t)k->dim[1],
              qs[0],
              qs[1],
              os[0],
              os[1],
              p.scale,
              p.softcap,
              p.window};
    rdg_gpu_fill(d, module, &push, sizeof push);
    const uint32_t spec[] = {width * subs, (uint32_t)q->dim[0], group, width, subs};
    memcpy(d->spec, spec, sizeof spec);
    d->n_spec = RDG_COUNTOF(spec);
    d->subgroup = width;
    d->grid[0] = (uint32_t)k->dim[2];
    d->grid[1] = (uint32_t)rdg_div_up(q->dim[2], (int64_t)subs * (16 / group));
    d->grid[2] = 1;
    return 1;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    (void)e;
    /* queries, scores and weights of a subgroup lie in workgroup memory */
    uint32_t each = 16 * ((uint32_t)c->operand[RDG_ATTENTION_Q].dim[0] + 8) * 2 + 256 * 6 + 64;
    return encode_as(c, "attention_flash", 32, RDG_MIN((uint32_t)SUBGROUPS, env->facts->shared_bytes / each),
                     d);
}

static int encode_emulated(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    (void)e;
    /* one subgroup a workgroup: software devices take a subgroup's barrier for the workgroup's */
    return encode_as(c, "attention_flash_emulated", RDG_MIN(env->facts->subgroup_width, 32), 1, d);
}

static const rdg_gpu_kernel kernel = {.encode = encode}, emulated = {.encode = encode_emulated};
/* Queries and weights are rounded to 11 bits. */
const rdg_variant rdg_attention_flash_vulkan = {.name = "f16_vulkan_matrix",
                                                .source = "src/ops/attention/attention_flash.comp",
                                                .backend = RDG_BACKEND_VULKAN,
                                                .requires_mask = RDG_GPU_MATRIX_F16 | RDG_GPU_SUBGROUP_32 |
                                                                 RDG_GPU_FLOAT16,
                                                .accepts = accepts,
                                                .gpu = &kernel,
                                                .tolerance = {RDG_TOLERANCE_NORMALISED, 4e-3}};
/* Last in the table: it only serves to check the kernel on devices without matrix units. */
const rdg_variant rdg_attention_flash_emulated = {.name = "f16_vulkan_emulated",
                                                  .source = "src/ops/attention/attention_flash.comp",
                                                  .backend = RDG_BACKEND_VULKAN,
                                                  .requires_mask = RDG_GPU_FLOAT16,
                                                  .accepts = accepts,
                                                  .gpu = &emulated,
                                                  .tolerance = {RDG_TOLERANCE_NORMALISED, 4e-3}};
