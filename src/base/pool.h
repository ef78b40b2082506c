/* A fixed team of threads that run one function together. Built for the decode loop: a whole plan is one run,
 * with barriers between operations, so threads are woken once a token; they spin for a short while before
 * they sleep. */
#ifndef RDG_BASE_POOL_H
#define RDG_BASE_POOL_H

#include "base/err.h"

#include <stddef.h>

typedef struct rdg_pool rdg_pool;

/* fn runs on n threads at once: the caller is thread 0. */
typedef void rdg_pool_fn(void *ctx, int thread, int n_threads);

rdg_err rdg_pool_create(int n_threads, rdg_pool **out, rdg_error *e); /* 1 … 1024 */
void rdg_pool_destroy(rdg_pool *p);
int rdg_pool_threads(const rdg_pool *p);
/* Returns when fn has returned on every thread. Not re-entrant; one caller at a time. */
void rdg_pool_run(rdg_pool *p, rdg_pool_fn *fn, void *ctx);
/* What a thread will read soon, for the time it waits: streams side by side, stride_bytes apart, bytes of
 * each. next moves on and bytes falls as they are asked for. */
typedef struct rdg_pool_ahead {
    const char *next;
    size_t stride_bytes, bytes;
    int n_streams;
} rdg_pool_ahead;
/* Only inside fn, by all threads of the run: none passes before all have arrived. Orders memory. ahead: what
 * to bring into the second-level cache while waiting, and a little of it before; each thread's own; NULL for
 * nothing. */
void rdg_pool_barrier(rdg_pool *p, rdg_pool_ahead *ahead);

#endif
