/* Which executor runs a session, and which blocks of it. */
#include "graph/exec.h"
#include "graph/gpu_exec.h"
#include "graph/place.h"
#include "graph/split_exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The GPU with the most memory of its own. What it reads in a second is several times what any processor
 * reads; of the others nothing is known before they are measured, so they must be asked for. */
static bool choose_gpu(char *out, size_t bytes)
{
    enum { MAX_DEVICES = 16 };
    rdg_device_facts *f = rdg_alloc_array(MAX_DEVICES, sizeof *f);
    int n = 0, best = -1;
    if (!f || rdg_device_list(f, MAX_DEVICES, &n, NULL, NULL)) n = 0;
    for (int i = 0; i < n; i++)
        if (!strcmp(f[i].kind, "discrete") && (best < 0 || f[i].free_bytes > f[best].free_bytes)) best = i;
    if (best >= 0) snprintf(out, bytes, "%s:%d", f[best].backend, f[best].index);
    rdg_free(f);
    return best >= 0;
}

/* "blocks 3 … 7 and the output" */
static void name_share(const rdg_placement *p, char *out, size_t bytes)
{
    int n = 0;
    if (p->n_blocks)
        n = snprintf(out, bytes, "blocks %" PRId64 " … %" PRId64, p->first_block,
                     p->first_block + p->n_blocks - 1);
    if (p->embedding) n += snprintf(out + n, bytes - (size_t)n, "%sthe embedding", n ? ", " : "");
    if (p->output) snprintf(out + n, bytes - (size_t)n, "%sthe output", n ? ", " : "");
}

static void report(const rdg_exec_request *r, const rdg_exec *x)
{
    for (int i = 0; i < x->n_placements; i++) {
        const rdg_placement *p = &x->placements[i];
        char share[96];
        name_share(p, share, sizeof share);
        rdg_log_info(r->log,
                     "placement: %s on %s: %.3f GB of weights, %.3f GB of KV cache, %.3f GB of scratch%s%s",
                     share, p->device, (double)p->weight_bytes * 1e-9, (double)p->kv_bytes * 1e-9,
                     (double)p->scratch_bytes * 1e-9, p->reason[0] ? "; " : "", p->reason);
    }
}

typedef struct decision {
    rdg_place_sizes sizes;
    uint64_t budget_bytes, fixed_bytes;
} decision;

static rdg_err decide(const rdg_exec_request *r, rdg_exec *gpu, decision *d, rdg_error *e)
{
    int n = r->sizing[1] ? 2 : 1;
    rdg_err rc = rdg_exec_gpu_needs(gpu, r->sizing, n, &d->fixed_bytes, e);
    if (rc) return rc;
    d->budget_bytes = r->device_memory_bytes ? r->device_memory_bytes : rdg_exec_gpu_free_bytes(gpu);
    rdg_place_request p = {.plan = r->sizing[0],
                           .n_gpu_blocks = r->gpu_layers == 0 ? -1 : RDG_MAX(r->gpu_layers, 0),
                           .budget_bytes = d->budget_bytes,
                           .fixed_bytes = d->fixed_bytes,
                           .weights_in_place = !r->device_memory_bytes && rdg_exec_gpu_imports(gpu)};
    return rdg_place_blocks(&p, &d->sizes, e);
}

static void give_reason(const rdg_exec_request *r, const decision *d, rdg_placement *p)
{
    const rdg_place_sizes *s = &d->sizes;
    double need = (double)s->device_bytes * 1e-9, budget = (double)d->budget_bytes * 1e-9;
    const char *of = r->device_memory_bytes ? "allowed" : "free";
    if (r->gpu_layers)
        snprintf(p->reason, sizeof p->reason, "%" PRId64 " of %" PRId64 " blocks were asked for",
                 s->n_gpu_blocks, s->n_blocks);
    else if (s->one_more_bytes)
        snprintf(p->reason, sizeof p->reason, "%.3f of %.3f GB %s; the next part needs %.3f GB more", need,
                 budget, of, (double)s->one_more_bytes * 1e-9);
    else
        snprintf(p->reason, sizeof p->reason, "all of it fits: %.3f of %.3f GB %s", need, budget, of);
}

static void fill_placements(const rdg_exec_request *r, const decision *d, const char *device, rdg_exec *x)
{
    const rdg_place_sizes *s = &d->sizes;
    int64_t n_cpu = s->n_blocks - s->n_gpu_blocks;
    rdg_placement *p = x->placements;
    if (s->first_stage > 0) {
        *p = (rdg_placement){.device = "cpu",
                             .n_blocks = n_cpu,
                             .embedding = true,
                             .output = s->first_stage > s->n_blocks,
                             .weight_bytes = s->weight_bytes[0],
                             .kv_bytes = s->kv_bytes[0],
                             .scratch_bytes = (uint64_t)r->sizing[0]->scratch_bytes};
        p++;
    }
    if (s->first_stage <= s->n_blocks) {
        *p = (rdg_placement){.first_block = n_cpu,
                             .n_blocks = s->n_gpu_blocks,
                             .embedding = s->first_stage == 0,
                             .output = true,
                             .weight_bytes = s->weight_bytes[1],
                             .kv_bytes = s->kv_bytes[1],
                             .scratch_bytes = d->fixed_bytes};
        snprintf(p->device, sizeof p->device, "%s", device);
        p++;
    }
    x->n_placements = (int)(p - x->placements);
    give_reason(r, d, p - 1);
}

static rdg_err create_placed(const rdg_exec_request *r, rdg_exec **out, rdg_error *e)
{
    rdg_gpu_options o = {.cache_dir = r->cache_dir};
    rdg_exec *gpu, *cpu = NULL;
    decision d = {0};
    char device[32];
    rdg_err rc = rdg_exec_create_gpu(r, &o, &gpu, e);
    if (rc || !r->sizing[0]) {
        *out = gpu;
        return rc;
    }
    if ((rc = decide(r, gpu, &d, e))) goto fail;
    const rdg_device_facts *f = rdg_device_get_facts(rdg_exec_gpu_device(gpu));
    snprintf(device, sizeof device, "%s:%d", f->backend, f->index);
    if (d.sizes.first_stage == 0) {
        *out = gpu;
    } else {
        rdg_exec_request for_cpu = *r;
        for_cpu.variant = NULL; /* it names one of the GPU's */
        if ((rc = rdg_exec_create_cpu(&for_cpu, &cpu, e))) goto fail;
        if (d.sizes.first_stage > d.sizes.n_blocks) {
            if (r->gpu_layers >= 0)
                rdg_log_warn(r->log,
                             "nothing runs on %s: the last block and the output need %.3f GB, %.3f GB are %s",
                             device, (double)d.sizes.one_more_bytes * 1e-9, (double)d.budget_bytes * 1e-9,
                             r->device_memory_bytes ? "allowed" : "free");
            rdg_exec_destroy(gpu);
            *out = cpu;
        } else if ((rc = rdg_exec_create_split(cpu, gpu, d.sizes.first_stage, out, e))) {
            return rc;
        }
    }
    fill_placements(r, &d, device, *out);
    report(r, *out);
    return RDG_OK;
fail:
    rdg_exec_destroy(gpu);
    return rc;
}

rdg_err rdg_exec_create(const rdg_exec_request *r, rdg_exec **out, rdg_error *e)
{
    const char *device = r->device ? r->device : "cpu";
    *out = NULL;
    char chosen[32];
    if (!strcmp(device, "auto") && choose_gpu(chosen, sizeof chosen)) device = chosen;
    if (!strcmp(device, "auto")) {
        rdg_log_info(r->log, "device: cpu; no GPU with memory of its own was found");
        device = "cpu";
    }
    if (!strcmp(device, "cpu")) return rdg_exec_create_cpu(r, out, e);
    if (!strncmp(device, "vulkan", 6) || !strncmp(device, "trace", 5)) {
        rdg_exec_request with = *r;
        with.device = device;
        return create_placed(&with, out, e);
    }
    return rdg_fail(e, RDG_E_ARGUMENT,
                    "device '%s' is not known: auto, cpu, vulkan and vulkan:N are; `ridge "
                    "devices` lists what there is",
                    device);
}
