#include "profile/roofs_cpu.h"
#include "profile/roofs_cpu_kernels.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 5, ARRAYS = 3 };

/* One timed run: threads take pieces of the block (or rounds of arithmetic) from a counter, so that one slow
 * thread does not hold up the others. */
typedef struct measurement {
    rdg_pool *pool;
    const rdg_roof_kernel *kernel;
    char *block;
    int64_t n_pieces; /* of the whole block */
    int64_t n_items;  /* pieces of each array, or parcels of arithmetic */
    int64_t rounds;   /* of arithmetic in one parcel */
    double amount;    /* bytes or operations of the run */
    _Atomic int64_t next;
    _Atomic uint64_t sink;
    int64_t begin_ns, end_ns;
} measurement;

static void run_thread(void *ctx, int thread, int n_threads)
{
    measurement *m = ctx;
    uint64_t sum = 0;
    (void)n_threads;
    rdg_pool_barrier(m->pool, NULL); /* all threads are awake before the clock starts */
    if (thread == 0) m->begin_ns = rdg_clock_ns();
    for (int64_t i; (i = atomic_fetch_add_explicit(&m->next, 1, memory_order_relaxed)) < m->n_items;) {
        char *a = m->block + i * RDG_ROOF_PIECE_BYTES;
        const char *b = a + m->n_pieces / ARRAYS * RDG_ROOF_PIECE_BYTES;
        const char *c = b + m->n_pieces / ARRAYS * RDG_ROOF_PIECE_BYTES;
        bool memory = m->kernel->kind <= RDG_ROOF_TRIAD;
        sum += m->kernel->run(memory ? a : NULL, memory ? b : NULL, memory ? c : NULL, m->rounds);
    }
    atomic_fetch_add_explicit(&m->sink, sum, memory_order_relaxed);
    rdg_pool_barrier(m->pool, NULL);
    if (thread == 0) m->end_ns = rdg_clock_ns();
}

static double run_once(measurement *m)
{
    atomic_store(&m->next, 0);
    rdg_pool_run(m->pool, run_thread, m);
    return (double)RDG_MAX(m->end_ns - m->begin_ns, 1) * 1e-9;
}

/* Median rate of RUNS runs after one that does not count. */
static double median_rate(measurement *m)
{
    static const double arrays_of[RDG_ROOF_COUNT] = {
        [RDG_ROOF_WRITE] = 1, [RDG_ROOF_COPY] = 2, [RDG_ROOF_TRIAD] = 3};
    double seconds[RUNS];
    if (m->kernel->kind > RDG_ROOF_TRIAD) {
        /* parcels of about a millisecond: find the rounds that take that long */
        m->n_items = 16 * rdg_pool_threads(m->pool);
        for (m->rounds = 64; run_once(m) < 0.01 && m->rounds < INT64_C(1) << 30; m->rounds *= 2) {
        }
        m->amount = m->kernel->ops_per_round * (double)m->rounds * (double)m->n_items;
    } else if (m->kernel->kind == RDG_ROOF_READ) { /* the whole block is one array */
        m->n_items = m->n_pieces;
        m->amount = (double)m->n_items * RDG_ROOF_PIECE_BYTES;
    } else {
        m->n_items = m->n_pieces / ARRAYS;
        m->amount = arrays_of[m->kernel->kind] * (double)m->n_items * RDG_ROOF_PIECE_BYTES;
    }
    run_once(m);
    for (int i = 0; i < RUNS; i++) seconds[i] = run_once(m);
    rdg_sort_doubles(seconds, RUNS);
    return m->amount / rdg_median_sorted(seconds, RUNS);
}

/* Four times the last-level cache, at least 384 MiB; at most 1 GiB (virtual machines report the cache of the
 * whole host) and an eighth of the memory. */
static int64_t pieces_of_block(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    int64_t bytes = RDG_MAX((int64_t)384 << 20, 4 * (int64_t)RDG_MAX(cache, 0)),
            memory = rdg_cpu_memory_bytes();
    bytes = RDG_MIN(bytes, (int64_t)1 << 30);
    if (memory > 0) bytes = RDG_MIN(bytes, memory / 8);
    return RDG_MAX(bytes / RDG_ROOF_PIECE_BYTES / ARRAYS, 1) * ARRAYS;
}

static void fill_thread(void *ctx, int thread, int n_threads)
{
    const measurement *m = ctx; /* the thread that first touches a page decides where it lies */
    for (int64_t i = thread; i < m->n_pieces; i += n_threads)
        memset(m->block + i * RDG_ROOF_PIECE_BYTES, 0, RDG_ROOF_PIECE_BYTES);
}

struct rdg_cpu_meter {
    measurement m;
    const rdg_roof_kernel *reader; /* the fastest; NULL until it was looked for */
    size_t block_bytes;
};

void rdg_cpu_meter_destroy(rdg_cpu_meter *meter)
{
    if (!meter) return;
    rdg_free(meter->m.block);
    rdg_pool_destroy(meter->m.pool);
    rdg_free(meter);
}

rdg_err rdg_cpu_meter_create(int n_threads, rdg_cpu_meter **out, rdg_error *e)
{
    rdg_cpu_meter *meter = rdg_alloc(sizeof *meter);
    *out = NULL;
    if (!meter) return rdg_fail(e, RDG_E_NOMEM, "no memory to measure the bandwidth with");
    meter->m.n_pieces = pieces_of_block();
    meter->block_bytes = (size_t)meter->m.n_pieces * RDG_ROOF_PIECE_BYTES;
    rdg_err err = rdg_pool_create(n_threads, &meter->m.pool, e);
    if (!err && !(meter->m.block = rdg_alloc_working(meter->block_bytes)))
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for a block of %zu bytes to measure the bandwidth with",
                       meter->block_bytes);
    if (err) {
        rdg_cpu_meter_destroy(meter);
        return err;
    }
    rdg_pool_run(meter->m.pool, fill_thread, &meter->m);
    *out = meter;
    return RDG_OK;
}

/* The fastest kernel of each kind up to `last`. */
static void measure_kinds(rdg_cpu_meter *meter, rdg_roof_kind last, rdg_cpu_roof best[RDG_ROOF_COUNT])
{
    static const rdg_roof_kernel *const lists[] = {
#if defined(__x86_64__)
        rdg_roof_kernels_avx512,
        rdg_roof_kernels_avx2,
#endif
        rdg_roof_kernels_c
    };
    measurement *m = &meter->m;
    const uint32_t features = rdg_cpu_features();
    for (int l = 0; l < RDG_COUNTOF(lists); l++)
        for (m->kernel = lists[l]; m->kernel->name; m->kernel++) {
            if (m->kernel->kind > last || m->kernel->requires_mask & ~features) continue;
            double rate = median_rate(m);
            if (rate <= best[m->kernel->kind].rate) continue;
            best[m->kernel->kind] = (rdg_cpu_roof){rate, m->kernel->name};
            if (m->kernel->kind == RDG_ROOF_READ) meter->reader = m->kernel;
        }
}

void rdg_cpu_meter_roofs(rdg_cpu_meter *meter, rdg_cpu_roofs *out)
{
    rdg_cpu_roof best[RDG_ROOF_COUNT] = {0};
    measure_kinds(meter, RDG_ROOF_COUNT - 1, best);
    *out = (rdg_cpu_roofs){.n_threads = rdg_pool_threads(meter->m.pool),
                           .block_bytes = meter->block_bytes,
                           .read = best[RDG_ROOF_READ],
                           .write = best[RDG_ROOF_WRITE],
                           .copy = best[RDG_ROOF_COPY],
                           .triad = best[RDG_ROOF_TRIAD],
                           .fp32 = best[RDG_ROOF_FP32],
                           .int8 = best[RDG_ROOF_INT8]};
}

double rdg_cpu_meter_read(rdg_cpu_meter *meter)
{
    rdg_cpu_roof best[RDG_ROOF_COUNT] = {0};
    if (!meter->reader) measure_kinds(meter, RDG_ROOF_READ, best);
    meter->m.kernel = meter->reader;
    return median_rate(&meter->m);
}

rdg_err rdg_cpu_measure_roofs(int n_threads, rdg_cpu_roofs *out, rdg_error *e)
{
    rdg_cpu_meter *meter;
    rdg_err err = rdg_cpu_meter_create(n_threads, &meter, e);
    if (!err) rdg_cpu_meter_roofs(meter, out);
    rdg_cpu_meter_destroy(meter);
    return err;
}
