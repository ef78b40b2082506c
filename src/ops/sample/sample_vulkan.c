#include "ops/sample/sample_step.h"
#include "ops/sample/sample_weight.h"
#include "ops/gpu_rows.h"
#include "ops/rows.h"

#include <string.h>

/* As sample.comp has them. */
enum { PASS_CLEAR, PASS_MAX, PASS_BINS, PASS_TOP_K, PASS_TOP_P, PASS_DRAW };
enum { TILE = 1024, MAX_GROUPS = 128, FIXED_WORDS = 16 + 2 * 256 + 3 * 1024 };

typedef struct push {
    uint64_t logits, draw, id, scratch, position, ring;
    uint32_t n, chunk, ring_size;
    float scale, reach;
    uint32_t top_k, top_p;
} push;

uint64_t rdg_sample_scratch_bytes(const rdg_sample_params *p, int64_t n)
{
    bool lists = p->temperature > 0 && (p->top_k > 0 || p->top_p < 1);
    return 4 * (FIXED_WORDS + (lists ? 2 * (uint64_t)n : 0));
}

static int encode_passes(const rdg_sample_params *p, const rdg_sample_step *s, uint64_t scratch, bool clear,
                         rdg_gpu_dispatch *d)
{
    const bool greedy = p->temperature <= 0, top_k = p->top_k > 0, top_p = p->top_p < 1;
    const bool runs[] = {clear,  true, !greedy && (top_k || top_p), !greedy && top_k, !greedy && top_p,
                         !greedy};
    const int64_t chunk = rdg_div_up(rdg_div_up(s->n, MAX_GROUPS), TILE) * TILE;
    const push args = {.logits = s->logits,
                       .draw = s->draw,
                       .id = s->id,
                       .scratch = scratch,
                       .position = s->position,
                       .ring = s->ring,
                       .n = (uint32_t)s->n,
                       .chunk = (uint32_t)chunk,
                       .ring_size = s->ring_size,
                       .scale = greedy ? 1 : rdg_sample_scale(p->temperature),
                       .reach = rdg_sample_reach(p->min_p),
                       .top_k = (uint32_t)p->top_k,
                       .top_p = top_p ? (uint32_t)((double)p->top_p * 0x1p32) : 0};
    int n = 0;
    for (uint32_t pass = PASS_CLEAR; pass <= PASS_DRAW; pass++) {
        if (!runs[pass]) continue;
        rdg_gpu_fill(&d[n], "sample", &args, sizeof args);
        d[n].spec[0] = pass;
        d[n].spec[1] = pass == PASS_MAX && greedy;
        d[n].spec[2] = pass > PASS_MAX && top_k;
        d[n].spec[3] = pass > PASS_MAX && top_p;
        d[n].n_spec = 4;
        d[n].grid[0] = pass == PASS_CLEAR ? 1 : (uint32_t)rdg_div_up(s->n, chunk);
        d[n].grid[1] = d[n].grid[2] = 1;
        d[n].barrier_before = n > 0;
        n++;
    }
    return n;
}

int rdg_sample_step_encode(const rdg_sample_params *p, const rdg_sample_step *s, uint64_t scratch,
                           rdg_gpu_dispatch *d)
{
    return encode_passes(p, s, scratch, false, d);
}

static rdg_sample_params params_of(const rdg_op_call *c)
{
    rdg_sample_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    return p;
}

static int encode(const rdg_op_call *c, const rdg_gpu_env *env, rdg_gpu_dispatch *d, rdg_error *e)
{
    (void)e;
    const rdg_sample_params p = params_of(c);
    const rdg_sample_step s = {.logits = rdg_gpu_address(&c->operand[RDG_SAMPLE_LOGITS]),
                               .n = c->operand[RDG_SAMPLE_LOGITS].dim[0],
                               .draw = rdg_gpu_address(&c->operand[RDG_SAMPLE_DRAW]),
                               .id = rdg_gpu_address(&c->operand[RDG_SAMPLE_ID])};
    return encode_passes(&p, &s, env->scratch, true, d);
}

static uint64_t scratch_bytes(const rdg_op_call *c, const rdg_gpu_env *env)
{
    (void)env;
    const rdg_sample_params p = params_of(c);
    return rdg_sample_scratch_bytes(&p, c->operand[RDG_SAMPLE_LOGITS].dim[0]);
}

static const rdg_gpu_kernel kernel = {.encode = encode, .scratch_bytes = scratch_bytes};
const rdg_variant rdg_sample_vulkan = {.name = "f32_vulkan",
                                       .source = "src/ops/sample/sample.comp",
                                       .backend = RDG_BACKEND_VULKAN,
                                       .gpu = &kernel};
