#include "ops/attention/attention_step.h"
#include "ops/matmul/matvec_q8.h"
#include "ops/rope/rope_table.h"

#include <string.h>

enum { COUNTER_BYTES = 1024, KEYS_A_SPLIT = 128, MAX_SPLITS = 32, MAX_PAIRS = 512, FEW_WORKGROUPS = 128 };

/* Eight subgroups; each needs workgroup memory for its sums. */
static uint32_t local_size(const rdg_attention_step *a, uint32_t width)
{
    return RDG_MIN(8 * width, a->q->dim[0] >= 64 ? 256u : 128u);
}

static uint32_t splits(const rdg_attention_step *a)
{
    uint32_t s = 1;
    while (s < MAX_SPLITS && (int64_t)s * KEYS_A_SPLIT < a->n_visible_max) s *= 2;
    return s;
}

static uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Into how many blocks the query heads of a key head are divided: each block reads all the keys, so only as
 * long as the keys do not give enough workgroups. */
static uint32_t parts(const rdg_attention_step *a)
{
    int64_t n_kv = a->k->dim[1], group = a->q->dim[1] / n_kv, p = 1;
    while (group % (2 * p) == 0 && n_kv * 2 * p * splits(a) <= FEW_WORKGROUPS &&
           n_kv * 2 * p * 4 <= COUNTER_BYTES)
        p *= 2;
    return (uint32_t)p;
}

bool rdg_attention_step_accepts(const rdg_attention_step *a, const rdg_device_facts *f)
{
    int64_t head_dim = a->q->dim[0], n_heads = a->q->dim[1], n_kv = a->k->dim[1], group = n_heads / n_kv;
    uint32_t width = rdg_gpu_step_width(f), local = local_size(a, width);
    if (a->k_cache->type != RDG_TYPE_F16 || a->v_cache->type != RDG_TYPE_F16 ||
        !rdg_tensor_dense(a->k_cache) || !rdg_tensor_dense(a->v_cache) || !a->params.causal)
        return false;
    if (a->k->dim[0] != head_dim || a->v->dim[0] != head_dim || a->q->dim[2] != 1 || n_heads % n_kv ||
        n_kv * 4 > COUNTER_BYTES)
        return false;
    if (a->q->stride[1] != 4 * head_dim || a->k->stride[1] != 4 * head_dim ||
        a->v->stride[1] != 4 * head_dim || a->out->stride[1] != 4 * head_dim)
        return false;
    int64_t lanes = head_dim / 8;
    if (head_dim % 8 || (lanes & (lanes - 1)) || !width || lanes > width || group > 16 ||
        f->workgroup_max < local)
        return false;
    if (a->rope && (a->rope->n_dims > head_dim || a->rope->n_dims / 2 > MAX_PAIRS)) return false;
    if ((a->q_norm != NULL) != (a->k_norm != NULL)) return false;
    if (a->q_norm && (a->q_norm->dim[1] != 1 || a->k_norm->dim[1] != 1)) return false;
    int64_t shared = 4 * (group * head_dim + 2 * head_dim + local / width * group * (head_dim + 2)) + 2048;
    return shared <= f->shared_bytes;
}

uint64_t rdg_attention_step_scratch_bytes(const rdg_attention_step *a, const rdg_device_facts *f)
{
    (void)f;
    int64_t head_dim = a->q->dim[0];
    return COUNTER_BYTES + (uint64_t)MAX_SPLITS * (uint64_t)(a->q->dim[1] * (head_dim + 2)) * 4;
}

int rdg_attention_step_encode(const rdg_attention_step *a, const rdg_gpu_env *env, rdg_gpu_dispatch *d,
                              rdg_error *e)
{
    uint32_t width = rdg_gpu_step_width(env->facts), n_slots = (uint32_t)a->k_cache->dim[1];
    struct {
        uint64_t q, k, v, k_cache, v_cache, pos, table, out, scratch, sinks, q_norm, k_norm, chain, clock;
        uint32_t n_slots, chain_before;
        float scale, eps;
    } push = {.q = rdg_gpu_address(a->q),
              .k = rdg_gpu_address(a->k),
              .v = rdg_gpu_address(a->v),
              .k_cache = rdg_gpu_address(a->k_cache),
              .v_cache = rdg_gpu_address(a->v_cache),
              .pos = rdg_gpu_address(a->pos),
              .out = rdg_gpu_address(a->out),
              .scratch = env->scratch,
              .sinks = a->sinks ? rdg_gpu_address(a->sinks) : 0,
              .q_norm = a->q_norm ? rdg_gpu_address(a->q_norm) : 0,
              .k_norm = a->k_norm ? rdg_gpu_address(a->k_norm) : 0,
              .chain = env->chain.counter,
              .clock = env->chain.clock,
              .n_slots = n_slots,
              .chain_before = env->chain.before,
              .scale = a->params.scale,
              .eps = a->eps};
    if (a->rope) {
        uint64_t table[MAX_PAIRS];
        if (!rdg_rope_table(a->rope, a->factors, table)) {
            rdg_fail(e, RDG_E_MALFORMED, "a rotary frequency is not finite: base %g, scale %g",
                     a->rope->freq_base, a->rope->freq_scale);
            return 0;
        }
        push.table = rdg_gpu_constant(env, table, (size_t)(a->rope->n_dims / 2) * sizeof *table, e);
        if (!push.table) return 0;
    }
    rdg_gpu_fill(d, env->chain.clock ? "attention_step_clock" : "attention_step", &push, sizeof push);
    uint32_t n_splits = splits(a), n_parts = parts(a), n_kv = (uint32_t)a->k->dim[1],
             group = (uint32_t)a->q->dim[1] / n_kv / n_parts, local = local_size(a, width);
    const uint32_t spec[] = {local,
                             (uint32_t)a->q->dim[0],
                             group,
                             n_splits,
                             !a->rope                          ? 0
                             : a->rope->style == RDG_ROPE_NORM ? 1
                                                               : 2,
                             a->rope ? (uint32_t)a->rope->n_dims : 0,
                             a->q_norm != NULL,
                             a->n_visible_max > n_slots,
                             width,
                             local,
                             (uint32_t)a->params.window,
                             n_parts,
                             bits(a->params.softcap),
                             bits(a->rope ? a->rope->magnitude : 1.0f),
                             rdg_gpu_chain_spec(&env->chain)};
    _Static_assert(sizeof spec <= sizeof d->spec, "more constants than a kernel may have");
    for (int i = 0; i < RDG_COUNTOF(spec); i++) d->spec[i] = spec[i];
    d->n_spec = RDG_COUNTOF(spec);
    d->subgroup = width;
    d->grid[0] = n_kv * n_parts;
    d->grid[1] = n_splits;
    d->grid[2] = 1;
    return 1;
}
