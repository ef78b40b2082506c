/* Where a device's time goes between the first and the last launch of several steps: busy, idle inside a
 * step, idle between steps.
 *
 * Launches that run side by side are counted once: busy time is the length of the union of their spans. A
 * span begins when the device came to the launch and ends when all launches up to it were over, so the first
 * wave's way to the cores counts as busy: what an empty launch costs bounds it from above (launch_seconds of
 * the roofs, times the ordered launches). On a device that reads ahead of a barrier a span may even begin
 * before the launches it waits for are over, and the gap in front of it cannot be seen: such spans are
 * counted (n_early).
 *
 * Launches of a chain run before those they wait for are over, and each says itself when its first workgroup
 * had done waiting. Time in which all that ran was waiting is part of busy, and counted (waiting_ns; what is
 * fetched meanwhile is not seen, so it is an upper bound). */
#ifndef RDG_PROFILE_TIMELINE_H
#define RDG_PROFILE_TIMELINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rdg_span {
    int32_t what; /* the caller's number of the launch */
    bool ordered; /* starts after all before it */
    int32_t lane; /* row of a drawing where spans do not overlap, set by rdg_timeline_summarise */
    int64_t begin_ns, end_ns;
    int64_t ready_ns; /* until then it waited for others while it ran; begin_ns: it did not */
} rdg_span;

typedef struct rdg_timeline {
    rdg_span *spans; /* step after step, in the order they were recorded; summarising puts those of a step in
                      * the order they began */
    size_t n_spans, cap_spans;
    size_t *first; /* by step: its first span; one more entry than steps */
    size_t n_steps, cap_first;
} rdg_timeline;

/* A step of n > 0 spans, whose memory the caller then fills. NULL: no memory. */
rdg_span *rdg_timeline_add_step(rdg_timeline *t, size_t n);
void rdg_timeline_finish(rdg_timeline *t);

typedef struct rdg_timeline_step {
    int64_t begin_ns, end_ns; /* first begin, last end */
    int64_t busy_ns;          /* union of the spans */
    int64_t working_ns;       /* union of the spans from when they were ready: the rest of busy is waiting */
    int64_t gap_ns;           /* from the end of the step before; 0 for the first */
} rdg_timeline_step;
/* After rdg_timeline_summarise. */
rdg_timeline_step rdg_timeline_step_at(const rdg_timeline *t, size_t i);

typedef struct rdg_timeline_summary {
    int64_t n_steps, n_spans, n_ordered, n_early;
    int64_t n_odd; /* spans that end before they begin or are ready, and ordered ones that end before an
                    * earlier one: must be 0 */
    int64_t span_ns, busy_ns, idle_inside_ns, idle_between_ns; /* span = busy + both idle times */
    int64_t waiting_ns;     /* of busy: every launch that ran was waiting for another */
    int64_t largest_gap_ns; /* between steps */
    int n_lanes;
} rdg_timeline_summary;
void rdg_timeline_summarise(rdg_timeline *t, rdg_timeline_summary *out);

#endif
