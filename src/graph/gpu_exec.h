/* The executor of GPU devices (vulkan; trace in tests). */
#ifndef RDG_GRAPH_GPU_EXEC_H
#define RDG_GRAPH_GPU_EXEC_H

#include "device/device.h"
#include "graph/exec.h"

typedef struct rdg_gpu_options {
    bool no_import; /* copy the weights even where the device could use them in place */
    bool validation;
    const char *cache_dir; /* of compiled kernels; NULL = none */
} rdg_gpu_options;

/* o may be NULL. */
rdg_err rdg_exec_create_gpu(const rdg_exec_request *r, const rdg_gpu_options *o, rdg_exec **out,
                            rdg_error *e);
/* Device memory that runs of these plans need beside weights and states, as it will be allocated, with what
 * is in use already. */
rdg_err rdg_exec_gpu_needs(rdg_exec *x, const rdg_plan *const *plans, int n, uint64_t *bytes, rdg_error *e);
/* Device memory for weights, states and the above; and whether weights need none because they are imported.
 */
uint64_t rdg_exec_gpu_free_bytes(const rdg_exec *x);
bool rdg_exec_gpu_imports(const rdg_exec *x);
rdg_device *rdg_exec_gpu_device(const rdg_exec *x); /* NULL if it is another executor */

#endif
