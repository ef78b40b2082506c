/* Plain C attention, for every pair of cache types.
 *
 * An item is one KV head and a block of tokens; its queries are the tokens' heads that share this KV head.
 * Keys come in blocks: rows are made f32 once for all queries of the item, scores follow, and the running
 * maximum, sum and output of every query are rescaled when its maximum rises (online softmax). Order depends
 * on the item only, so the result does not depend on the number of threads. */
#include "ops/attention/attention.h"
#include "ops/attention/attention_variants.h"
#include "ops/contract.h"
#include "ops/rows.h"
#include "quant/quant.h"

#include <math.h>

enum { TOKENS_PER_ITEM = 8, KEYS_PER_BLOCK = 32 };

static int64_t token_blocks(const rdg_op_call *call)
{
    return rdg_div_up(call->operand[RDG_ATTENTION_Q].dim[2], TOKENS_PER_ITEM);
}

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return call->operand[RDG_ATTENTION_K].dim[2] * token_blocks(call);
}

/* Of one thread, in floats: keys, values, outputs, maxima, sums. */
typedef struct layout {
    int64_t n_queries, keys, values, outputs, maxima, sums, total;
} layout;

static layout layout_of(const rdg_op_call *call)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q];
    const int64_t dim = q->dim[0], dim_v = call->operand[RDG_ATTENTION_V].dim[0];
    layout l = {.n_queries = RDG_MIN(q->dim[2], TOKENS_PER_ITEM) *
                             (q->dim[1] / call->operand[RDG_ATTENTION_K].dim[2])};
    l.values = l.keys + KEYS_PER_BLOCK * rdg_round_up(dim, 16);
    l.outputs = l.values + KEYS_PER_BLOCK * rdg_round_up(dim_v, 16);
    l.maxima = l.outputs + l.n_queries * rdg_round_up(dim_v, 16);
    l.sums = l.maxima + rdg_round_up(l.n_queries, 16);
    l.total = l.sums + rdg_round_up(l.n_queries, 16);
    return l;
}

static size_t scratch_bytes(const rdg_op_call *call, int n_threads)
{
    return (size_t)(layout_of(call).total * n_threads) * sizeof(float);
}

static void fetch(const rdg_tensor *t, int64_t first, int64_t n, int64_t g, float *rows)
{
    for (int64_t j = 0; j < n; j++)
        rdg_quant_ops[t->type].dequantise(rdg_tensor_row(t, (first + j) % t->dim[1], g, 0),
                                          rows + j * rdg_round_up(t->dim[0], 16), t->dim[0]);
}

/* Keys of token t: [*first, *end), empty for a token that sees none. */
static void visible(const rdg_op_call *call, int64_t t, int64_t *first, int64_t *end)
{
    const rdg_attention_params *p = RDG_PARAMS(call, rdg_attention_params);
    const int64_t pos = ((const int32_t *)call->operand[RDG_ATTENTION_POS].data)[t];
    *first = p->causal && p->window > 0 ? RDG_MAX(0, pos - p->window + 1) : 0;
    *end = pos < 0 ? 0 : p->causal ? pos + 1 : call->n_visible;
}

/* One query against the keys [begin, end) of the block. */
static void block_step(const rdg_attention_params *p, const float *q, const float *keys, const float *values,
                       int64_t dim, int64_t dim_v, int64_t begin, int64_t end, float *maximum, float *sum,
                       float *o)
{
    float score[KEYS_PER_BLOCK], best = *maximum;
    for (int64_t j = begin; j < end; j++) {
        float s = p->scale * rdg_dot_f32(q, keys + j * rdg_round_up(dim, 16), dim);
        if (p->softcap > 0.0f) s = p->softcap * tanhf(s / p->softcap);
        score[j] = s;
        best = s > best ? s : best;
    }
    if (best > *maximum) {
        const float shrink = expf(*maximum - best); /* exp(-inf) = 0 at the first block */
        for (int64_t i = 0; i < dim_v; i++) o[i] *= shrink;
        *sum *= shrink;
        *maximum = best;
    }
    double total = 0.0; /* beside a sink or one large key hundreds of small weights would be rounded away */
    for (int64_t j = begin; j < end; j++) {
        const float w = expf(score[j] - best), *v = values + j * rdg_round_up(dim_v, 16);
        total += (double)w;
        for (int64_t i = 0; i < dim_v; i++) o[i] += w * v[i];
    }
    *sum = (float)((double)*sum + total);
}

static void run_item(const rdg_op_call *call, int64_t item, float *scratch)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q], *k = &call->operand[RDG_ATTENTION_K],
                     *v = &call->operand[RDG_ATTENTION_V], *out = &call->operand[RDG_ATTENTION_OUT];
    const rdg_tensor *sinks = &call->operand[RDG_ATTENTION_SINKS];
    const rdg_attention_params *p = RDG_PARAMS(call, rdg_attention_params);
    const layout l = layout_of(call);
    const int64_t g = item / token_blocks(call), t0 = item % token_blocks(call) * TOKENS_PER_ITEM;
    const int64_t t1 = RDG_MIN(t0 + TOKENS_PER_ITEM, q->dim[2]), share = q->dim[1] / k->dim[2];
    const int64_t dim = q->dim[0], dim_v = v->dim[0], row_v = rdg_round_up(dim_v, 16);
    float *keys = scratch + l.keys, *values = scratch + l.values, *outputs = scratch + l.outputs,
          *maxima = scratch + l.maxima, *sums = scratch + l.sums;
    int64_t low = INT64_MAX, high = 0;

    for (int64_t t = t0; t < t1; t++) {
        int64_t first, end;
        visible(call, t, &first, &end);
        if (first >= end) continue;
        low = RDG_MIN(low, first);
        high = RDG_MAX(high, end);
    }
    for (int64_t i = 0; i < (t1 - t0) * share; i++) {
        /* a sink is a key without a value that has been seen already */
        const bool sink = rdg_tensor_present(sinks);
        maxima[i] = sink ? ((const float *)sinks->data)[g * share + i % share] : -INFINITY;
        sums[i] = sink ? 1.0f : 0.0f;
        for (int64_t j = 0; j < dim_v; j++) outputs[i * row_v + j] = 0.0f;
    }
    for (int64_t j = low; j < high; j += KEYS_PER_BLOCK) {
        const int64_t n = RDG_MIN(KEYS_PER_BLOCK, high - j);
        fetch(k, j, n, g, keys);
        fetch(v, j, n, g, values);
        for (int64_t i = 0; i < (t1 - t0) * share; i++) {
            int64_t t = t0 + i / share, first, end;
            visible(call, t, &first, &end);
            first = RDG_MAX(first - j, 0);
            end = RDG_MIN(end - j, n);
            if (first < end)
                block_step(p, rdg_tensor_row(q, g * share + i % share, t, 0), keys, values, dim, dim_v, first,
                           end, &maxima[i], &sums[i], outputs + i * row_v);
        }
    }
    for (int64_t i = 0; i < (t1 - t0) * share; i++) {
        float *o = rdg_tensor_row(out, g * share + i % share, t0 + i / share, 0);
        const float inv = sums[i] > 0.0f ? 1.0f / sums[i] : 0.0f;
        for (int64_t j = 0; j < dim_v; j++) o[j] = outputs[i * row_v + j] * inv;
    }
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    float *scratch = (float *)task->scratch + layout_of(call).total * task->thread;
    for (int64_t item = task->begin; item < task->end; item++) run_item(call, item, scratch);
}

static const rdg_cpu_kernel kernel = {
    .n_phases = 1, .n_items = n_items, .scratch_bytes = scratch_bytes, .run = run};
const rdg_variant rdg_attention_c = {
    .name = "any_c", .source = "src/ops/attention/attention_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
