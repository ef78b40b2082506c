/* Kernels are compute pipelines; what the driver compiled is kept in a file, so a second start does not
 * compile. */
#include "device/vulkan/vk.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

typedef struct vk_kernel {
    rdg_kernel base;
    VkPipeline pipeline;
} vk_kernel;

enum { CACHE_LIMIT_BYTES = 256 << 20 };

/* The file's name carries device and driver; the driver checks its own header besides and ignores what does
 * not fit. */
static char *cache_file(const vk_device *d, const char *dir)
{
    uint64_t h = 1469598103934665603u;
    for (const char *s = d->base.facts.name; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    for (const char *s = d->base.facts.driver; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return rdg_format("%s/vulkan-%016llx.bin", dir, (unsigned long long)h);
}

rdg_err rdg_vk_cache_open(vk_device *d, const char *dir, rdg_error *e)
{
    char *data = NULL;
    size_t bytes = 0;
    if (dir) {
        d->cache_path = cache_file(d, dir);
        if (!d->cache_path) return rdg_fail(e, RDG_E_NOMEM, "no memory for a path");
        if (rdg_file_exists(d->cache_path) &&
            rdg_file_read(d->cache_path, CACHE_LIMIT_BYTES, false, &data, &bytes, NULL))
            data = NULL, bytes = 0; /* a cache that cannot be read is an empty cache */
    }
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = bytes,
                                      .pInitialData = data};
    VkResult r = d->fn.CreatePipelineCache(d->handle, &info, NULL, &d->cache);
    if (r != VK_SUCCESS && bytes > 0) {
        info.initialDataSize = 0;
        bytes = 0;
        r = d->fn.CreatePipelineCache(d->handle, &info, NULL, &d->cache);
    }
    d->cache_bytes = bytes;
    rdg_free(data);
    return rdg_vk_check(d, r, "vkCreatePipelineCache", e);
}

void rdg_vk_cache_close(vk_device *d)
{
    size_t bytes = 0;
    void *data = NULL;
    if (d->cache_path && !d->base.lost && !d->fn.GetPipelineCacheData(d->handle, d->cache, &bytes, NULL) &&
        bytes > 0 && bytes != d->cache_bytes)
        data = rdg_alloc(bytes);
    if (data && !d->fn.GetPipelineCacheData(d->handle, d->cache, &bytes, data)) {
        rdg_out o;
        rdg_error e;
        rdg_err rc = rdg_out_open(&o, d->cache_path, &e);
        if (!rc) {
            rc = rdg_out_write(&o, data, bytes, &e);
            if (!rc) rc = rdg_out_commit(&o, &e);
            rdg_out_close(&o);
        }
        if (rc) rdg_log_warn(d->base.log, "compiled kernels were not kept: %s", e.message);
    }
    rdg_free(data);
    d->fn.DestroyPipelineCache(d->handle, d->cache, NULL);
}

rdg_err rdg_vk_kernel_create(rdg_device *base, const rdg_kernel_desc *desc, rdg_kernel **out, rdg_error *e)
{
    vk_device *d = (vk_device *)base;
    vk_kernel *k = rdg_alloc(sizeof *k);
    if (!k) return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    VkShaderModule module = VK_NULL_HANDLE;
    VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = desc->code_bytes,
                                     .pCode = desc->code};
    rdg_err rc =
        rdg_vk_check(d, d->fn.CreateShaderModule(d->handle, &code, NULL, &module), "vkCreateShaderModule", e);
    if (rc) goto fail;
    VkSpecializationMapEntry entries[RDG_SPEC_MAX];
    for (int i = 0; i < desc->n_spec; i++)
        entries[i] =
            (VkSpecializationMapEntry){.constantID = (uint32_t)i, .offset = (uint32_t)(4 * i), .size = 4};
    VkSpecializationInfo spec = {.mapEntryCount = (uint32_t)desc->n_spec,
                                 .pMapEntries = entries,
                                 .dataSize = (size_t)(4 * desc->n_spec),
                                 .pData = desc->spec};
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo width = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = desc->subgroup};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = desc->subgroup ? &width : NULL,
                  .flags = desc->subgroup ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = desc->n_spec ? &spec : NULL},
        .layout = d->layout};
    rc = rdg_vk_check(d, d->fn.CreateComputePipelines(d->handle, d->cache, 1, &info, NULL, &k->pipeline),
                      "vkCreateComputePipelines", e);
    d->fn.DestroyShaderModule(d->handle, module, NULL);
    if (rc) goto fail;
    *out = &k->base;
    return RDG_OK;
fail:
    if (k->pipeline) d->fn.DestroyPipeline(d->handle, k->pipeline, NULL);
    rdg_free(k);
    return rc;
}

void rdg_vk_kernel_destroy(rdg_kernel *base)
{
    vk_device *d = (vk_device *)base->device;
    d->fn.DestroyPipeline(d->handle, ((vk_kernel *)base)->pipeline, NULL);
    rdg_free(base);
}

VkPipeline rdg_vk_kernel_pipeline(const rdg_kernel *k)
{
    return ((const vk_kernel *)k)->pipeline;
}
