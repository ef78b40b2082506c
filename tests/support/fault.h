/* Makes the Nth allocation or the Nth system call fail, and counts what is allocated. Link a test with
 * fault_dep (tests/meson.build), which wraps the functions below in everything that is linked statically: all
 * of ridge and the test itself, but no library. Counting down is off until fault_start, so the test's own
 * calls outside are never hit. */
#ifndef RDG_TESTS_FAULT_H
#define RDG_TESTS_FAULT_H

#include <ridge/error.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum fault_kind {
    FAULT_ALLOC, /* malloc, calloc, realloc, aligned_alloc: NULL with ENOMEM */
    FAULT_JSON,  /* allocations inside jansson, which may call that a syntax error: any error will do */
    FAULT_IO,    /* open, fstat, mmap, read, write, pwrite, fsync, rename, opendir, readdir: an error, EIO */
    FAULT_WRITE, /* write, pwrite: ENOSPC */
    FAULT_SYNC   /* fsync: EIO */
} fault_kind;

/* From now on the nth (1, 2, …) call of this kind fails, once. */
void fault_start(fault_kind kind, int64_t nth);
/* Ends it; true if a call was made to fail. */
bool fault_stop(void);

/* Allocations that were not freed yet. */
int64_t fault_live(void);
/* Frees what a library allocated, which was not counted. */
void fault_free_foreign(void *p);

/* Runs fn with the first call failing, then the second, … until none of its calls fails, which must be a
 * success. fn returns what the code under test returned and cleans up after itself. Each failed run must
 * return NOMEM or IO with a message, and leave as much allocated as there was. Returns the number of runs
 * that failed; 0 and a line on stderr if a run broke the rule. */
typedef rdg_err fault_fn(void *ctx, rdg_error *e);
int64_t fault_each(fault_kind kind, fault_fn *fn, void *ctx);

#endif
