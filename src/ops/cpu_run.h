/* Running CPU kernels on a pool. A whole plan runs inside one rdg_pool_run: every thread walks the same list
 * of calls, does its share of each and takes over from who is behind (rdg_pool_phase). Which thread does
 * which item does not change the result. */
#ifndef RDG_OPS_CPU_RUN_H
#define RDG_OPS_CPU_RUN_H

#include "base/pool.h"
#include "ops/op.h"

enum { RDG_CPU_MAX_PHASES = 4 };

/* Calls of one kernel that run as one: neither needs what another writes, and their first phase is the same
 * (rdg_cpu_kernel.prepares), or there is one call only. The last phase is of all of them. */
typedef struct rdg_cpu_calls {
    const rdg_op_call *const *call;
    int64_t n;
    const rdg_cpu_kernel *kernel;
} rdg_cpu_calls;

/* Inside rdg_pool_run, by every thread of the run with the same arguments but `thread` and `ahead`.
 * first_phase: 0, or 1 when the scratch holds what phase 0 would write. ahead: for the barriers inside
 * (rdg_pool_barrier). There is a barrier between the phases, also where one has no items (a plan's order
 * counts on it), and none after the last: put rdg_pool_barrier before whatever reads what this writes, or
 * reuses its scratch. */
void rdg_cpu_run_calls(rdg_pool *pool, int thread, const rdg_cpu_calls *calls, int first_phase, void *scratch,
                       rdg_pool_ahead *ahead);
/* Where thread `thread` will begin to read in the last phase: the weights of its first items, at most limit
 * bytes. Empty if the kernel has no streams or the thread no items of its own. */
rdg_pool_ahead rdg_cpu_ahead(const rdg_cpu_calls *calls, int thread, int n_threads, size_t limit);

/* Bytes of scratch of this call, 0 for none; a multiple of 64. */
size_t rdg_cpu_scratch_bytes(const rdg_op_call *call, const rdg_cpu_kernel *kernel, int n_threads);

/* One call on its own: allocates the scratch, runs, waits. For tests, `check` and `bench-op`. */
rdg_err rdg_cpu_run(rdg_pool *pool, const rdg_op_call *call, const rdg_variant *variant, rdg_error *e);
/* The same with scratch of rdg_cpu_scratch_bytes that the caller keeps; at most RDG_CPU_MAX_PHASES phases. */
void rdg_cpu_run_with(rdg_pool *pool, const rdg_op_call *call, const rdg_cpu_kernel *kernel, void *scratch);

#endif
