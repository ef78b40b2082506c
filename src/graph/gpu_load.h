/* How fast the weights reach a device, beside what its two halves reach alone. */
#ifndef RDG_GRAPH_GPU_LOAD_H
#define RDG_GRAPH_GPU_LOAD_H

#include "device/upload.h"
#include "graph/plan.h"

typedef struct rdg_load_times {
    uint64_t bytes, staging_bytes;
    int n_threads;
    bool from_map;                            /* read so, for the most part */
    double reserve_seconds;                   /* making the buffers, part of the load; median */
    double seconds, min_seconds, max_seconds; /* buffers, reading and copying; median and range */
    double read_seconds;                      /* the file into staging and no further: fastest */
    double fill_seconds;                      /* the same with rows rewritten for the kernels: fastest */
    double copy_seconds;                      /* staging to the device, nothing read: fastest */
} rdg_load_times;

/* Loads the plan's weights once into buffers of their own, without what the options leave out. The time is
 * that of all of it, the options' zeros mean the usual. */
rdg_err rdg_gpu_load_once(rdg_device *d, const rdg_plan *p, rdg_pool *pool, const rdg_upload_options *o,
                          double *seconds, rdg_upload_stats *st, rdg_error *e);

/* Loads them `repeats` times, each time followed by the halves with the same threads and pieces: reading into
 * the same slots; copying in slots of 4 MiB at least, one for each thread. One load comes
 * before all, so that the page cache is warm. */
rdg_err rdg_gpu_measure_load(rdg_device *d, const rdg_plan *p, rdg_pool *pool, const rdg_upload_options *o,
                             int repeats, rdg_load_times *out, rdg_error *e);

#endif
