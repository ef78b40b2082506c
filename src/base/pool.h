/* A fixed team of threads that run one function together. Built for the decode loop: a whole plan is one run,
 * with barriers between operations, so threads are woken once a token; they spin for a short while before
 * they sleep. */
#ifndef RDG_BASE_POOL_H
#define RDG_BASE_POOL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Sharing out a phase of work: every thread has a share, a number of turns that it takes a few at a time from
 * the front, in order; who has finished takes from the back of others' shares, so that a thread that is
 * slower or comes later holds up nobody. Only inside fn. Between two barriers there may be any number of
 * phases. */
typedef int64_t rdg_pool_turns_fn(const void *ctx,
                                  int thread); /* in the thread's share: 0 … RDG_POOL_MAX_TURNS */
enum { RDG_POOL_MAX_TURNS = (1 << 28) - 1 };
typedef struct rdg_pool_phase {
    rdg_pool *pool;
    rdg_pool_turns_fn *n_turns;
    const void *ctx;
    struct rdg_pool_share *shares; /* of all threads */
    uint64_t tag;                  /* of this phase, in what a share holds */
    int64_t least;                 /* turns to take over */
    int thread, n_victims;
} rdg_pool_phase;
typedef struct rdg_pool_piece {
    int owner; /* whose share it is of */
    int64_t begin, end;
} rdg_pool_piece;
/* Every thread of the run begins the same phases in the same order. n_turns: a function of ctx and thread
 * alone, the same for all. least: fewer turns are left to their owner, where going on costs less than
 * starting elsewhere; 1 for none. May wait at a barrier. */
void rdg_pool_phase_begin(rdg_pool_phase *phase, rdg_pool *p, int thread, int64_t least,
                          rdg_pool_turns_fn *n_turns, const void *ctx);
/* The next piece for this thread; false when nothing is left to take. Orders no memory: use a barrier. */
bool rdg_pool_phase_take(rdg_pool_phase *phase, rdg_pool_piece *out);

#endif
