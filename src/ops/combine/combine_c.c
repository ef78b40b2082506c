#include "ops/combine/combine.h"
#include "ops/combine/combine_variants.h"
#include "ops/rows.h"

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_pieces_of(&call->operand[RDG_COMBINE_OUT]).n_items;
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *x = &call->operand[RDG_COMBINE_X], *w = &call->operand[RDG_COMBINE_WEIGHTS],
                     *residual = &call->operand[RDG_COMBINE_RESIDUAL], *out = &call->operand[RDG_COMBINE_OUT];
    const rdg_pieces pieces = rdg_pieces_of(out);
    for (int64_t item = task->begin; item < task->end; item++) {
        rdg_piece p = rdg_piece_at(&pieces, item);
        for (int64_t t = p.first_row; t < p.first_row + p.n_rows; t++) {
            float *o = (float *)rdg_tensor_row(out, t, 0, 0) + p.first;
            const float *weights = rdg_tensor_row(w, t, 0, 0);
            const float *r =
                rdg_tensor_present(residual) ? (float *)rdg_tensor_row(residual, t, 0, 0) + p.first : NULL;
            for (int64_t i = 0; i < p.n; i++) o[i] = r ? r[i] : 0.0f;
            for (int64_t k = 0; k < x->dim[1]; k++) {
                const float *v = (const float *)rdg_tensor_row(x, k, t, 0) + p.first;
                for (int64_t i = 0; i < p.n; i++) o[i] += weights[k] * v[i];
            }
        }
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_combine_c = {
    .name = "f32_c", .source = "src/ops/combine/combine_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
