#include "ops/embed/embed.h"
#include "ops/embed/embed_variants.h"
#include "ops/contract.h"
#include "ops/rows.h"
#include "quant/quant.h"

#include <string.h>

static int64_t n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *out = &call->operand[RDG_EMBED_OUT];
    (void)phase;
    return rdg_div_up(out->dim[1], rdg_rows_per_item(out->dim[0]));
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *table = &call->operand[RDG_EMBED_TABLE], *out = &call->operand[RDG_EMBED_OUT];
    const int32_t *ids = call->operand[RDG_EMBED_IDS].data;
    const int64_t n = out->dim[0], per_item = rdg_rows_per_item(n),
                  end = RDG_MIN(task->end * per_item, out->dim[1]);
    const float scale = RDG_PARAMS(call, rdg_embed_params)->scale;
    for (int64_t t = task->begin * per_item; t < end; t++) {
        float *o = rdg_tensor_row(out, t, 0, 0);
        if (ids[t] < 0 || ids[t] >= table->dim[1]) {
            memset(o, 0, (size_t)n * sizeof *o);
            continue;
        }
        rdg_quant_ops[table->type].dequantise(rdg_tensor_row(table, ids[t], 0, 0), o, n);
        if (scale != 1.0f)
            for (int64_t i = 0; i < n; i++) o[i] *= scale;
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_embed_c = {
    .name = "any_c", .source = "src/ops/embed/embed_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
