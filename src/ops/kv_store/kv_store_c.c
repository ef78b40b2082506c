#include "ops/kv_store/kv_store.h"
#include "ops/kv_store/kv_store_variants.h"
#include "ops/rows.h"
#include "quant/quant.h"

static int64_t n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *x = &call->operand[RDG_KV_STORE_X];
    (void)phase;
    return rdg_div_up(x->dim[1] * x->dim[2], rdg_rows_per_item(4 * x->dim[0]));
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *x = &call->operand[RDG_KV_STORE_X], *cache = &call->operand[RDG_KV_STORE_CACHE];
    const int32_t *pos = call->operand[RDG_KV_STORE_POS].data;
    const int64_t n = x->dim[0], per_item = rdg_rows_per_item(4 * n);
    const int64_t end = RDG_MIN(task->end * per_item, x->dim[1] * x->dim[2]);
    for (int64_t row = task->begin * per_item; row < end; row++) {
        int64_t h = row % x->dim[1], t = row / x->dim[1];
        if (pos[t] < 0) continue;
        /* none of the cache types searches for its scale, so none is given */
        rdg_quant_ops[cache->type].quantise(NULL, rdg_tensor_row(x, h, t, 0),
                                            rdg_tensor_row(cache, pos[t] % cache->dim[1], h, 0), n, NULL);
    }
}

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = n_items, .run = run};
const rdg_variant rdg_kv_store_c = {
    .name = "any_c", .source = "src/ops/kv_store/kv_store_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
