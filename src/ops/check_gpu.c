#include "ops/check_gpu.h"

#include <stdio.h>

static rdg_err run(void *user, const rdg_variant *v, rdg_op_call *call, int config, rdg_error *e)
{
    (void)config;
    return rdg_gpu_run_host(((rdg_check_gpu *)user)->cache, v, call, e);
}

rdg_err rdg_check_gpu_create(rdg_check_gpu *c, const char *device, bool validation, rdg_check_runner *runner,
                             rdg_error *e)
{
    *c = (rdg_check_gpu){0};
    rdg_device_options o = {.validation = validation};
    rdg_err rc = rdg_device_open(device, &o, &c->device, e);
    if (!rc) rc = rdg_gpu_cache_create(c->device, &c->cache, e);
    if (rc) {
        rdg_check_gpu_finish(c);
        return rc;
    }
    const rdg_device_facts *f = rdg_device_get_facts(c->device);
    snprintf(c->name, sizeof c->name, "%s:%d %.240s", f->backend, f->index, f->name);
    *runner = (rdg_check_runner){.backend = RDG_BACKEND_VULKAN,
                                 .device = c->name,
                                 .features = f->features,
                                 .n_configs = 1,
                                 .run = run,
                                 .user = c};
    return RDG_OK;
}

void rdg_check_gpu_finish(rdg_check_gpu *c)
{
    rdg_gpu_cache_destroy(c->cache);
    rdg_device_close(c->device);
    *c = (rdg_check_gpu){0};
}
