/* Cuts by radix selection: three passes over what is left find the key of the last one that stays, by number
 * or by weight. Candidates stay in the order of their ids throughout, and nothing is sorted. */
#include "ops/sample/sample.h"
#include "ops/sample/sample_variants.h"
#include "ops/sample/sample_weight.h"
#include "ops/contract.h"

#include <string.h>

typedef struct candidate {
    uint64_t weight; /* w(1), then w(T) */
    uint32_t key;
    int32_t id;
} candidate;

size_t rdg_sample_work_bytes(int64_t n)
{
    return (size_t)n * sizeof(candidate);
}

const char *rdg_sample_problem(int32_t id)
{
    return id == RDG_SAMPLE_NOTHING ? "every logit is -inf: there is no token to pick"
                                    : "a logit is NaN or +inf: the model's output is broken";
}

/* The first of the largest logits, or what is wrong with them. Lanes, so that a compiler can use vectors. */
static int32_t largest(const float *logits, int64_t n)
{
    enum { LANES = 16 };
    float most[LANES], best = -INFINITY;
    int32_t bad[LANES] = {0}, broken = 0;
    int64_t i = 0;
    for (int k = 0; k < LANES; k++) most[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float x = logits[i + k];
            most[k] = x > most[k] ? x : most[k];
            bad[k] |= !(x < INFINITY);
        }
    for (int k = 0; k < LANES; k++) {
        best = RDG_MAX(best, most[k]);
        broken |= bad[k];
    }
    for (; i < n; i++) {
        best = RDG_MAX(best, logits[i]);
        broken |= !(logits[i] < INFINITY);
    }
    if (broken) return RDG_SAMPLE_BROKEN;
    if (best == -INFINITY) return RDG_SAMPLE_NOTHING;
    for (i = 0; logits[i] != best;) i++;
    return (int32_t)i;
}

/* A key that at least `need` logits reach, and few more: so that few become candidates. */
static uint32_t floor_of(const float *logits, int64_t n, int64_t need)
{
    enum { SHIFT = 20, BINS = 1 << (32 - SHIFT) };
    uint32_t bins[BINS] = {0}, b = BINS - 1;
    for (int64_t i = 0; i < n; i++) bins[rdg_sample_key(logits[i]) >> SHIFT]++;
    for (int64_t reached = bins[b]; reached < need && b > 0;) reached += bins[--b];
    return RDG_MAX(b << SHIFT, RDG_SAMPLE_KEY_NEG_INF + 1);
}

/* Keeps the first `need` candidates of the order, or those in front of which less than `need` weight stands.
 * Returns how many stay. */
static int64_t cut(candidate *c, int64_t n, uint64_t need, bool by_weight)
{
    enum { BITS = 11, BINS = 1 << BITS };
    static const int shifts[] = {21, 10, 0};
    uint32_t key = 0, mask = 0;
    uint64_t per_tie = 1;
    for (int pass = 0; pass < RDG_COUNTOF(shifts); pass++) {
        const int shift = shifts[pass];
        const uint32_t digits = (pass < 2 ? BINS : 1 << 10) - 1;
        uint64_t bins[BINS] = {0};
        for (int64_t i = 0; i < n; i++)
            if ((c[i].key & mask) == key) bins[c[i].key >> shift & digits] += by_weight ? c[i].weight : 1;
        int64_t b = digits;
        while (b > 0 && bins[b] < need) need -= bins[b--];
        key |= (uint32_t)b << shift;
        mask |= digits << shift;
    }
    int64_t kept = 0;
    if (by_weight)
        for (int64_t i = 0; i < n; i++)
            if (c[i].key == key) per_tie = RDG_MAX(c[i].weight, 1);
    uint64_t ties = (need + per_tie - 1) / per_tie; /* equal logits weigh the same */
    for (int64_t i = 0; i < n; i++)
        if (c[i].key > key || (c[i].key == key && ties && ties--)) c[kept++] = c[i];
    return kept;
}

int32_t rdg_sample_row(const rdg_sample_params *p, const float *logits, int64_t n, uint64_t seed,
                       uint32_t step, void *work)
{
    candidate *c = work;
    int64_t left = 0;
    int32_t best = largest(logits, n);
    if (best < 0 || p->temperature <= 0) return best;
    const float max = logits[best], unit = rdg_sample_scale(1), scale = rdg_sample_scale(p->temperature),
                reach = rdg_sample_reach(p->min_p);
    const bool few = p->top_k > 0 && p->top_k < n;
    const uint32_t lowest = few ? floor_of(logits, n, p->top_k) : RDG_SAMPLE_KEY_NEG_INF + 1;
    for (int64_t i = 0; i < n; i++) {
        uint32_t key = rdg_sample_key(logits[i]);
        if (key >= lowest) c[left++] = (candidate){.key = key, .id = (int32_t)i};
    }
    if (p->top_k > 0 && p->top_k < left) left = cut(c, left, (uint64_t)p->top_k, false);
    if (p->top_p < 1) {
        uint64_t total = 0;
        for (int64_t i = 0; i < left; i++)
            total += c[i].weight = rdg_sample_weight((max - logits[c[i].id]) * unit);
        left = cut(c, left, rdg_sample_part(total, p->top_p), true);
    }
    uint64_t total = 0;
    for (int64_t i = 0; i < left; i++) {
        float d = max - logits[c[i].id];
        total += c[i].weight = d <= reach ? rdg_sample_weight(d * scale) : 0;
    }
    uint64_t target = rdg_sample_target(total, seed, step);
    int64_t i = 0;
    while (target >= c[i].weight) target -= c[i++].weight; /* target < total: it ends */
    return c[i].id;
}

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)call;
    (void)phase;
    return 1;
}

static size_t scratch_bytes(const rdg_op_call *call, int n_threads)
{
    (void)n_threads;
    return rdg_sample_work_bytes(call->operand[RDG_SAMPLE_LOGITS].dim[0]);
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *logits = &call->operand[RDG_SAMPLE_LOGITS];
    const uint32_t *draw = call->operand[RDG_SAMPLE_DRAW].data;
    int32_t *id = call->operand[RDG_SAMPLE_ID].data;
    if (task->begin < task->end)
        *id = rdg_sample_row(RDG_PARAMS(call, rdg_sample_params), logits->data, logits->dim[0],
                             draw[0] | (uint64_t)draw[1] << 32, draw[2], task->scratch);
}

static const rdg_cpu_kernel kernel = {
    .n_phases = 1, .n_items = n_items, .scratch_bytes = scratch_bytes, .run = run};
const rdg_variant rdg_sample_c = {
    .name = "f32_c", .source = "src/ops/sample/sample_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
