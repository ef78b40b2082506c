/* The CPU as an ordinary device: buffers are host memory, files are imported in place, kernels are functions.
 */
#include "device/soft.h"
#include "base/cpu.h"

#include <stdio.h>
#include <string.h>

static void fill_facts(rdg_device_facts *f)
{
    *f = (rdg_device_facts){.index = 0,
                            .memory_bytes = (uint64_t)rdg_cpu_memory_bytes(),
                            .free_bytes = (uint64_t)rdg_cpu_memory_bytes(),
                            .host_memory_bytes = (uint64_t)rdg_cpu_memory_bytes(),
                            .unified = true,
                            .maps_device_memory = true,
                            .imports_host_memory = true,
                            .import_alignment = 1,
                            .subgroup_width = 1,
                            .subgroup_min = 1,
                            .subgroup_max = 1,
                            .workgroup_max = 1,
                            .push_bytes = RDG_PUSH_BYTES_MAX,
                            .grid_max = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
                            .timestamp_ns = 1,
                            .timestamp_bits = 64,
                            .n_queues = 1};
    snprintf(f->backend, sizeof f->backend, "cpu");
    snprintf(f->kind, sizeof f->kind, "cpu");
    rdg_cpu_name(f->name, sizeof f->name);
}

static rdg_err cpu_enumerate(rdg_device_facts *out, int cap, int *n, rdg_buf *notes, rdg_error *e)
{
    (void)notes;
    (void)e;
    *n = 1;
    if (cap > 0) fill_facts(&out[0]);
    return RDG_OK;
}

static rdg_err cpu_open(int index, const rdg_device_options *o, rdg_device **out, rdg_error *e)
{
    (void)o;
    if (index > 0) return rdg_fail(e, RDG_E_NOT_FOUND, "device cpu:%d: there is cpu:0 only", index);
    soft_device *d = rdg_alloc(sizeof *d);
    if (!d) return rdg_fail(e, RDG_E_NOMEM, "no memory for a device");
    fill_facts(&d->base.facts);
    snprintf(d->base.facts.reason, sizeof d->base.facts.reason, "the processor this program runs on");
    d->runs_kernels = true;
    *out = &d->base;
    return RDG_OK;
}

static void cpu_close(rdg_device *d)
{
    rdg_free(d);
}

const rdg_backend_api rdg_cpu_backend = {
    .name = "cpu",
    .enumerate = cpu_enumerate,
    .open = cpu_open,
    .close = cpu_close,
    RDG_SOFT_CALLS,
};
