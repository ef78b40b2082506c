#include "ops/mul/mul.h"
#include "ops/mul/mul_variants.h"
#include "ops/rows.h"

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_pieces_of(&call->operand[RDG_MUL_OUT]).n_items;
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *a = &call->operand[RDG_MUL_A], *b = &call->operand[RDG_MUL_B],
                     *out = &call->operand[RDG_MUL_OUT];
    const rdg_pieces pieces = rdg_pieces_of(out);
    for (int64_t item = task->begin; item < task->end; item++) {
        rdg_piece p = rdg_piece_at(&pieces, item);
        for (int64_t row = p.first_row; row < p.first_row + p.n_rows; row++) {
            const float *x = (const float *)rdg_nth_row(a, row) + p.first;
            const float *z = rdg_broadcast_row(a, b, row);
            float *y = (float *)rdg_nth_row(out, row) + p.first;
            if (b->dim[0] == 1) {
                const float v = z[0];
                for (int64_t i = 0; i < p.n; i++) y[i] = x[i] * v;
            } else {
                for (int64_t i = 0; i < p.n; i++) y[i] = x[i] * z[p.first + i];
            }
        }
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_mul_c = {
    .name = "f32_c", .source = "src/ops/mul/mul_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
