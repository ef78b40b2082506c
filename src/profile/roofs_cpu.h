/* The measured roofs of the CPU: how fast all threads together can read, write, copy and compute.
 *
 * The read bandwidth is the denominator of "share of the roof" for decoding, so it has to be the best this
 * machine can do: every kernel of the table (roofs_cpu_kernels.h) that the CPU supports is run several times
 * over a block much larger than the last-level cache, and each roof is the best kernel's median. */
#ifndef RDG_PROFILE_ROOFS_CPU_H
#define RDG_PROFILE_ROOFS_CPU_H

#include "base/err.h"

#include <stddef.h>

typedef struct rdg_cpu_roof {
    double rate;        /* bytes or operations a second, 0 if nothing was measured */
    const char *kernel; /* the kernel that reached it; static storage */
} rdg_cpu_roof;

typedef struct rdg_cpu_roofs {
    int n_threads;
    size_t block_bytes; /* what each bandwidth run went over */
    /* bytes a second; copy counts what is read and what is written, triad (a = b + s c) three arrays */
    rdg_cpu_roof read, write, copy, triad;
    rdg_cpu_roof fp32; /* floating-point operations a second, a fused multiply-add is 2 */
    rdg_cpu_roof int8; /* 8-bit multiply and 32-bit add, counted as 2 */
} rdg_cpu_roofs;

/* The threads and the block that roofs are measured with, kept for readings between other work: on a shared
 * machine the bandwidth can halve from one second to the next, so that a rate is only to be compared with a
 * roof read next to it. */
typedef struct rdg_cpu_meter rdg_cpu_meter;
rdg_err rdg_cpu_meter_create(int n_threads, rdg_cpu_meter **out, rdg_error *e);
void rdg_cpu_meter_destroy(rdg_cpu_meter *m);
/* All roofs: takes a few seconds. The caller should not run anything else meanwhile. */
void rdg_cpu_meter_roofs(rdg_cpu_meter *m, rdg_cpu_roofs *out);
/* Bytes a second of the kernel that reads fastest here, which the first call finds out: the median of a few
 * passes, some tens of milliseconds in all. */
double rdg_cpu_meter_read(rdg_cpu_meter *m);

/* The three in one. */
rdg_err rdg_cpu_measure_roofs(int n_threads, rdg_cpu_roofs *out, rdg_error *e);

#endif
