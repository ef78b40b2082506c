#include "ops/cpu_run.h"
#include "base/mem.h"

/* Items are handed out in chunks: about this many for each thread, so that a thread that was held up for a
 * while leaves its share to the others, and the counter is touched rarely. */
enum { CHUNKS_PER_THREAD = 8 };

static void run_phase(const rdg_op_call *call, const rdg_cpu_kernel *kernel, rdg_cpu_task *task,
                      rdg_cpu_progress *progress)
{
    int64_t n_items = kernel->n_items(call, task->phase);
    if (task->n_threads == 1) {
        task->begin = 0;
        task->end = n_items;
        if (n_items > 0) kernel->run(call, task);
        return;
    }
    int64_t chunk = RDG_MAX(1, n_items / ((int64_t)task->n_threads * CHUNKS_PER_THREAD));
    /* relaxed is enough: the counter only splits the work, the barriers order the data */
    while ((task->begin = atomic_fetch_add_explicit(&progress->next, chunk, memory_order_relaxed)) <
           n_items) {
        task->end = RDG_MIN(task->begin + chunk, n_items);
        kernel->run(call, task);
    }
}

void rdg_cpu_run_call(rdg_pool *pool, int thread, const rdg_op_call *call, const rdg_cpu_kernel *kernel,
                      void *scratch, rdg_cpu_progress *progress)
{
    rdg_cpu_task task = {.thread = thread, .n_threads = rdg_pool_threads(pool), .scratch = scratch};
    for (task.phase = 0; task.phase < kernel->n_phases; task.phase++) {
        if (task.phase > 0) rdg_pool_barrier(pool);
        run_phase(call, kernel, &task, &progress[task.phase]);
    }
}

void rdg_cpu_progress_reset(rdg_cpu_progress *progress, size_t n)
{
    for (size_t i = 0; i < n; i++) atomic_store_explicit(&progress[i].next, 0, memory_order_relaxed);
}

size_t rdg_cpu_scratch_bytes(const rdg_op_call *call, const rdg_cpu_kernel *kernel, int n_threads)
{
    return kernel->scratch_bytes ? (kernel->scratch_bytes(call, n_threads) + 63) / 64 * 64 : 0;
}

typedef struct one_call {
    rdg_pool *pool;
    const rdg_op_call *call;
    const rdg_cpu_kernel *kernel;
    void *scratch;
    rdg_cpu_progress progress[RDG_CPU_MAX_PHASES];
} one_call;

static void run_one(void *ctx, int thread, int n_threads)
{
    one_call *o = ctx;
    (void)n_threads;
    rdg_cpu_run_call(o->pool, thread, o->call, o->kernel, o->scratch, o->progress);
}

void rdg_cpu_run_with(rdg_pool *pool, const rdg_op_call *call, const rdg_cpu_kernel *kernel, void *scratch)
{
    one_call o = {.pool = pool, .call = call, .kernel = kernel, .scratch = scratch};
    rdg_cpu_progress_reset(o.progress, RDG_CPU_MAX_PHASES);
    rdg_pool_run(pool, run_one, &o);
}

rdg_err rdg_cpu_run(rdg_pool *pool, const rdg_op_call *call, const rdg_variant *variant, rdg_error *e)
{
    if (variant->backend != RDG_BACKEND_CPU || !variant->cpu)
        return rdg_fail(e, RDG_E_ARGUMENT, "variant %s is not for the CPU", variant->name);
    if (variant->cpu->n_phases < 1 || variant->cpu->n_phases > RDG_CPU_MAX_PHASES)
        return rdg_fail(e, RDG_E_INTERNAL, "variant %s has %d phases: 1 to %d are possible", variant->name,
                        variant->cpu->n_phases, RDG_CPU_MAX_PHASES);
    void *scratch = NULL;
    size_t bytes = rdg_cpu_scratch_bytes(call, variant->cpu, rdg_pool_threads(pool));
    if (bytes && !(scratch = rdg_alloc_aligned(64, bytes)))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the %zu scratch bytes of %s", bytes, variant->name);
    rdg_cpu_run_with(pool, call, variant->cpu, scratch);
    rdg_free(scratch);
    return RDG_OK;
}
