/* experts on the 8-bit dot products of matvec. Few columns: an item is a row block of one column's expert.
 * Many (more columns than experts): an item is a row block of one expert, which then serves all columns that
 * chose it while its rows are in cache, eight at a time. */
#include "ops/matvec/q8.h"
#include "base/mem.h"
#include "ops/experts/experts.h"

static bool by_expert(const rdg_op_call *call)
{
    const rdg_tensor *ids = &call->operand[RDG_EXPERTS_IDS];
    return ids->dim[0] * ids->dim[1] > call->operand[RDG_EXPERTS_WEIGHT].dim[2];
}

int64_t rdg_q8_experts_n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *ids = &call->operand[RDG_EXPERTS_IDS];
    if (phase == 0) return rdg_q8_quantise_items(&call->operand[RDG_EXPERTS_X]);
    int64_t row_items = rdg_div_up(weight->dim[1], rdg_q8_item_rows(weight));
    return row_items * (by_expert(call) ? weight->dim[2] : ids->dim[0] * ids->dim[1]);
}

size_t rdg_q8_experts_scratch_bytes(const rdg_op_call *call, int n_threads)
{
    const rdg_tensor *x = &call->operand[RDG_EXPERTS_X];
    (void)n_threads;
    return (size_t)(rdg_tensor_n_rows(x) * rdg_q8_row_blocks(x)) * sizeof(rdg_q8_block);
}

/* Columns (slot, token) of one item, up to the most a dot product takes. */
typedef struct column_group {
    int64_t slot[RDG_Q8_MAX_TOKENS], token[RDG_Q8_MAX_TOKENS];
    int n;
} column_group;

static void run_group(const rdg_op_call *call, const column_group *g, int64_t expert, int64_t row_item,
                      const rdg_q8_block *blocks, const rdg_q8_isa *isa)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *x = &call->operand[RDG_EXPERTS_X];
    const rdg_tensor *bias = &call->operand[RDG_EXPERTS_BIAS], *out = &call->operand[RDG_EXPERTS_OUT];
    float sums[RDG_Q8_MAX_TOKENS * RDG_Q8_MAX_ITEM_ROWS];
    int64_t rows = rdg_q8_item_rows(weight), first = row_item * rows,
            n = RDG_MIN(rows, weight->dim[1] - first);
    rdg_q8_dot_args a = {.rows = rdg_tensor_row(weight, first, expert, 0),
                         .row_stride_bytes = weight->stride[1],
                         .n_rows = n,
                         .n_columns = weight->dim[0],
                         .n_tokens = g->n,
                         .sums = sums,
                         .sums_stride = RDG_Q8_MAX_ITEM_ROWS,
                         .n_streams = 1};
    for (int i = 0; i < g->n; i++)
        a.x[i] =
            blocks + (g->token[i] * x->dim[1] + RDG_MIN(g->slot[i], x->dim[1] - 1)) * rdg_q8_row_blocks(x);
    isa->dot[weight->type](&a);
    const float *b =
        rdg_tensor_present(bias) ? (const float *)rdg_tensor_row(bias, expert, 0, 0) + first : NULL;
    for (int i = 0; i < g->n; i++) {
        float *y = (float *)rdg_tensor_row(out, g->slot[i], g->token[i], 0) + first;
        const float *s = sums + i * RDG_Q8_MAX_ITEM_ROWS;
        for (int64_t r = 0; r < n; r++) y[r] = s[r] + (b ? b[r] : 0.0f);
    }
}

void rdg_q8_experts_run(const rdg_op_call *call, const rdg_cpu_task *task, const rdg_q8_isa *isa)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *x = &call->operand[RDG_EXPERTS_X];
    const rdg_tensor *ids = &call->operand[RDG_EXPERTS_IDS];
    if (task->phase == 0) {
        for (int64_t i = task->begin; i < task->end; i++)
            rdg_q8_quantise_item(x, weight->type, i, task->scratch, isa->quantise);
        return;
    }
    int64_t row_items = rdg_div_up(weight->dim[1], rdg_q8_item_rows(weight));
    for (int64_t i = task->begin; i < task->end; i++) {
        column_group g = {.n = 0};
        int64_t row_item = i % row_items;
        if (!by_expert(call)) {
            g.slot[0] = i / row_items % ids->dim[0];
            g.token[0] = i / row_items / ids->dim[0];
            g.n = 1;
            run_group(call, &g, ((const int32_t *)rdg_tensor_row(ids, g.token[0], 0, 0))[g.slot[0]], row_item,
                      task->scratch, isa);
            continue;
        }
        int64_t expert = i / row_items;
        for (int64_t t = 0; t < ids->dim[1]; t++) {
            const int32_t *id = rdg_tensor_row(ids, t, 0, 0);
            for (int64_t k = 0; k < ids->dim[0]; k++) {
                if (id[k] != expert) continue;
                g.slot[g.n] = k;
                g.token[g.n] = t;
                if (++g.n == RDG_Q8_MAX_TOKENS) {
                    run_group(call, &g, expert, row_item, task->scratch, isa);
                    g.n = 0;
                }
            }
        }
        if (g.n) run_group(call, &g, expert, row_item, task->scratch, isa);
    }
}
