/* Command buffers that may be submitted again while an earlier submit still runs. */
#include "device/vulkan/vk.h"

typedef struct vk_list {
    rdg_list base;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkQueryPool queries;
    VkPipeline bound;
    bool copied; /* since the last barrier */
    bool narrow; /* the last barrier let kernels go on, but not copies */
} vk_list;

VkCommandBuffer rdg_vk_list_commands(const rdg_list *l)
{
    return ((const vk_list *)l)->commands;
}

static void memory_barrier(vk_device *d, vk_list *l, VkPipelineStageFlags before, VkPipelineStageFlags after,
                           VkAccessFlags written, VkAccessFlags read)
{
    VkMemoryBarrier b = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = written, .dstAccessMask = read};
    d->fn.CmdPipelineBarrier(l->commands, before, after, 0, 1, &b, 0, NULL, 0, NULL);
}

enum {
    STAGES_COMPUTE = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
    STAGES_COPY = VK_PIPELINE_STAGE_TRANSFER_BIT,
    WRITES_COMPUTE = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    WRITES_COPY = VK_ACCESS_TRANSFER_WRITE_BIT,
    READS_COMPUTE = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                    VK_ACCESS_TRANSFER_WRITE_BIT,
    READS_COPY = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
};

rdg_err rdg_vk_list_create(rdg_device *base, int queue, int n_timestamps, rdg_list **out, rdg_error *e)
{
    vk_device *d = (vk_device *)base;
    vk_list *l = rdg_alloc(sizeof *l);
    if (!l) return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    l->base.device = base;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = (uint32_t)d->family[queue]};
    rdg_err rc =
        rdg_vk_check(d, d->fn.CreateCommandPool(d->handle, &pool, NULL, &l->pool), "vkCreateCommandPool", e);
    if (rc) goto fail;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = l->pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    rc = rdg_vk_check(d, d->fn.AllocateCommandBuffers(d->handle, &info, &l->commands),
                      "vkAllocateCommandBuffers", e);
    if (rc) goto fail;
    if (n_timestamps > 0) {
        VkQueryPoolCreateInfo q = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                   .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                   .queryCount = (uint32_t)n_timestamps};
        rc = rdg_vk_check(d, d->fn.CreateQueryPool(d->handle, &q, NULL, &l->queries), "vkCreateQueryPool", e);
        if (rc) goto fail;
    }
    *out = &l->base;
    return RDG_OK;
fail:
    rdg_vk_list_destroy(&l->base);
    return rc;
}

void rdg_vk_list_destroy(rdg_list *base)
{
    vk_list *l = (vk_list *)base;
    vk_device *d = (vk_device *)base->device;
    if (l->queries) d->fn.DestroyQueryPool(d->handle, l->queries, NULL);
    if (l->pool) d->fn.DestroyCommandPool(d->handle, l->pool, NULL);
    rdg_free(l);
}

rdg_err rdg_vk_list_begin(rdg_list *base, rdg_error *e)
{
    vk_list *l = (vk_list *)base;
    vk_device *d = (vk_device *)base->device;
    rdg_err rc = rdg_vk_check(d, d->fn.ResetCommandPool(d->handle, l->pool, 0), "vkResetCommandPool", e);
    if (rc) return rc;
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    rc = rdg_vk_check(d, d->fn.BeginCommandBuffer(l->commands, &info), "vkBeginCommandBuffer", e);
    if (rc) return rc;
    l->bound = VK_NULL_HANDLE;
    l->copied = l->narrow = false;
    if (l->queries) d->fn.CmdResetQueryPool(l->commands, l->queries, 0, (uint32_t)base->n_timestamps);
    /* Earlier submits of this queue come first. */
    bool compute = base->queue == 0;
    memory_barrier(d, l, compute ? STAGES_COMPUTE : STAGES_COPY, compute ? STAGES_COMPUTE : STAGES_COPY,
                   compute ? WRITES_COMPUTE : WRITES_COPY, compute ? READS_COMPUTE : READS_COPY);
    return RDG_OK;
}

rdg_err rdg_vk_dispatch(rdg_list *base, rdg_kernel *k, const void *push, const uint32_t grid[3], rdg_error *e)
{
    (void)e;
    vk_list *l = (vk_list *)base;
    vk_device *d = (vk_device *)base->device;
    VkPipeline pipeline = rdg_vk_kernel_pipeline(k);
    if (pipeline != l->bound) {
        d->fn.CmdBindPipeline(l->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        l->bound = pipeline;
    }
    if (k->push_bytes)
        d->fn.CmdPushConstants(l->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, k->push_bytes, push);
    d->fn.CmdDispatch(l->commands, grid[0], grid[1], grid[2]);
    return RDG_OK;
}

static void wide_barrier(vk_list *l)
{
    bool compute = l->base.queue == 0;
    memory_barrier((vk_device *)l->base.device, l, compute ? STAGES_COMPUTE : STAGES_COPY,
                   compute ? STAGES_COMPUTE : STAGES_COPY, compute ? WRITES_COMPUTE : WRITES_COPY,
                   compute ? READS_COMPUTE : READS_COPY);
    l->copied = l->narrow = false;
}

/* Between kernels the copy engine need not be waited for; a copy that comes after such a barrier widens it.
 */
rdg_err rdg_vk_barrier(rdg_list *base, rdg_error *e)
{
    (void)e;
    vk_list *l = (vk_list *)base;
    if (base->queue != 0 || l->copied) {
        wide_barrier(l);
        return RDG_OK;
    }
    memory_barrier((vk_device *)base->device, l, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                   VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    l->narrow = true;
    return RDG_OK;
}

static void before_copy(vk_list *l)
{
    if (l->narrow) wide_barrier(l);
    l->copied = true;
}

rdg_err rdg_vk_copy(rdg_list *base, rdg_buffer *dst, uint64_t dst_offset, rdg_buffer *src,
                    uint64_t src_offset, uint64_t bytes, rdg_error *e)
{
    (void)e;
    before_copy((vk_list *)base);
    VkBufferCopy region = {.srcOffset = src_offset, .dstOffset = dst_offset, .size = bytes};
    ((vk_device *)base->device)
        ->fn.CmdCopyBuffer(((vk_list *)base)->commands, rdg_vk_buffer_handle(src), rdg_vk_buffer_handle(dst),
                           1, &region);
    return RDG_OK;
}

rdg_err rdg_vk_fill(rdg_list *base, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word,
                    rdg_error *e)
{
    (void)e;
    before_copy((vk_list *)base);
    ((vk_device *)base->device)
        ->fn.CmdFillBuffer(((vk_list *)base)->commands, rdg_vk_buffer_handle(dst), offset, bytes, word);
    return RDG_OK;
}

/* Late: when all commands before it are over. Early: when the front end reads it, which on devices that drain
 * at a barrier is after the drain. */
rdg_err rdg_vk_timestamp(rdg_list *base, int slot, bool early, rdg_error *e)
{
    (void)e;
    vk_list *l = (vk_list *)base;
    ((vk_device *)base->device)
        ->fn.CmdWriteTimestamp(
            l->commands, early ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
            l->queries, (uint32_t)slot);
    return RDG_OK;
}

rdg_err rdg_vk_list_end(rdg_list *base, rdg_error *e)
{
    vk_list *l = (vk_list *)base;
    vk_device *d = (vk_device *)base->device;
    bool compute = base->queue == 0;
    memory_barrier(d, l, compute ? STAGES_COMPUTE : STAGES_COPY, VK_PIPELINE_STAGE_HOST_BIT,
                   compute ? WRITES_COMPUTE : WRITES_COPY, VK_ACCESS_HOST_READ_BIT);
    return rdg_vk_check(d, d->fn.EndCommandBuffer(l->commands), "vkEndCommandBuffer", e);
}

rdg_err rdg_vk_read_ticks(rdg_list *base, uint64_t *ticks, int n, rdg_error *e)
{
    vk_list *l = (vk_list *)base;
    vk_device *d = (vk_device *)base->device;
    return rdg_vk_check(d,
                        d->fn.GetQueryPoolResults(d->handle, l->queries, 0, (uint32_t)n, (size_t)n * 8, ticks,
                                                  8, VK_QUERY_RESULT_64_BIT),
                        "vkGetQueryPoolResults", e);
}
