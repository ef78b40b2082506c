#include "ops/cpu_run.h"
#include "base/mem.h"

/* Streams are not worth beginning for fewer turns. */
enum { LEAST_TURNS = 4 };

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

/* The items of a phase are cut into one share a thread; a share that spans calls has a part in each. */
typedef struct part {
    const rdg_op_call *call;
    int64_t begin, end; /* items of the call */
    int64_t n_turns;
} part;

typedef struct sharing {
    const rdg_cpu_calls *calls;
    int phase, n_threads;
    bool streams;
    int64_t first, n_items; /* of all calls together; a window of them if there are very many */
} sharing;

static int64_t share_begin(const sharing *s, int thread)
{
    return s->first + (s->n_items * thread + s->n_threads - 1) / s->n_threads;
}

/* The part of a thread's share in call c, whose first item is number `first` of all. */
static part part_of(const sharing *s, int thread, int64_t c, int64_t first)
{
    const rdg_cpu_kernel *kernel = s->calls->kernel;
    part p = {.call = s->calls->call[c]};
    int64_t n_items = kernel->n_items(p.call, s->phase);
    p.begin = RDG_MAX(share_begin(s, thread) - first, 0);
    p.end = RDG_MIN(share_begin(s, thread + 1) - first, n_items);
    if (p.begin >= p.end) return p;
    p.n_turns = s->streams ? kernel->streams(p.call, p.begin, p.end).n_turns : p.end - p.begin;
    return p;
}

static int64_t count_turns(const void *ctx, int thread)
{
    const sharing *s = ctx;
    int64_t n = 0, first = 0;
    for (int64_t c = 0; c < phase_calls(s->calls, s->phase); c++) {
        n += part_of(s, thread, c, first).n_turns;
        first += s->calls->kernel->n_items(s->calls->call[c], s->phase);
    }
    return n;
}

static void run_piece(const sharing *s, rdg_cpu_task *task, const rdg_pool_piece *piece)
{
    int64_t begin = piece->begin, end = piece->end, first = 0; /* turns from this part's first on; items */
    for (int64_t c = 0; begin < end; c++) {
        part p = part_of(s, piece->owner, c, first);
        if (begin < p.n_turns) {
            int64_t last = RDG_MIN(end, p.n_turns);
            task->begin = s->streams ? p.begin : p.begin + begin;
            task->end = s->streams ? p.end : p.begin + last;
            task->first_turn = begin;
            task->end_turn = last;
            task->continues = begin > 0 && piece->owner == task->thread;
            s->calls->kernel->run(p.call, task);
        }
        begin = RDG_MAX(begin - p.n_turns, 0);
        end -= p.n_turns;
        first += s->calls->kernel->n_items(p.call, s->phase);
    }
}

static void run_phase(rdg_pool *pool, const rdg_cpu_calls *calls, rdg_cpu_task *task)
{
    const int64_t n_items = phase_items(calls, task->phase),
                  most = (int64_t)RDG_POOL_MAX_TURNS * task->n_threads;
    sharing s = {.calls = calls,
                 .phase = task->phase,
                 .n_threads = task->n_threads,
                 .streams = calls->kernel->streams && task->phase == calls->kernel->n_phases - 1};
    for (; s.first < n_items; s.first += s.n_items) {
        rdg_pool_phase phase;
        rdg_pool_piece piece;
        s.n_items = RDG_MIN(n_items - s.first, most);
        rdg_pool_phase_begin(&phase, pool, task->thread, s.streams ? LEAST_TURNS : 1, count_turns, &s);
        while (rdg_pool_phase_take(&phase, &piece)) run_piece(&s, task, &piece);
    }
}

rdg_pool_ahead rdg_cpu_ahead(const rdg_cpu_calls *calls, int thread, int n_threads, size_t limit)
{
    const rdg_cpu_kernel *kernel = calls->kernel;
    rdg_pool_ahead a = {0};
    if (!kernel->streams) return a;
    const sharing s = {.calls = calls,
                       .phase = kernel->n_phases - 1,
                       .n_threads = n_threads,
                       .streams = true,
                       .n_items = phase_items(calls, kernel->n_phases - 1)};
    int64_t first = 0;
    for (int64_t c = 0; c < calls->n; c++) {
        part p = part_of(&s, thread, c, first);
        if (p.n_turns > 0) {
            a = kernel->streams(p.call, p.begin, p.end).ahead;
            a.bytes = RDG_MIN(a.bytes, limit / (size_t)a.n_streams);
            break;
        }
        first += kernel->n_items(p.call, s.phase);
    }
    return a;
}

void rdg_cpu_run_calls(rdg_pool *pool, int thread, const rdg_cpu_calls *calls, int first_phase, void *scratch,
                       rdg_pool_ahead *ahead)
{
    rdg_cpu_task task = {.thread = thread, .n_threads = rdg_pool_threads(pool), .scratch = scratch};
    for (task.phase = first_phase; task.phase < calls->kernel->n_phases; task.phase++) {
        if (task.phase > first_phase) rdg_pool_barrier(pool, ahead);
        run_phase(pool, calls, &task);
    }
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
} one_call;

static void run_one(void *ctx, int thread, int n_threads)
{
    one_call *o = ctx;
    (void)n_threads;
    const rdg_cpu_calls calls = {.call = &o->call, .n = 1, .kernel = o->kernel};
    rdg_cpu_run_calls(o->pool, thread, &calls, 0, o->scratch, NULL);
}

void rdg_cpu_run_with(rdg_pool *pool, const rdg_op_call *call, const rdg_cpu_kernel *kernel, void *scratch)
{
    one_call o = {.pool = pool, .call = call, .kernel = kernel, .scratch = scratch};
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
