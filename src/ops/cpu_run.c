#include "ops/cpu_run.h"
#include "base/mem.h"

/* A thread begins with items of its own, in one run: memory is read fastest in long ones, and it can be asked
 * for before they may be started. The rest is handed out in chunks that shrink with what is left, so that a
 * thread that was held up for a while leaves its share to the others: a thirty-second for each other thread,
 * since the slowest of more is slower (shared cores, other programs), up to half. */
enum { REST_PER_THREAD = 32, REST_THREADS = 16, LEAST_CHUNK = 2 /* of a stream */ };

static int64_t own_items(int64_t n_items, int n_threads)
{
    int64_t share = n_items / n_threads;
    return share - rdg_div_up(share * RDG_MIN(n_threads - 1, REST_THREADS), REST_PER_THREAD);
}

/* Only the last phase is of all calls: what comes before is the same for each. */
static int64_t phase_calls(const rdg_cpu_calls *calls, int phase)
{
    return phase == calls->kernel->n_phases - 1 ? calls->n : 1;
}

static int64_t phase_items(const rdg_cpu_calls *calls, int phase)
{
    int64_t n_items = 0;
    for (int64_t c = 0; c < phase_calls(calls, phase); c++)
        n_items += calls->kernel->n_items(calls->call[c], phase);
    return n_items;
}

static void run_items(const rdg_cpu_calls *calls, rdg_cpu_task *task, int64_t begin, int64_t end)
{
    for (int64_t c = 0; begin < end; c++) { /* begin and end are counted from this call's first item */
        int64_t n_items = calls->kernel->n_items(calls->call[c], task->phase);
        if (begin < n_items) {
            task->begin = begin;
            task->end = RDG_MIN(end, n_items);
            calls->kernel->run(calls->call[c], task);
        }
        begin = RDG_MAX(begin - n_items, 0);
        end -= n_items;
    }
}

static void run_phase(const rdg_cpu_calls *calls, rdg_cpu_task *task, rdg_cpu_progress *progress)
{
    int64_t n_items = phase_items(calls, task->phase), own = own_items(n_items, task->n_threads);
    int64_t given = own * task->n_threads, least = calls->kernel->streams ? LEAST_CHUNK : 1;
    run_items(calls, task, task->thread * own, (task->thread + 1) * own);
    /* relaxed is enough: the counter only splits the work, the barriers order the data */
    int64_t taken = atomic_load_explicit(&progress->next, memory_order_relaxed);
    while (given + taken < n_items) {
        int64_t rest = n_items - given - taken,
                chunk = RDG_MIN(rest, RDG_MAX(least, rest / (2 * task->n_threads)));
        if (!atomic_compare_exchange_weak_explicit(&progress->next, &taken, taken + chunk,
                                                   memory_order_relaxed, memory_order_relaxed))
            continue; /* taken is now where another thread's chunk ends */
        run_items(calls, task, given + taken, given + taken + chunk);
        taken = atomic_load_explicit(&progress->next, memory_order_relaxed);
    }
}

rdg_pool_ahead rdg_cpu_ahead(const rdg_cpu_calls *calls, int thread, int n_threads, size_t limit)
{
    const rdg_cpu_kernel *kernel = calls->kernel;
    int phase = kernel->n_phases - 1;
    int64_t own = kernel->streams ? own_items(phase_items(calls, phase), n_threads) : 0, item = thread * own;
    rdg_pool_ahead a = {0};
    for (int64_t c = 0; own > 0 && c < calls->n; c++) {
        int64_t n_items = kernel->n_items(calls->call[c], phase);
        if (item < n_items) {
            a = kernel->streams(calls->call[c], item, RDG_MIN(item + own, n_items));
            a.bytes = RDG_MIN(a.bytes, limit / (size_t)a.n_streams);
            break;
        }
        item -= n_items;
    }
    return a;
}

void rdg_cpu_run_calls(rdg_pool *pool, int thread, const rdg_cpu_calls *calls, int first_phase, void *scratch,
                       rdg_cpu_progress *progress, rdg_pool_ahead *ahead)
{
    rdg_cpu_task task = {.thread = thread, .n_threads = rdg_pool_threads(pool), .scratch = scratch};
    for (task.phase = first_phase; task.phase < calls->kernel->n_phases; task.phase++) {
        if (task.phase > first_phase) rdg_pool_barrier(pool, ahead);
        run_phase(calls, &task, &progress[task.phase]);
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
    const rdg_cpu_calls calls = {.call = &o->call, .n = 1, .kernel = o->kernel};
    rdg_cpu_run_calls(o->pool, thread, &calls, 0, o->scratch, o->progress, NULL);
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
