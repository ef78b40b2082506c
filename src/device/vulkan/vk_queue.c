/* One timeline semaphore a queue. The CPU waits for values, never for a whole queue. */
#include "device/vulkan/vk.h"

enum { MAX_WAITS = 8 };

rdg_err rdg_vk_submit(rdg_device *base, rdg_list *l, const rdg_event *waits, int n_waits, uint64_t value,
                      rdg_error *e)
{
    vk_device *d = (vk_device *)base;
    VkSemaphore semaphores[MAX_WAITS];
    VkPipelineStageFlags stages[MAX_WAITS];
    uint64_t values[MAX_WAITS];
    uint32_t n = 0;
    if (n_waits > MAX_WAITS) return rdg_fail(e, RDG_E_LIMIT, "%d waits; %d are possible", n_waits, MAX_WAITS);
    for (int i = 0; i < n_waits; i++) {
        if (waits[i].value == 0 || waits[i].queue == l->queue)
            continue; /* one queue runs its lists in order */
        semaphores[n] = d->timeline[waits[i].queue];
        stages[n] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
        values[n++] = waits[i].value;
    }
    VkCommandBuffer commands = rdg_vk_list_commands(l);
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .waitSemaphoreValueCount = n,
                                              .pWaitSemaphoreValues = values,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &value};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .waitSemaphoreCount = n,
                         .pWaitSemaphores = semaphores,
                         .pWaitDstStageMask = stages,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &commands,
                         .signalSemaphoreCount = 1,
                         .pSignalSemaphores = &d->timeline[l->queue]};
    return rdg_vk_check(d, d->fn.QueueSubmit(d->queue[l->queue], 1, &info, VK_NULL_HANDLE), "vkQueueSubmit",
                        e);
}

rdg_err rdg_vk_poll(rdg_device *base, int queue, uint64_t *value, rdg_error *e)
{
    vk_device *d = (vk_device *)base;
    return rdg_vk_check(d, d->fn.GetSemaphoreCounterValue(d->handle, d->timeline[queue], value),
                        "vkGetSemaphoreCounterValue", e);
}

rdg_err rdg_vk_wait(rdg_device *base, int queue, uint64_t value, int64_t timeout_ns, rdg_error *e)
{
    vk_device *d = (vk_device *)base;
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &d->timeline[queue],
                                .pValues = &value};
    VkResult r = d->fn.WaitSemaphores(d->handle, &info, timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns);
    if (r == VK_TIMEOUT)
        return rdg_fail(e, RDG_E_TIMEOUT, "%s has not finished after %.1f s", d->base.facts.name,
                        (double)timeout_ns * 1e-9);
    return rdg_vk_check(d, r, "vkWaitSemaphores", e);
}
