#include "ops/add/add.h"
#include "ops/add/add_variants.h"
#include "ops/contract.h"
#include "ops/rows.h"

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_pieces_of(&call->operand[RDG_ADD_OUT]).n_items;
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *a = &call->operand[RDG_ADD_A], *b = &call->operand[RDG_ADD_B],
                     *out = &call->operand[RDG_ADD_OUT];
    const float a_scale = RDG_PARAMS(call, rdg_add_params)->a_scale,
                b_scale = RDG_PARAMS(call, rdg_add_params)->b_scale;
    const rdg_pieces pieces = rdg_pieces_of(out);
    for (int64_t item = task->begin; item < task->end; item++) {
        rdg_piece p = rdg_piece_at(&pieces, item);
        for (int64_t row = p.first_row; row < p.first_row + p.n_rows; row++) {
            const float *x = (const float *)rdg_nth_row(a, row) + p.first;
            float *y = (float *)rdg_nth_row(out, row) + p.first;
            if (!rdg_tensor_present(b)) {
                for (int64_t i = 0; i < p.n; i++) y[i] = a_scale * x[i];
            } else if (b->dim[0] == 1) {
                const float v = b_scale * *(const float *)rdg_broadcast_row(a, b, row);
                for (int64_t i = 0; i < p.n; i++) y[i] = a_scale * x[i] + v;
            } else {
                const float *z = (const float *)rdg_broadcast_row(a, b, row) + p.first;
                for (int64_t i = 0; i < p.n; i++) y[i] = a_scale * x[i] + b_scale * z[i];
            }
        }
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_add_c = {
    .name = "f32_c", .source = "src/ops/add/add_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
