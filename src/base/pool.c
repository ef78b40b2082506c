#include "base/pool.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* Spins before a waiting thread sleeps or yields. About 50 us on a 3 GHz core: longer than the gap between
 * two operations of a decode step, shorter than anybody's patience with a busy idle core. */
enum { SPINS_BEFORE_SLEEP = 4000, SPINS_BEFORE_YIELD = 2000, YIELDS_BEFORE_SLEEP = 20 };

/* Phases whose shares exist at once: so many may be under way between two barriers. */
enum { SHARE_SETS = 8 };
/* An owner takes half of what is left: little is under way at the end, and each piece costs a call (a
 * quarter: 1 % of a decode step). Not so much at once that nobody could help. A thread looks at so many
 * others for something to take over. */
enum { OWN_PART = 2, OWN_MOST = 256, MAX_VICTIMS = 16, TURN_BITS = 28 };

/* A thread's turns that nobody has taken yet: the phase's tag, where they begin, where they end. With another
 * tag the share is untouched: so a set needs no clearing, and a share can be taken from before its owner has
 * come. */
typedef struct rdg_pool_share {
    RDG_ALIGNED(64) _Atomic uint64_t left;
} rdg_pool_share;

/* A thread's own count of phases; they agree wherever all have been at a barrier. */
typedef struct seat {
    RDG_ALIGNED(64) uint64_t n_phases;
    unsigned barrier_phase; /* the last one seen */
    int since_barrier;      /* phases */
} seat;

typedef struct worker {
    rdg_pool *pool;
    pthread_t thread;
    int index;
} worker;

struct rdg_pool {
    int n_threads;
    worker *workers; /* n_threads - 1: the caller is thread 0 */
    int n_started;
    seat *seats;            /* [n_threads] */
    rdg_pool_share *shares; /* [SHARE_SETS][n_threads] */
    rdg_pool_fn *fn;
    void *ctx;
    pthread_mutex_t mutex;
    pthread_cond_t wake, pass;              /* a run begins; a barrier opens */
    RDG_ALIGNED(64) atomic_uint generation; /* rises by one a run; workers wait for it */
    atomic_int n_sleeping;
    RDG_ALIGNED(64) atomic_int n_running;
    RDG_ALIGNED(64) atomic_int arrived;
    RDG_ALIGNED(64) atomic_uint barrier_phase;
    atomic_int n_waiting; /* asleep at the barrier */
    bool stop;
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    rdg_pool *p = w->pool;
    unsigned seen = 0;
    for (;;) {
        int spins = 0;
        while (atomic_load_explicit(&p->generation, memory_order_acquire) == seen) {
            if (++spins < SPINS_BEFORE_SLEEP) {
                cpu_relax();
                continue;
            }
            pthread_mutex_lock(&p->mutex);
            atomic_fetch_add(&p->n_sleeping, 1);
            while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->mutex);
            atomic_fetch_sub(&p->n_sleeping, 1);
            pthread_mutex_unlock(&p->mutex);
        }
        seen++;
        if (p->stop) return NULL;
        p->fn(p->ctx, w->index, p->n_threads);
        atomic_fetch_sub_explicit(&p->n_running, 1, memory_order_release);
    }
}

static void publish(rdg_pool *p)
{
    /* The sleeper counts itself and re-checks the generation under the mutex, so raising it first and then
     * looking for sleepers cannot lose a wake-up. */
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->n_sleeping) == 0) return;
    pthread_mutex_lock(&p->mutex);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
}

rdg_err rdg_pool_create(int n_threads, rdg_pool **out, rdg_error *e)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > 1024)
        return rdg_fail(e, RDG_E_ARGUMENT, "%d threads: 1 to 1024 are possible", n_threads);
    rdg_pool *p = rdg_alloc_aligned(64, sizeof *p);
    if (!p) return rdg_fail(e, RDG_E_NOMEM, "no memory for a thread pool");
    *p = (rdg_pool){.n_threads = n_threads};
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->pass, NULL);
    p->workers = rdg_alloc_array((size_t)n_threads, sizeof *p->workers);
    p->seats = rdg_alloc_aligned(64, (size_t)n_threads * sizeof *p->seats);
    p->shares = rdg_alloc_aligned(64, (size_t)n_threads * SHARE_SETS * sizeof *p->shares);
    if (!p->workers || !p->seats || !p->shares) {
        rdg_pool_destroy(p);
        return rdg_fail(e, RDG_E_NOMEM, "no memory for %d threads", n_threads);
    }
    memset(p->seats, 0, (size_t)n_threads * sizeof *p->seats);
    memset(p->shares, 0, (size_t)n_threads * SHARE_SETS * sizeof *p->shares);
    for (int i = 0; i < n_threads; i++) p->seats[i].n_phases = SHARE_SETS; /* no tag is 0 at first */
    for (int i = 1; i < n_threads; i++) {
        worker *w = &p->workers[i - 1];
        w->pool = p;
        w->index = i;
        int rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc) {
            rdg_pool_destroy(p);
            return rdg_fail_errno(e, RDG_E_NOMEM, rc, "cannot start thread %d of %d", i, n_threads);
        }
        p->n_started++;
    }
    *out = p;
    return RDG_OK;
}

void rdg_pool_destroy(rdg_pool *p)
{
    if (!p) return;
    p->stop = true;
    publish(p);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->pass);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->mutex);
    rdg_free(p->shares);
    rdg_free(p->seats);
    rdg_free(p->workers);
    rdg_free(p);
}

int rdg_pool_threads(const rdg_pool *p)
{
    return p->n_threads;
}

/* Waits until *value == wanted. Yields after a while: on an oversubscribed machine the others need this core.
 */
static void spin_until(atomic_int *value, int wanted)
{
    for (int spins = 0; atomic_load_explicit(value, memory_order_acquire) != wanted; spins++) {
        if (spins < SPINS_BEFORE_YIELD)
            cpu_relax();
        else
            sched_yield();
    }
}

void rdg_pool_run(rdg_pool *p, rdg_pool_fn *fn, void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    if (p->n_threads > 1) {
        atomic_store(&p->n_running, p->n_threads - 1);
        publish(p);
    }
    fn(ctx, 0, p->n_threads);
    if (p->n_threads > 1) spin_until(&p->n_running, 0);
}

/* A prefetch never faults: pages that are not in memory stay where they are. */
static void ask_for(rdg_pool_ahead *a, int n_lines)
{
    enum { LINE_BYTES = 64 };
    for (int i = 0; i < n_lines && a->bytes; i += a->n_streams) {
        for (int k = 0; k < a->n_streams; k++)
            __builtin_prefetch(a->next + (size_t)k * a->stride_bytes, 0, 2);
        a->next += LINE_BYTES;
        a->bytes -= RDG_MIN(a->bytes, LINE_BYTES);
    }
}

/* The sleeper counts itself and looks at the phase again under the mutex, as in publish. */
static void open_barrier(rdg_pool *p)
{
    atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
    atomic_fetch_add(&p->barrier_phase, 1);
    if (atomic_load(&p->n_waiting) == 0) return;
    pthread_mutex_lock(&p->mutex);
    pthread_cond_broadcast(&p->pass);
    pthread_mutex_unlock(&p->mutex);
}

/* A thread that has yielded in vain leaves the core: on a busy machine the one that everybody waits for may
 * need it, and a spinning thread uses up the time slices that both share. */
void rdg_pool_barrier(rdg_pool *p, rdg_pool_ahead *ahead)
{
    if (p->n_threads == 1) return;
    enum { LINES_BEFORE = 32, LINES_WAITING = 4 };
    unsigned phase = atomic_load_explicit(&p->barrier_phase, memory_order_relaxed);
    if (ahead) ask_for(ahead, LINES_BEFORE); /* the last to arrive does not wait */
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) == p->n_threads - 1) {
        open_barrier(p);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&p->barrier_phase, memory_order_acquire) == phase; spins++) {
        if (ahead && ahead->bytes) {
            ask_for(ahead, LINES_WAITING);
        } else if (spins < SPINS_BEFORE_YIELD) {
            cpu_relax();
        } else if (spins < SPINS_BEFORE_YIELD + YIELDS_BEFORE_SLEEP) {
            sched_yield();
        } else {
            pthread_mutex_lock(&p->mutex);
            atomic_fetch_add(&p->n_waiting, 1);
            while (atomic_load(&p->barrier_phase) == phase) pthread_cond_wait(&p->pass, &p->mutex);
            atomic_fetch_sub(&p->n_waiting, 1);
            pthread_mutex_unlock(&p->mutex);
        }
    }
}

/* Sharing out
 * -------------------------------------------------------------------------------------------------- */

void rdg_pool_phase_begin(rdg_pool_phase *phase, rdg_pool *p, int thread, int64_t least,
                          rdg_pool_turns_fn *n_turns, const void *ctx)
{
    seat *s = &p->seats[thread];
    if (atomic_load_explicit(&p->barrier_phase, memory_order_relaxed) != s->barrier_phase)
        s->since_barrier = 0;
    if (s->since_barrier == SHARE_SETS) { /* some may still be in the set that comes next */
        rdg_pool_barrier(p, NULL);
        s->since_barrier = 0;
    }
    s->since_barrier++;
    s->barrier_phase = atomic_load_explicit(&p->barrier_phase, memory_order_relaxed);
    uint64_t n = s->n_phases++;
    *phase = (rdg_pool_phase){.pool = p,
                              .n_turns = n_turns,
                              .ctx = ctx,
                              .shares = p->shares + n % SHARE_SETS * (uint64_t)p->n_threads,
                              .tag = n / SHARE_SETS << (2 * TURN_BITS),
                              .least = least,
                              .thread = thread};
}

/* Takes from one share. */
static bool take(const rdg_pool_phase *phase, bool own, rdg_pool_piece *out)
{
    const uint64_t mask = ((uint64_t)1 << TURN_BITS) - 1;
    rdg_pool_share *share = &phase->shares[out->owner];
    uint64_t left = atomic_load_explicit(&share->left, memory_order_relaxed), begin, end, n;
    do {
        bool untouched = left >> (2 * TURN_BITS) != phase->tag >> (2 * TURN_BITS);
        begin = untouched ? 0 : left >> TURN_BITS & mask;
        end = untouched ? (uint64_t)phase->n_turns(phase->ctx, out->owner) : left & mask;
        n = end - begin;
        if (own) { /* marks an empty share too: the mark of long ago must not come round again */
            if (n == 0 && !untouched) return false;
            if (phase->pool->n_threads > 1) n = RDG_MIN(n, RDG_MIN(RDG_MAX(n / OWN_PART, 1), OWN_MOST));
            out->begin = (int64_t)begin;
            out->end = (int64_t)(begin += n);
        } else {
            if (n < (uint64_t)phase->least) return false;
            out->end = (int64_t)end;
            out->begin = (int64_t)(end -= n - n / 2);
        }
        /* relaxed is enough: shares only split the work, the barriers order the data */
    } while (!atomic_compare_exchange_weak_explicit(&share->left, &left,
                                                    phase->tag | begin << TURN_BITS | end,
                                                    memory_order_relaxed, memory_order_relaxed));
    return n > 0;
}

bool rdg_pool_phase_take(rdg_pool_phase *phase, rdg_pool_piece *out)
{
    const int n_threads = phase->pool->n_threads;
    for (; phase->n_victims < RDG_MIN(n_threads, MAX_VICTIMS + 1); phase->n_victims++) {
        out->owner = (phase->thread + phase->n_victims) % n_threads;
        if (take(phase, phase->n_victims == 0, out)) return true;
    }
    return false;
}
