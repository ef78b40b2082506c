/* One item of attention in flash style, the same for every instruction set. Included once, behind what it
 * calls: KEYS, GROUP, WIDTH (floats of an output row that `product` makes at once), load_keys, load_values,
 * load_queries, product, weigh and store. */
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

static void run_item(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x, float *memory,
                     float *parts)
{
    const rdg_tensor *k = &call->operand[RDG_ATTENTION_K], *v = &call->operand[RDG_ATTENTION_V];
    const rdg_tensor *sinks = &call->operand[RDG_ATTENTION_SINKS];
    const float softcap = RDG_PARAMS(call, rdg_attention_params)->softcap;
    const rdg_flash_layout l = rdg_flash_layout_of(call, c);
    const int64_t dim = k->dim[0], row_k = rdg_round_up(dim, 16), n_queries = x->n_tokens * c->share;
    if (n_queries < GROUP) memset(memory + l.queries, 0, (size_t)(GROUP * row_k) * sizeof(float));
    load_queries(call, c, x, row_k, memory + l.queries);
    memset(memory + l.out, 0, (size_t)(RDG_MAX(n_queries, GROUP) * c->row_v) * sizeof(float));
    memset(memory + l.sums, 0, (size_t)(n_queries * 16) * sizeof(float));
    for (int64_t i = 0; i < n_queries; i++) {
        /* a sink is a key without a value that has been seen already; with chunks it is added when they are
         * joined */
        bool sink = rdg_tensor_present(sinks) && c->n_chunks == 1;
        memory[l.maxima + i] =
            sink ? ((const float *)sinks->data)[x->g * c->share + i % c->share] : -INFINITY;
        if (sink) memory[l.sums + 16 * i] = 1.0f;
    }
    for (int64_t j = x->first_key; j < x->end_key; j += KEYS) {
        const int64_t n = RDG_MIN(KEYS, x->end_key - j);
        load_keys(k, x->g, j, n, memory + l.rows, memory + l.keys);
        load_values(v, x->g, j, n, memory + l.rows, c->row_v, memory + l.values);
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
            float *scores = memory + l.scores;
            product_keys(memory + l.keys, n, dim, memory + l.queries + first * row_k, row_k, scores);
            for (int64_t t = 0; t < GROUP; t++) {
                if (t >= n_group || begin[t] >= end[t])
                    memset(scores + t * KEYS, 0, KEYS * sizeof *scores);
                else
                    weigh(scores + t * KEYS, begin[t], end[t], softcap, &memory[l.maxima + first + t],
                          memory + l.sums + 16 * (first + t), memory + l.out + (first + t) * c->row_v,
                          c->row_v);
            }
            product_values(memory + l.values, c->row_v, n, scores, memory + l.out + first * c->row_v);
        }
    }
    store(call, c, x, &l, memory, parts);
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    rdg_flash_run(call, task, run_item);
}

static const rdg_cpu_kernel kernel = {2, rdg_flash_n_items, rdg_flash_scratch_bytes, run};
