#include "ops/cpu_run.h"
#include "base/mem.h"

/* Streams are not worth beginning for fewer turns. */
enum { LEAST_TURNS = 4 };

/* Only the last phase is of all calls: what comes before is the same for each. */
static int64_t phase_calls(const rdg_cpu_calls *calls, int phase)
{
    return phase == calls->kernel->n_phases - 1 ? calls->n : 1;
}

/* A thread's share of a phase is the same part of every call: what threads wrote is then read by who wrote
 * it, as far as calls have their items in the same order (gate and up, and what multiplies them). */
typedef struct sharing {
    const rdg_cpu_calls *calls;
    int phase, n_threads;
    bool streams;
    int64_t begin, end; /* items of each call: all, or a window of very many */
} sharing;

typedef struct part {
    int64_t begin, end; /* items */
    int64_t n_turns;
} part;

static part part_of(const sharing *s, int thread, int64_t c)
{
    const rdg_cpu_kernel *kernel = s->calls->kernel;
    const rdg_op_call *call = s->calls->call[c];
    const int64_t end = RDG_MIN(s->end, kernel->n_items(call, s->phase)), n = RDG_MAX(end - s->begin, 0);
    part p = {.begin = s->begin + rdg_div_up(n * thread, s->n_threads),
              .end = s->begin + rdg_div_up(n * (thread + 1), s->n_threads)};
    if (p.begin < p.end)
        p.n_turns = s->streams ? kernel->streams(call, p.begin, p.end).n_turns : p.end - p.begin;
    return p;
}

static int64_t count_turns(const void *ctx, int thread)
{
    const sharing *s = ctx;
    int64_t n = 0;
    for (int64_t c = 0; c < phase_calls(s->calls, s->phase); c++) n += part_of(s, thread, c).n_turns;
    return n;
}

static void run_piece(const sharing *s, rdg_cpu_task *task, const rdg_pool_piece *piece)
{
    int64_t begin = piece->begin, end = piece->end; /* turns from this call's first on */
    for (int64_t c = 0; begin < end; c++) {
        part p = part_of(s, piece->owner, c);
        if (begin < p.n_turns) {
            int64_t last = RDG_MIN(end, p.n_turns);
            task->begin = s->streams ? p.begin : p.begin + begin;
            task->end = s->streams ? p.end : p.begin + last;
            task->first_turn = begin;
            task->end_turn = last;
            task->continues = begin > 0 && piece->owner == task->thread;
            s->calls->kernel->run(s->calls->call[c], task);
        }
        begin = RDG_MAX(begin - p.n_turns, 0);
        end -= p.n_turns;
    }
}

static sharing share_out(const rdg_cpu_calls *calls, int phase, int n_threads)
{
    const bool streams = calls->kernel->streams && phase == calls->kernel->n_phases - 1;
    const int64_t turns_an_item = streams ? 2 : 1; /* at most */
    return (sharing){.calls = calls,
                     .phase = phase,
                     .n_threads = n_threads,
                     .streams = streams,
                     .end = RDG_POOL_MAX_TURNS / turns_an_item / RDG_MAX(phase_calls(calls, phase), 1) *
                            n_threads};
}

/* Of the call with the most. */
static int64_t phase_items(const rdg_cpu_calls *calls, int phase)
{
    int64_t n = 0;
    for (int64_t c = 0; c < phase_calls(calls, phase); c++)
        n = RDG_MAX(n, calls->kernel->n_items(calls->call[c], phase));
    return n;
}

static void run_phase(rdg_pool *pool, const rdg_cpu_calls *calls, rdg_cpu_task *task)
{
    sharing s = share_out(calls, task->phase, task->n_threads);
    const int64_t n_items = phase_items(calls, task->phase), window = s.end;
    for (; s.begin < n_items; s.begin = s.end, s.end += window) {
        rdg_pool_phase phase;
        rdg_pool_piece piece;
        rdg_pool_phase_begin(&phase, pool, task->thread, s.streams ? LEAST_TURNS : 1, count_turns, &s);
        while (rdg_pool_phase_take(&phase, &piece)) run_piece(&s, task, &piece);
    }
}

rdg_pool_ahead rdg_cpu_ahead(const rdg_cpu_calls *calls, int thread, int n_threads, size_t limit)
{
    const sharing s = share_out(calls, calls->kernel->n_phases - 1, n_threads);
    for (int64_t c = 0; s.streams && c < calls->n; c++) {
        part p = part_of(&s, thread, c);
        if (p.n_turns == 0) continue;
        rdg_pool_ahead a = calls->kernel->streams(calls->call[c], p.begin, p.end).ahead;
        a.bytes = RDG_MIN(a.bytes, limit / (size_t)a.n_streams);
        return a;
    }
    return (rdg_pool_ahead){0};
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
