/* Plain C experts. Phase 0 sorts the picks (k, t) by expert, so that phase 1 makes each weight row f32 once
 * for all tokens that chose its expert. */
#include "ops/experts/experts.h"
#include "ops/experts/experts_variants.h"
#include "ops/rows.h"
#include "quant/quant.h"

#include <string.h>

/* scratch: int32 first[n_experts + 2], int32 pick[n_picks], then one f32 row a thread; each part 64-byte
 * aligned. The picks of expert e are pick[first[e] … first[e + 1]); expert number n_experts stands for ids
 * out of range. */
typedef struct layout {
    int64_t n_experts, n_picks, row_floats;
    size_t picks_at, rows_at;
} layout;

static layout layout_of(const rdg_op_call *call)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *ids = &call->operand[RDG_EXPERTS_IDS];
    layout l = {.n_experts = weight->dim[2], .n_picks = ids->dim[0] * ids->dim[1]};
    l.row_floats = rdg_round_up(weight->dim[0], 16);
    l.picks_at = (size_t)rdg_round_up((l.n_experts + 2) * 4, 64);
    l.rows_at = l.picks_at + (size_t)rdg_round_up(l.n_picks * 4, 64);
    return l;
}

static size_t scratch_bytes(const rdg_op_call *call, int n_threads)
{
    layout l = layout_of(call);
    return l.rows_at + (size_t)(l.row_floats * n_threads) * sizeof(float);
}

static int64_t row_blocks(const rdg_op_call *call)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT];
    return rdg_div_up(weight->dim[1], rdg_rows_per_item(weight->dim[0]));
}

static int64_t n_items(const rdg_op_call *call, int phase)
{
    return phase == 0 ? 1 : (call->operand[RDG_EXPERTS_WEIGHT].dim[2] + 1) * row_blocks(call);
}

static void sort_picks(const rdg_op_call *call, const layout *l, int32_t *first, int32_t *pick)
{
    const rdg_tensor *ids = &call->operand[RDG_EXPERTS_IDS];
    memset(first, 0, (size_t)(l->n_experts + 2) * sizeof *first);
    for (int pass = 0; pass < 2; pass++) { /* count, then place; first[e + 1] is the end of e afterwards */
        for (int64_t i = 0; i < l->n_picks; i++) {
            int32_t id = ((const int32_t *)rdg_tensor_row(ids, i / ids->dim[0], 0, 0))[i % ids->dim[0]];
            int64_t e = id < 0 || id >= l->n_experts ? l->n_experts : id;
            if (pass == 0)
                first[e + 1]++;
            else
                pick[first[e]++] = (int32_t)i;
        }
        if (pass == 0)
            for (int64_t e = 0; e <= l->n_experts; e++) first[e + 1] += first[e];
    }
    for (int64_t e = l->n_experts + 1; e > 0; e--) first[e] = first[e - 1];
    first[0] = 0;
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *weight = &call->operand[RDG_EXPERTS_WEIGHT], *x = &call->operand[RDG_EXPERTS_X],
                     *bias = &call->operand[RDG_EXPERTS_BIAS], *out = &call->operand[RDG_EXPERTS_OUT];
    const layout l = layout_of(call);
    char *scratch = task->scratch;
    int32_t *first = (int32_t *)(void *)scratch, *pick = (int32_t *)(void *)(scratch + l.picks_at);
    float *w = (float *)(void *)(scratch + l.rows_at) + l.row_floats * task->thread;
    const int64_t n_columns = weight->dim[0], per_item = rdg_rows_per_item(n_columns),
                  blocks = row_blocks(call);
    const int64_t n_used = out->dim[1];
    if (task->phase == 0) {
        sort_picks(call, &l, first, pick);
        return;
    }
    for (int64_t item = task->begin; item < task->end; item++) {
        int64_t e = item / blocks, begin = item % blocks * per_item,
                end = RDG_MIN(begin + per_item, weight->dim[1]);
        if (first[e] == first[e + 1]) continue;
        for (int64_t r = begin; r < end; r++) {
            if (e < l.n_experts)
                rdg_quant_ops[weight->type].dequantise(rdg_tensor_row(weight, r, e, 0), w, n_columns);
            for (int32_t i = first[e]; i < first[e + 1]; i++) {
                int64_t k = pick[i] % n_used, t = pick[i] / n_used;
                float sum = 0.0f; /* an id out of range gives zeros */
                if (e < l.n_experts) {
                    sum = rdg_dot_f32(w, rdg_tensor_row(x, RDG_MIN(k, x->dim[1] - 1), t, 0), n_columns);
                    if (rdg_tensor_present(bias)) sum += ((const float *)rdg_tensor_row(bias, e, 0, 0))[r];
                }
                ((float *)rdg_tensor_row(out, k, t, 0))[r] = sum;
            }
        }
    }
}

static const rdg_cpu_kernel kernel = {
    .n_phases = 2, .n_items = n_items, .scratch_bytes = scratch_bytes, .run = run};
const rdg_variant rdg_experts_any_c = {
    .name = "any_c", .source = "src/ops/experts/experts_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
