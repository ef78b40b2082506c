#include "ops/layernorm/layernorm.h"
#include "ops/layernorm/layernorm_variants.h"
#include "ops/contract.h"
#include "ops/rows.h"

#include <math.h>

static int64_t n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *x = &call->operand[RDG_LAYERNORM_X];
    (void)phase;
    return rdg_div_up(rdg_tensor_n_rows(x), rdg_rows_per_item(x->dim[0]));
}

/* Eight partial sums in double: vector code, and no rounding to speak of. */
static double sum_of(const float *x, int64_t n)
{
    double part[8] = {0}, sum = 0.0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) part[j] += (double)x[i + j];
    for (; i < n; i++) sum += (double)x[i];
    for (int j = 0; j < 8; j++) sum += part[j];
    return sum;
}

static double sum_of_squares(const float *x, double mean, int64_t n)
{
    double part[8] = {0}, sum = 0.0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) part[j] += ((double)x[i + j] - mean) * ((double)x[i + j] - mean);
    for (; i < n; i++) sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int j = 0; j < 8; j++) sum += part[j];
    return sum;
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *x = &call->operand[RDG_LAYERNORM_X], *w = &call->operand[RDG_LAYERNORM_WEIGHT],
                     *b = &call->operand[RDG_LAYERNORM_BIAS], *out = &call->operand[RDG_LAYERNORM_OUT];
    const int64_t n = x->dim[0], per_item = rdg_rows_per_item(n);
    const int64_t end = RDG_MIN(task->end * per_item, rdg_tensor_n_rows(x));
    const double eps = (double)RDG_PARAMS(call, rdg_layernorm_params)->eps;
    for (int64_t row = task->begin * per_item; row < end; row++) {
        const float *p = rdg_nth_row(x, row);
        float *o = rdg_nth_row(out, row);
        const int64_t i1 = row % x->dim[1];
        const double mean = sum_of(p, n) / (double)n;
        const double scale = 1.0 / sqrt(sum_of_squares(p, mean, n) / (double)n + eps);
        for (int64_t i = 0; i < n; i++) o[i] = (float)(((double)p[i] - mean) * scale);
        if (rdg_tensor_present(w)) {
            const float *v = rdg_tensor_row(w, w->dim[1] == 1 ? 0 : i1, 0, 0);
            for (int64_t i = 0; i < n; i++) o[i] *= v[i];
        }
        if (rdg_tensor_present(b)) {
            const float *v = rdg_tensor_row(b, b->dim[1] == 1 ? 0 : i1, 0, 0);
            for (int64_t i = 0; i < n; i++) o[i] += v[i];
        }
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_layernorm_c = {
    .name = "f32_c", .source = "src/ops/layernorm/layernorm_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
