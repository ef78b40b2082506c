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

static int32_t largest(const float *logits, int64_t n)
{
    uint32_t best = RDG_SAMPLE_KEY_NEG_INF;
    int32_t id = RDG_SAMPLE_NOTHING;
    for (int64_t i = 0; i < n; i++) {
        if (!(logits[i] < INFINITY)) return RDG_SAMPLE_BROKEN;
        uint32_t key = rdg_sample_key(logits[i]);
        if (key <= best) continue;
        best = key;
        id = (int32_t)i;
    }
    return id;
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
    for (int64_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY)
            c[left++] = (candidate){.key = rdg_sample_key(logits[i]), .id = (int32_t)i};
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
