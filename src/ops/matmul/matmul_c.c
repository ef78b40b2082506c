#include "ops/matmul/matmul_contract.h"
#include "ops/matmul/matmul_variants.h"
#include "ops/rows.h"
#include "quant/quant.h"

static int64_t rows_per_item(const rdg_op_call *call)
{
    return rdg_rows_per_item(call->operand[RDG_MATMUL_WEIGHT].dim[0] * call->operand[RDG_MATMUL_X].dim[1]);
}

static int64_t n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_div_up(call->operand[RDG_MATMUL_WEIGHT].dim[1], rows_per_item(call));
}

/* One f32 row a thread, cache lines apart. */
static int64_t row_floats(const rdg_op_call *call)
{
    return rdg_round_up(call->operand[RDG_MATMUL_WEIGHT].dim[0], 16);
}

static size_t scratch_bytes(const rdg_op_call *call, int n_threads)
{
    return (size_t)(row_floats(call) * n_threads) * sizeof(float);
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *x = &call->operand[RDG_MATMUL_X],
                     *out = &call->operand[RDG_MATMUL_OUT];
    const int64_t n_columns = weight->dim[0], per_item = rows_per_item(call);
    const int64_t end = RDG_MIN(task->end * per_item, weight->dim[1]);
    float *buffer = (float *)task->scratch + row_floats(call) * task->thread;
    for (int64_t r = task->begin * per_item; r < end; r++) {
        const float *w = buffer;
        if (weight->type == RDG_TYPE_F32)
            w = rdg_tensor_row(weight, r, 0, 0);
        else
            rdg_quant_ops[weight->type].dequantise(rdg_tensor_row(weight, r, 0, 0), buffer, n_columns);
        for (int64_t t = 0; t < x->dim[1]; t++)
            ((float *)rdg_tensor_row(out, t, 0, 0))[r] =
                rdg_matmul_finish(call, rdg_dot_f32(w, rdg_tensor_row(x, t, 0, 0), n_columns), r, t);
    }
}

const rdg_cpu_kernel rdg_matmul_any_c_kernel = {
    .n_phases = 1, .n_items = n_items, .scratch_bytes = scratch_bytes, .run = run};
const rdg_variant rdg_matmul_any_c = {.name = "any_c",
                                      .source = "src/ops/matmul/matmul_c.c",
                                      .backend = RDG_BACKEND_CPU,
                                      .cpu = &rdg_matmul_any_c_kernel};
