#include "ops/embed/embed.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"
#include "ops/gpu_planar.h"
#include "ops/gpu_types.h"

#include <string.h>

static bool accepts(const rdg_op_call *c)
{
    const rdg_tensor *table = &c->operand[RDG_EMBED_TABLE];
    return rdg_gpu_decodes(table->type) && table->stride[1] <= UINT32_MAX;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *table = &c->operand[RDG_EMBED_TABLE], *ids = &c->operand[RDG_EMBED_IDS],
                     *out = &c->operand[RDG_EMBED_OUT];
    rdg_embed_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    struct {
        uint64_t table, ids, out;
        uint32_t n_embd, n_tokens, n_rows, row_bytes, out_stride;
        float scale;
    } push = {rdg_gpu_address(table),     rdg_gpu_address(ids),           rdg_gpu_address(out),
              (uint32_t)table->dim[0],    (uint32_t)ids->dim[0],          (uint32_t)table->dim[1],
              (uint32_t)table->stride[1], (uint32_t)(out->stride[1] / 4), p.scale};
    rdg_gpu_fill(d, "embed", &push, sizeof push);
    d->spec[0] = rdg_gpu_weight_type(table);
    d->n_spec = 1;
    if (rdg_gpu_grid(d, env->facts, rdg_div_up(rdg_div_up(table->dim[0], 8) * ids->dim[0], 64))) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
const rdg_variant rdg_embed_vulkan = {.name = "any_vulkan",
                                      .source = "src/ops/embed/embed.comp",
                                      .backend = RDG_BACKEND_VULKAN,
                                      .accepts = accepts,
                                      .gpu = &kernel};
