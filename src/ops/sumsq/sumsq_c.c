/* Plain C sumsq: an item is a range of columns, which walks over all tokens in order. */
#include "ops/sumsq/sumsq.h"
#include "ops/sumsq/sumsq_variants.h"
#include "ops/rows.h"

enum { COLUMNS_PER_ITEM = 256 };

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_div_up(call->operand[RDG_SUMSQ_X].dim[0], COLUMNS_PER_ITEM);
}

static void add_range(const rdg_op_call *call, int64_t first, int64_t n)
{
    const rdg_tensor *x = &call->operand[RDG_SUMSQ_X], *ids = &call->operand[RDG_SUMSQ_IDS],
                     *sums = &call->operand[RDG_SUMSQ_SUMS];
    float *counts = call->operand[RDG_SUMSQ_COUNTS].data;
    const int64_t n_picks = rdg_tensor_present(ids) ? ids->dim[0] : x->dim[1];
    for (int64_t t = 0; t < x->dim[2]; t++)
        for (int64_t k = 0; k < n_picks; k++) {
            int64_t m = rdg_tensor_present(ids) ? ((const int32_t *)rdg_tensor_row(ids, t, 0, 0))[k] : 0;
            if (m < 0 || m >= sums->dim[1]) continue;
            const float *v = (const float *)rdg_tensor_row(x, RDG_MIN(k, x->dim[1] - 1), t, 0) + first;
            float *s = (float *)rdg_tensor_row(sums, m, 0, 0) + first;
            for (int64_t c = 0; c < n; c++) s[c] += v[c] * v[c];
            if (first == 0) counts[m] += 1.0f;
        }
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const int64_t n_columns = call->operand[RDG_SUMSQ_X].dim[0];
    for (int64_t item = task->begin; item < task->end; item++) {
        int64_t first = item * COLUMNS_PER_ITEM;
        add_range(call, first, RDG_MIN(COLUMNS_PER_ITEM, n_columns - first));
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_sumsq_c = {
    .name = "f32_c", .source = "src/ops/sumsq/sumsq_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
