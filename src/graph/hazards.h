/* Where barriers go: a call needs one before it only if it touches memory that a call since the last barrier
 * wrote, or writes memory that one read. Both executors walk a plan with this, the GPU's when it records and
 * the CPU's when it binds. It also remembers whose prepared form (activations in 8 bits, in f16) lies in the
 * kernels' scratch, so that products of one input prepare it once. Addresses only; owns nothing. */
#ifndef RDG_GRAPH_HAZARDS_H
#define RDG_GRAPH_HAZARDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rdg_range {
    uint64_t begin, end;
    bool written;
} rdg_range;

enum { RDG_HAZARDS_PENDING = 256, RDG_HAZARDS_NOW = 40 };
/* All zero at the start. */
typedef struct rdg_hazards {
    rdg_range pending[RDG_HAZARDS_PENDING]; /* of the calls since the last barrier */
    int n;
    rdg_range now[RDG_HAZARDS_NOW]; /* of the call in hand */
    int n_now;
    bool overflow;        /* the call in hand has more ranges than fit: it gets a barrier before and after */
    rdg_range prepared;   /* the operand whose prepared form is in the scratch; empty: none */
    int64_t prepared_row; /* elements of a row of it: the same bytes in other rows are prepared otherwise */
    const void *prepared_by; /* what tells one prepared form from another */
} rdg_hazards;

/* The call in hand reads or writes these bytes; address 0 is ignored. */
void rdg_hazards_use(rdg_hazards *h, uint64_t begin, uint64_t bytes, bool written);
/* Ends the call in hand: true if a barrier is needed before it. */
bool rdg_hazards_order(rdg_hazards *h);
/* The call in hand was ordered and then contained a barrier of its own: what came before is done. Name its
 * ranges again with rdg_hazards_use, as its part after that barrier uses them, before this. */
void rdg_hazards_restart(rdg_hazards *h);
/* Whether the prepared form of [begin, end) in rows of so many elements is there, and noting that it is now
 * (an empty range: that the scratch was overwritten with something else). */
bool rdg_hazards_is_prepared(const rdg_hazards *h, const void *by, uint64_t begin, uint64_t end,
                             int64_t row_elems);
void rdg_hazards_set_prepared(rdg_hazards *h, const void *by, uint64_t begin, uint64_t end,
                              int64_t row_elems);

#endif
