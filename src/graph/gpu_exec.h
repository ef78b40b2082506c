/* The executor of GPU devices (vulkan; trace in tests). */
#ifndef RDG_GRAPH_GPU_EXEC_H
#define RDG_GRAPH_GPU_EXEC_H

#include "device/device.h"
#include "graph/exec.h"

typedef struct rdg_gpu_options {
    bool no_steps;  /* one launch a node in decode as well: for tests and comparisons */
    bool no_import; /* copy the weights even where the device could use them in place */
    bool validation;
    const char *cache_dir; /* of compiled kernels; NULL = none */
} rdg_gpu_options;

/* o may be NULL. */
rdg_err rdg_exec_create_gpu(const rdg_exec_request *r, const rdg_gpu_options *o, rdg_exec **out,
                            rdg_error *e);
rdg_device *rdg_exec_gpu_device(const rdg_exec *x); /* NULL if it is another executor */

#endif
