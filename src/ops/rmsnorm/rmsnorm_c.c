#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rmsnorm/rmsnorm_variants.h"
#include "ops/contract.h"
#include "ops/rows.h"

#include <math.h>

static int64_t n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *x = &call->operand[RDG_RMSNORM_X];
    (void)phase;
    return rdg_div_up(rdg_tensor_n_rows(x), rdg_rows_per_item(x->dim[0]));
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *x = &call->operand[RDG_RMSNORM_X], *w = &call->operand[RDG_RMSNORM_WEIGHT],
                     *out = &call->operand[RDG_RMSNORM_OUT];
    const int64_t n = x->dim[0], per_item = rdg_rows_per_item(n);
    const int64_t end = RDG_MIN(task->end * per_item, rdg_tensor_n_rows(x));
    for (int64_t row = task->begin * per_item; row < end; row++) {
        const float *p = rdg_nth_row(x, row);
        float *o = rdg_nth_row(out, row);
        double mean = (double)rdg_dot_f32(p, p, n) / (double)n;
        const float scale = (float)(1.0 / sqrt(mean + (double)RDG_PARAMS(call, rdg_rmsnorm_params)->eps));
        if (!rdg_tensor_present(w)) {
            for (int64_t i = 0; i < n; i++) o[i] = p[i] * scale;
            continue;
        }
        const float *v = rdg_tensor_row(w, w->dim[1] == 1 ? 0 : row % x->dim[1], 0, 0);
        for (int64_t i = 0; i < n; i++) o[i] = p[i] * scale * v[i];
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_rmsnorm_c = {
    .name = "f32_c", .source = "src/ops/rmsnorm/rmsnorm_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
