/* Checking variants against the reference: what `ridge check` and the kernel tests run.
 *
 * For every case of an operation: operands are allocated with guard words around them and between their rows,
 * inputs are filled with seeded data, outputs are poisoned, the variant runs, and every output element is
 * compared. It fails on a difference beyond the tolerance, NaN, a changed guard, a changed input, and bits
 * that depend on the number of threads. Data are fresh each run, so a bound must hold for all that may be
 * drawn: differences are measured by what rounding can do to that element, the operation's `magnitude`. */
#ifndef RDG_OPS_CHECK_H
#define RDG_OPS_CHECK_H

#include "base/pool.h"
#include "ops/op.h"

/* Runs one call whose operands lie in host memory. The CPU's is below; a device brings its own. */
typedef struct rdg_check_runner {
    rdg_backend backend;
    const char *device; /* for the report: "cpu", "vulkan:0 …" */
    uint32_t features;  /* what requires_mask of a variant is held against */
    int n_configs;      /* >= 1: ways to run (numbers of threads); all must give the same bits */
    rdg_err (*run)(void *user, const rdg_variant *v, rdg_op_call *call, int config, rdg_error *e);
    void *user;
} rdg_check_runner;

typedef struct rdg_check_cpu {
    rdg_pool *pools[3]; /* one thread, the number asked for, and one more than that */
} rdg_check_cpu;
rdg_err rdg_check_cpu_create(rdg_check_cpu *c, int n_threads, uint32_t features, rdg_check_runner *runner,
                             rdg_error *e);
void rdg_check_cpu_finish(rdg_check_cpu *c);

typedef enum rdg_check_verdict { RDG_CHECK_PASSED, RDG_CHECK_FAILED, RDG_CHECK_SKIPPED } rdg_check_verdict;
typedef struct rdg_check_result {
    const rdg_op *op;
    const rdg_variant *variant; /* NULL: the operation has none for this backend */
    const char *device;
    char case_name[RDG_CASE_NAME_BYTES]; /* "" where the verdict is about the variant as a whole */
    rdg_check_verdict verdict;
    double error;      /* largest error, as a fraction of what the tolerance allows */
    uint64_t seed;     /* as options.seed with one repeat, it gives this case's data again */
    char message[512]; /* what is wrong, or why it was skipped; "" when passed */
} rdg_check_result;

typedef struct rdg_check_options {
    uint64_t seed;
    int repeat;          /* runs of every case, each with other data; 0 = 1 */
    const char *variant; /* only this one; NULL = all */
    const char *only;    /* only cases with this in their name; NULL = all */
    int stride;          /* run every stride-th case, from one the seed picks; 0 = all: for a quick look */
    void (*report)(void *user, const rdg_check_result *r); /* may be NULL */
    void *user;
} rdg_check_options;

typedef struct rdg_check_totals {
    int64_t n_passed, n_failed, n_skipped;
} rdg_check_totals;

/* Adds to *totals. An error is about the checker (memory, a case that breaks its contract), not about a
 * variant. */
rdg_err rdg_check_op(const rdg_op *op, const rdg_check_runner *runner, const rdg_check_options *o,
                     rdg_check_totals *totals, rdg_error *e);

/* One row of an output against the reference. size: what errors of sums are measured by, NULL = the row's
 * root mean square. Returns the largest error as a fraction of what is allowed (> 1: wrong; INFINITY for
 * NaN), and the first element beyond it (-1 if none). For tests of the comparison itself. */
double rdg_check_row(rdg_tolerance tolerance, const double *got, const double *reference, const double *size,
                     int64_t n, int64_t *first_bad);

#endif
