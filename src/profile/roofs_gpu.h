/* Measured roofs of a GPU: bandwidth by kind of access, arithmetic rates by type. */
#ifndef RDG_PROFILE_ROOFS_GPU_H
#define RDG_PROFILE_ROOFS_GPU_H

#include "device/device.h"

typedef struct rdg_gpu_roofs {
    double read, copy, triad; /* bytes a second, read and written bytes both counted */
    double upload;            /* bytes a second, host memory → device through the copy queue */
    double fp32, fp16, matrix_fp16,
        int8;              /* operations a second, a multiply-add is 2; 0: the device has none */
    double launch_seconds; /* from one dependent launch to the next in a list */
} rdg_gpu_roofs;

/* About a second on a fast device; software devices get small problems. */
rdg_err rdg_gpu_measure_roofs(rdg_device *d, rdg_gpu_roofs *out, rdg_error *e);

#endif
