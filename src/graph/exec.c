/* Which executor runs a session. */
#include "graph/exec.h"
#include "graph/gpu_exec.h"

#include <stdio.h>
#include <string.h>

/* A GPU with memory of its own that holds the weights and some room beside them. What it reads in a second is
 * several times what any processor reads; of the others nothing is known before they are measured, so they
 * must be asked for. */
static bool choose_gpu(const rdg_exec_request *r, char *out, size_t bytes)
{
    enum { MAX_DEVICES = 16 };
    rdg_device_facts *f = rdg_alloc_array(MAX_DEVICES, sizeof *f);
    uint64_t weights = 0;
    int n = 0, best = -1;
    for (int64_t i = 0; i < rdg_gguf_n_tensors(r->gguf); i++)
        weights += rdg_gguf_tensor_at(r->gguf, i)->bytes;
    if (!f || rdg_device_list(f, MAX_DEVICES, &n, NULL, NULL)) n = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(f[i].kind, "discrete")) continue;
        if (weights + weights / 8 > f[i].memory_bytes) {
            rdg_log_info(r->log, "device: %s:%d %s has %.1f GB of memory, the weights are %.1f GB",
                         f[i].backend, f[i].index, f[i].name, (double)f[i].memory_bytes * 1e-9,
                         (double)weights * 1e-9);
        } else if (best < 0 || f[i].memory_bytes > f[best].memory_bytes) {
            best = i;
        }
    }
    if (best >= 0) snprintf(out, bytes, "%s:%d", f[best].backend, f[best].index);
    rdg_free(f);
    return best >= 0;
}

rdg_err rdg_exec_create(const rdg_exec_request *r, rdg_exec **out, rdg_error *e)
{
    const char *device = r->device ? r->device : "cpu";
    *out = NULL;
    char chosen[32];
    if (!strcmp(device, "auto") && choose_gpu(r, chosen, sizeof chosen)) device = chosen;
    if (!strcmp(device, "auto")) {
        rdg_log_info(r->log, "device: cpu; no GPU with enough memory of its own was found");
        device = "cpu";
    }
    if (!strcmp(device, "cpu")) return rdg_exec_create_cpu(r, out, e);
    if (!strncmp(device, "vulkan", 6) || !strncmp(device, "trace", 5)) {
        rdg_exec_request with = *r;
        rdg_gpu_options o = {.cache_dir = r->cache_dir};
        with.device = device;
        return rdg_exec_create_gpu(&with, &o, out, e);
    }
    return rdg_fail(e, RDG_E_ARGUMENT, "device '%s' is not known; `ridge devices` lists what there is",
                    device);
}
