#include "ops/attention/flash.h"
#include "base/mem.h"
#include "ops/contract.h"
#include "quant/quant.h"

#include <math.h>

rdg_flash_cut rdg_flash_cut_of(const rdg_op_call *call, int64_t n_visible)
{
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q], *k = &call->operand[RDG_ATTENTION_K];
    rdg_flash_cut c = {.n_kv_heads = k->dim[2], .share = q->dim[1] / k->dim[2], .n_tokens = q->dim[2]};
    enum { ENOUGH_ITEMS = 64 };
    c.tokens_per_item = RDG_MIN(RDG_MAX(RDG_FLASH_QUERIES / c.share, 1), c.n_tokens);
    c.n_token_blocks = rdg_div_up(c.n_tokens, c.tokens_per_item);
    int64_t n_keys = n_visible > 0 ? RDG_MIN(n_visible, k->dim[1]) : k->dim[1];
    c.n_chunks =
        c.n_token_blocks * c.n_kv_heads >= ENOUGH_ITEMS ? 1 : rdg_div_up(n_keys, RDG_FLASH_CHUNK_KEYS);
    c.row_v = rdg_round_up(call->operand[RDG_ATTENTION_V].dim[0], 32);
    c.part_floats = c.row_v + 16;
    return c;
}

void rdg_flash_visible(const rdg_op_call *call, int64_t t, int64_t *first, int64_t *end)
{
    const rdg_attention_params *p = RDG_PARAMS(call, rdg_attention_params);
    const int64_t pos = ((const int32_t *)call->operand[RDG_ATTENTION_POS].data)[t];
    *first = p->causal && p->window > 0 ? RDG_MAX(0, pos - p->window + 1) : 0;
    *end = pos < 0 ? 0 : p->causal ? pos + 1 : call->n_visible;
}

rdg_flash_item rdg_flash_item_at(const rdg_op_call *call, const rdg_flash_cut *c, int64_t item)
{
    rdg_flash_item x = {.chunk = item % c->n_chunks, .g = item / c->n_chunks % c->n_kv_heads};
    x.first_token = item / c->n_chunks / c->n_kv_heads * c->tokens_per_item;
    x.n_tokens = RDG_MIN(c->tokens_per_item, c->n_tokens - x.first_token);
    int64_t low = INT64_MAX, high = 0;
    for (int64_t t = x.first_token; t < x.first_token + x.n_tokens; t++) {
        int64_t first, end;
        rdg_flash_visible(call, t, &first, &end);
        if (first >= end) continue;
        low = RDG_MIN(low, first);
        high = RDG_MAX(high, end);
    }
    if (low >= high) return x;
    x.first_key = RDG_MIN(low + x.chunk * RDG_FLASH_CHUNK_KEYS, high);
    /* n_visible is a bound only if the caller says the truth: the last chunk takes what is left */
    x.end_key = x.chunk == c->n_chunks - 1 ? high : RDG_MIN(x.first_key + RDG_FLASH_CHUNK_KEYS, high);
    return x;
}

rdg_flash_layout rdg_flash_layout_of(const rdg_op_call *call, const rdg_flash_cut *c)
{
    const int64_t dim = call->operand[RDG_ATTENTION_Q].dim[0],
                  n = rdg_flash_padded(c->tokens_per_item * c->share);
    const int64_t row_k = rdg_round_up(dim, 16);
    rdg_flash_layout l = {0};
    l.values = l.keys + row_k * RDG_FLASH_KEYS;
    l.rows = l.values + RDG_FLASH_KEYS * c->row_v;
    l.scores = l.rows + RDG_FLASH_KEYS * RDG_MAX(row_k, c->row_v);
    l.queries = l.scores + RDG_FLASH_GROUP * RDG_FLASH_KEYS;
    l.out = l.queries + n * row_k;
    l.maxima = l.out + n * c->row_v;
    l.sums = l.maxima + rdg_round_up(n, 16);
    l.total = l.sums + n * 16;
    return l;
}

int64_t rdg_flash_run_of(const rdg_op_call *call, int64_t j, int64_t end)
{
    const int64_t n_slots = call->operand[RDG_ATTENTION_K].dim[1];
    return RDG_MIN(RDG_MIN(RDG_FLASH_KEYS, end - j), n_slots - j % n_slots);
}

rdg_flash_rows rdg_flash_rows_at(const rdg_tensor *t, int64_t g, int64_t j, int64_t n, int64_t whole,
                                 float *memory)
{
    const int64_t dim = t->dim[0], row = rdg_round_up(dim, 16);
    rdg_flash_rows r = {.type = t->type, .n = n, .stride = t->stride[1]};
    r.first = rdg_tensor_row(t, j % t->dim[1], g, 0);
    bool plain = t->type == RDG_TYPE_F32 || t->type == RDG_TYPE_F16 || t->type == RDG_TYPE_BF16;
    if (plain && dim % whole == 0) return r;
    for (int64_t i = 0; i < n; i++) {
        rdg_quant_ops[t->type].dequantise(rdg_flash_row(&r, i), memory + i * row, dim);
        for (int64_t d = dim; d < row; d++) memory[i * row + d] = 0.0f;
    }
    return (rdg_flash_rows){RDG_TYPE_F32, n, row * (int64_t)sizeof *memory, (const char *)memory};
}

static size_t parts_floats(const rdg_flash_cut *c)
{
    return c->n_chunks > 1 ? (size_t)(c->n_tokens * c->share * c->n_kv_heads * c->n_chunks * c->part_floats)
                           : 0;
}

int64_t rdg_flash_n_items(const rdg_op_call *call, int phase)
{
    rdg_flash_cut c = rdg_flash_cut_of(call, call->n_visible);
    if (phase == 0) return c.n_kv_heads * c.n_token_blocks * c.n_chunks;
    return c.n_chunks > 1 ? c.n_tokens * c.n_kv_heads : 0;
}

/* Asked for before positions are known: the largest cut is planned for. */
size_t rdg_flash_scratch_bytes(const rdg_op_call *call, int n_threads)
{
    rdg_flash_cut c = rdg_flash_cut_of(call, 0);
    return (parts_floats(&c) + (size_t)(n_threads * rdg_flash_layout_of(call, &c).total)) * sizeof(float);
}

/* The heads of one KV head and token: rescale every chunk to the largest maximum and add, in the order of the
 * keys. */
static void join(const rdg_op_call *call, const rdg_flash_cut *c, int64_t item, float *parts)
{
    const rdg_tensor *out = &call->operand[RDG_ATTENTION_OUT], *sinks = &call->operand[RDG_ATTENTION_SINKS];
    const int64_t token = item / c->n_kv_heads, first_head = item % c->n_kv_heads * c->share;
    for (int64_t h = first_head; h < first_head + c->share; h++) {
        const float *part = rdg_flash_part(c, parts, token, h, 0);
        float best = rdg_tensor_present(sinks) ? ((const float *)sinks->data)[h] : -INFINITY, sum = 0.0f;
        const float sink = best;
        float *o = rdg_tensor_row(out, h, token, 0);
        for (int64_t k = 0; k < c->n_chunks; k++) best = fmaxf(best, part[k * c->part_floats + c->row_v]);
        for (int64_t i = 0; i < out->dim[0]; i++) o[i] = 0.0f;
        if (sink > -INFINITY) sum = expf(sink - best);
        for (int64_t k = 0; k < c->n_chunks; k++) {
            const float *p = part + k * c->part_floats;
            if (p[c->row_v + 1] == 0.0f) continue; /* nothing visible in this chunk */
            const float w = expf(p[c->row_v] - best);
            sum += w * p[c->row_v + 1];
            for (int64_t i = 0; i < out->dim[0]; i++) o[i] += w * p[i];
        }
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        for (int64_t i = 0; i < out->dim[0]; i++) o[i] *= inverse;
    }
}

void rdg_flash_run(const rdg_op_call *call, const rdg_cpu_task *task, rdg_flash_item_fn *item)
{
    rdg_flash_cut c = rdg_flash_cut_of(call, call->n_visible);
    float *parts = task->scratch;
    const rdg_flash_layout l = rdg_flash_layout_of(call, &c);
    float *memory = parts + parts_floats(&c) + task->thread * l.total;
    for (int64_t i = task->begin; i < task->end; i++) {
        if (task->phase == 1) {
            join(call, &c, i, parts);
            continue;
        }
        rdg_flash_item x = rdg_flash_item_at(call, &c, i);
        item(call, &c, &x, &l, memory, parts);
    }
}
