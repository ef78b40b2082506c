#include "ops/route/route.h"
#include "ops/gpu.h"
#include "ops/gpu_rows.h"

#include <string.h>

static bool accepts(const rdg_op_call *c)
{
    return c->operand[RDG_ROUTE_LOGITS].dim[0] <= 1024; /* they lie in workgroup memory */
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    const rdg_tensor *logits = &c->operand[RDG_ROUTE_LOGITS], *ids = &c->operand[RDG_ROUTE_IDS],
                     *weights = &c->operand[RDG_ROUTE_WEIGHTS];
    rdg_route_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    struct {
        uint64_t logits, ids, weights;
        uint32_t n_experts, n_used, logits_stride, ids_stride, weights_stride;
        float scale;
        uint32_t n_tokens;
    } push = {rdg_gpu_address(logits),
              rdg_gpu_address(ids),
              rdg_gpu_address(weights),
              (uint32_t)logits->dim[0],
              (uint32_t)ids->dim[0],
              (uint32_t)(logits->stride[1] / 4),
              (uint32_t)(ids->stride[1] / 4),
              (uint32_t)(weights->stride[1] / 4),
              p.scale,
              (uint32_t)logits->dim[1]};
    rdg_gpu_fill(d, "route", &push, sizeof push);
    d->spec[0] = logits->dim[0] <= 64 ? 32 : 128;
    d->spec[1] = (uint32_t)p.kind;
    d->n_spec = 2;
    if (rdg_gpu_grid(d, env->facts, logits->dim[1])) return 1;
    rdg_fail(e, RDG_E_LIMIT, "too many tokens for one launch");
    return 0;
}

static const rdg_gpu_kernel kernel = {.encode = encode};
/* Half a unit for each of up to 17 weights that are summed one after another, and of equal weights the
 * roundings may all go one way; three for the exponential, five for the division. */
const rdg_variant rdg_route_vulkan = {.name = "f32_vulkan",
                                      .source = "src/ops/route/route.comp",
                                      .backend = RDG_BACKEND_VULKAN,
                                      .accepts = accepts,
                                      .gpu = &kernel,
                                      .tolerance = {RDG_TOLERANCE_SIZE, 3e-6}};
