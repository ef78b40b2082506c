#include "ops/kv_store/kv_store.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

static bool accepts(const rdg_op_call *c)
{
    uint32_t s[3];
    const rdg_tensor *cache = &c->operand[RDG_KV_STORE_CACHE];
    return rdg_gpu_strides(&c->operand[RDG_KV_STORE_X], s) && cache->stride[1] <= UINT32_MAX &&
           cache->stride[2] <= UINT32_MAX;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *x = &c->operand[RDG_KV_STORE_X], *pos = &c->operand[RDG_KV_STORE_POS],
                     *cache = &c->operand[RDG_KV_STORE_CACHE];
    uint32_t xs[3];
    rdg_gpu_strides(x, xs);
    struct {
        uint64_t x, pos, cache;
        uint32_t head_dim, n_heads, n_tokens, n_slots, x_stride1, x_stride2, cache_stride1, cache_stride2;
    } push = {rdg_gpu_address(x),
              rdg_gpu_address(pos),
              rdg_gpu_address(cache),
              (uint32_t)x->dim[0],
              (uint32_t)x->dim[1],
              (uint32_t)x->dim[2],
              (uint32_t)cache->dim[1],
              xs[0],
              xs[1],
              (uint32_t)cache->stride[1],
              (uint32_t)cache->stride[2]};
    rdg_gpu_fill(d, "kv_store", &push, sizeof push);
    d->spec[0] = cache->type;
    d->n_spec = 1;
    int64_t per_head = x->dim[0] / rdg_type_block_elems(cache->type);
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(per_head * x->dim[1] * x->dim[2], 64))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_kv_store_vulkan = {.name = "any_vulkan",
                                         .source = "src/ops/kv_store/kv_store.comp",
                                         .backend = RDG_BACKEND_VULKAN,
                                         .accepts = accepts,
                                         .gpu = &kernel};
