/* The checker's runner for GPU devices. */
#ifndef RDG_OPS_CHECK_GPU_H
#define RDG_OPS_CHECK_GPU_H

#include "ops/check.h"
#include "ops/gpu.h"

typedef struct rdg_check_gpu {
    rdg_device *device;
    rdg_gpu_cache *cache;
    char name[288];
} rdg_check_gpu;

/* device: "vulkan", "vulkan:1". validation: also fail on what the API's validation layer complains about. */
rdg_err rdg_check_gpu_create(rdg_check_gpu *c, const char *device, bool validation, rdg_check_runner *runner,
                             rdg_error *e);
void rdg_check_gpu_finish(rdg_check_gpu *c);

#endif
