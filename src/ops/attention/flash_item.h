/* One item of attention in flash style, the same for every instruction set. Included once, behind what it
 * calls: KEYS, GROUP, WIDTH (floats of an output row that `product` makes at once), load_keys, load_values,
 * load_queries, product, weigh and store, DIRECT_QUERIES and what flash_direct.h needs. */
#include "ops/attention/flash_direct.h"

static void product_keys(const float *keys, int64_t n, int64_t dim, const float *q, int64_t row_k,
                         float *scores)
{
    for (int h = 0; h < n; h += WIDTH) product(keys + h, KEYS, dim, q, row_k, scores + h, KEYS, false);
}

static void product_values(const float *values, int64_t row_v, int64_t n, const float *weights, float *out)
{
    for (int64_t d = 0; d < row_v; d += WIDTH)
        product(values + d, row_v, n, weights, KEYS, out + d, row_v, true);
}

/* The keys of the item, for up to DIRECT_QUERIES queries. */
static void run_direct(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                       const rdg_flash_layout *l, float *memory)
{
    const rdg_tensor *k = &call->operand[RDG_ATTENTION_K], *v = &call->operand[RDG_ATTENTION_V];
    const float softcap = RDG_PARAMS(call, rdg_attention_params)->softcap;
    const int64_t dim = rdg_round_up(k->dim[0], LANES), dim_v = rdg_round_up(v->dim[0], LANES),
                  row_k = rdg_round_up(k->dim[0], 16), n_queries = x->n_tokens * c->share;
    float *scores = memory + l->scores;
    for (int64_t j = x->first_key, n; j < x->end_key; j += n) {
        n = rdg_flash_run_of(call, j, x->end_key);
        const rdg_flash_rows keys = rdg_flash_rows_at(k, x->g, j, n, LANES, memory + l->keys),
                             values = rdg_flash_rows_at(v, x->g, j, n, LANES, memory + l->values);
        for (int64_t i = 0, n_q; i < n_queries; i += n_q) {
            n_q = n_queries - i >= 3 ? 4 : n_queries - i; /* of 3 the fourth has weight 0 */
            float *out = memory + l->out + i * c->row_v;
            dots(&keys, (int)n_q, dim, memory + l->queries + i * row_k, row_k, scores);
            for (int64_t t = 0; t < n_q; t++) {
                int64_t from = 0, to = 0;
                if (i + t < n_queries)
                    rdg_flash_visible(call, x->first_token + (i + t) / c->share, &from, &to);
                from = RDG_MAX(from - j, 0);
                to = RDG_MIN(to - j, n);
                if (from < to)
                    weigh(scores + t * KEYS, n, from, to, softcap, &memory[l->maxima + i + t],
                          memory + l->sums + 16 * (i + t), out + t * c->row_v, c->row_v);
                else
                    memset(scores + t * KEYS, 0, (size_t)n * sizeof *scores);
            }
            add_values(&values, (int)n_q, dim_v, scores, out, c->row_v);
        }
    }
}

/* The keys of the item, for any number of queries. */
static void run_blocks(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                       const rdg_flash_layout *l, float *memory)
{
    const rdg_tensor *k = &call->operand[RDG_ATTENTION_K], *v = &call->operand[RDG_ATTENTION_V];
    const float softcap = RDG_PARAMS(call, rdg_attention_params)->softcap;
    const int64_t dim = k->dim[0], row_k = rdg_round_up(dim, 16), n_queries = x->n_tokens * c->share;
    for (int64_t j = x->first_key, n; j < x->end_key; j += n) {
        n = rdg_flash_run_of(call, j, x->end_key);
        load_keys(k, x->g, j, n, memory + l->rows, memory + l->keys);
        load_values(v, x->g, j, n, memory + l->rows, c->row_v, memory + l->values);
        for (int64_t i = 0; i < n_queries; i += GROUP) {
            /* the last group is moved back so that it is full: its first rows get weight 0 the second time */
            const int64_t first = RDG_MAX(RDG_MIN(i, n_queries - GROUP), 0),
                          n_group = RDG_MIN(GROUP, n_queries);
            int64_t begin[GROUP], end[GROUP], any = 0;
            for (int64_t t = 0; t < n_group; t++) {
                int64_t from, to;
                rdg_flash_visible(call, x->first_token + (first + t) / c->share, &from, &to);
                begin[t] = RDG_MAX(from - j, 0);
                end[t] = first + t < i ? 0 : RDG_MIN(to - j, n);
                any |= begin[t] < end[t];
            }
            if (!any) continue;
            float *scores = memory + l->scores;
            product_keys(memory + l->keys, n, dim, memory + l->queries + first * row_k, row_k, scores);
            for (int64_t t = 0; t < GROUP; t++) {
                if (t >= n_group || begin[t] >= end[t])
                    memset(scores + t * KEYS, 0, KEYS * sizeof *scores);
                else
                    weigh(scores + t * KEYS, n, begin[t], end[t], softcap, &memory[l->maxima + first + t],
                          memory + l->sums + 16 * (first + t), memory + l->out + (first + t) * c->row_v,
                          c->row_v);
            }
            product_values(memory + l->values, c->row_v, n, scores, memory + l->out + first * c->row_v);
        }
    }
}

static void run_item(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                     const rdg_flash_layout *l, float *memory, float *parts)
{
    const rdg_tensor *sinks = &call->operand[RDG_ATTENTION_SINKS];
    const int64_t row_k = rdg_round_up(call->operand[RDG_ATTENTION_K].dim[0], 16),
                  n_queries = x->n_tokens * c->share, n_rows = rdg_flash_padded(n_queries);
    load_queries(call, c, x, row_k, memory + l->queries);
    memset(memory + l->queries + n_queries * row_k, 0,
           (size_t)((n_rows - n_queries) * row_k) * sizeof(float));
    memset(memory + l->out, 0, (size_t)(n_rows * c->row_v) * sizeof(float));
    memset(memory + l->sums, 0, (size_t)(n_queries * 16) * sizeof(float));
    for (int64_t i = 0; i < n_queries; i++) {
        /* a sink is a key without a value that has been seen already; with chunks it is added when they are
         * joined */
        bool sink = rdg_tensor_present(sinks) && c->n_chunks == 1;
        float maximum = sink ? ((const float *)sinks->data)[x->g * c->share + i % c->share] : -INFINITY;
        memory[l->maxima + i] = maximum;
        if (maximum > -INFINITY) memory[l->sums + 16 * i] = 1.0f;
    }
    if (n_queries <= DIRECT_QUERIES)
        run_direct(call, c, x, l, memory);
    else
        run_blocks(call, c, x, l, memory);
    store(call, c, x, l, memory, parts);
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    rdg_flash_run(call, task, run_item);
}

static const rdg_cpu_kernel kernel = {2, rdg_flash_n_items, rdg_flash_scratch_bytes, run};
