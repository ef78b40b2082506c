/* Which executor runs a session. */
#include "graph/exec.h"
#include "graph/gpu_exec.h"

#include <string.h>

rdg_err rdg_exec_create(const rdg_exec_request *r, rdg_exec **out, rdg_error *e)
{
    const char *device = r->device ? r->device : "cpu";
    *out = NULL;
    if (!strcmp(device, "auto")) {
        rdg_log_info(r->log, "device: cpu, the only one this build can run models on");
        device = "cpu";
    }
    if (!strcmp(device, "cpu")) return rdg_exec_create_cpu(r, out, e);
    if (!strncmp(device, "vulkan", 6) || !strncmp(device, "trace", 5)) return rdg_exec_create_gpu(r, NULL, out, e);
    return rdg_fail(e, RDG_E_ARGUMENT, "device '%s' is not known; `ridge devices` lists what there is", device);
}
