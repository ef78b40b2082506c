/* Memory types. One allocation a buffer: the layers above make few, large buffers. */
#include "device/vulkan/vk.h"

typedef struct vk_buffer {
    rdg_buffer base;
    VkBuffer handle;
    VkDeviceMemory memory;
} vk_buffer;

VkBuffer rdg_vk_buffer_handle(const rdg_buffer *b)
{
    return ((const vk_buffer *)b)->handle;
}

int rdg_vk_memory_type(const VkPhysicalDeviceMemoryProperties *p, uint32_t mask, VkMemoryPropertyFlags want,
                       VkMemoryPropertyFlags avoid)
{
    for (uint32_t i = 0; i < p->memoryTypeCount; i++) {
        VkMemoryPropertyFlags f = p->memoryTypes[i].propertyFlags;
        if ((mask >> i & 1) && (f & want) == want && !(f & avoid)) return (int)i;
    }
    return -1;
}

/* What to ask for, best first. */
typedef struct memory_wish {
    rdg_memory memory;
    VkMemoryPropertyFlags want, avoid;
} memory_wish;

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    MAPPED = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
};
static const memory_wish wishes[] = {
    {RDG_MEMORY_DEVICE, LOCAL, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT},
    {RDG_MEMORY_DEVICE, LOCAL, 0},
    {RDG_MEMORY_DEVICE, 0, 0},
    {RDG_MEMORY_SHARED, LOCAL | MAPPED, 0},
    {RDG_MEMORY_SHARED, MAPPED, 0},
    {RDG_MEMORY_UPLOAD, MAPPED, LOCAL | CACHED},
    {RDG_MEMORY_UPLOAD, MAPPED, LOCAL},
    {RDG_MEMORY_UPLOAD, MAPPED, 0},
    {RDG_MEMORY_READBACK, MAPPED | CACHED, LOCAL},
    {RDG_MEMORY_READBACK, MAPPED | CACHED, 0},
    {RDG_MEMORY_READBACK, MAPPED, 0},
};

/* A large allocation says that it is for one buffer: on an H200 4.9 GB take 3 ms then and 85 ms otherwise
 * (driver 580.159.04, 2026-11-30), whatever the number of pieces. */
enum { DEDICATED_BYTES = 1 << 20 };

static rdg_err create_handle(vk_device *d, vk_buffer *b, uint64_t bytes, const void *next,
                             VkMemoryRequirements *need, rdg_error *e)
{
    const uint32_t families[2] = {(uint32_t)d->family[0], (uint32_t)d->family[1]};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .pNext = next,
                               .size = bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                        VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    if (d->base.facts.n_queues > 1) { /* both queues may touch any buffer */
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    rdg_err rc = rdg_vk_check(d, d->fn.CreateBuffer(d->handle, &info, NULL, &b->handle), "vkCreateBuffer", e);
    if (!rc) d->fn.GetBufferMemoryRequirements(d->handle, b->handle, need);
    return rc;
}

static rdg_err allocate(vk_device *d, vk_buffer *b, uint64_t bytes, int type, const void *next, rdg_error *e)
{
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .pNext = next,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &flags,
                                 .allocationSize = bytes,
                                 .memoryTypeIndex = (uint32_t)type};
    rdg_err rc =
        rdg_vk_check(d, d->fn.AllocateMemory(d->handle, &info, NULL, &b->memory), "vkAllocateMemory", e);
    if (rc) return rc;
    rc = rdg_vk_check(d, d->fn.BindBufferMemory(d->handle, b->handle, b->memory, 0), "vkBindBufferMemory", e);
    if (rc) { /* the next wish allocates anew */
        d->fn.FreeMemory(d->handle, b->memory, NULL);
        b->memory = VK_NULL_HANDLE;
        return rc;
    }
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                         .buffer = b->handle};
    b->base.address = d->fn.GetBufferDeviceAddress(d->handle, &address);
    return RDG_OK;
}

rdg_err rdg_vk_buffer_create(rdg_device *base, rdg_memory m, uint64_t bytes, rdg_buffer **out, rdg_error *e)
{
    vk_device *d = (vk_device *)base;
    vk_buffer *b = rdg_alloc(sizeof *b);
    if (!b) return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    b->base.device = base;
    VkMemoryRequirements need;
    rdg_err rc = create_handle(d, b, (uint64_t)rdg_round_up((int64_t)bytes, 4), NULL, &need, e);
    if (rc) goto fail;
    rc = RDG_E_NOMEM;
    for (int i = 0; i < RDG_COUNTOF(wishes) && rc == RDG_E_NOMEM; i++) {
        if (wishes[i].memory != m) continue;
        int type = rdg_vk_memory_type(&d->memory, need.memoryTypeBits, wishes[i].want, wishes[i].avoid);
        if (type < 0) continue;
        /* A device heap that is full is an error for weights, not a reason to creep into host memory. */
        if (m == RDG_MEMORY_DEVICE && wishes[i].want == 0 &&
            rdg_vk_memory_type(&d->memory, need.memoryTypeBits, LOCAL, 0) >= 0)
            continue;
        const VkMemoryDedicatedAllocateInfo dedicated = {
            .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, .buffer = b->handle};
        rc = allocate(d, b, need.size, type, need.size >= DEDICATED_BYTES ? &dedicated : NULL, e);
        if (rc) continue;
        if ((d->memory.memoryTypes[type].propertyFlags & MAPPED) == MAPPED &&
            (m != RDG_MEMORY_DEVICE || d->base.facts.unified))
            rc = rdg_vk_check(d, d->fn.MapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &b->base.host),
                              "vkMapMemory", e);
        break; /* bound: no other memory can take its place */
    }
    if (rc) goto fail;
    *out = &b->base;
    return RDG_OK;
fail:
    rdg_vk_buffer_destroy(&b->base);
    return rc == RDG_E_NOMEM
               ? rdg_fail(
                     e, RDG_E_NOMEM,
                     "device memory is exhausted: fewer blocks on it (--gpu-layers), a smaller context or "
                     "batch")
               : rc;
}

rdg_err rdg_vk_buffer_import(rdg_device *base, void *host, uint64_t bytes, rdg_buffer **out, rdg_error *e)
{
    vk_device *d = (vk_device *)base;
    vk_buffer *b = rdg_alloc(sizeof *b);
    if (!b) return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    b->base.device = base;
    const VkExternalMemoryHandleTypeFlagBits handle = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    VkMemoryHostPointerPropertiesEXT p = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    rdg_err rc = rdg_vk_check(d, d->fn.GetMemoryHostPointerPropertiesEXT(d->handle, handle, host, &p),
                              "vkGetMemoryHostPointerPropertiesEXT", e);
    VkMemoryRequirements need;
    VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = handle};
    if (!rc) rc = create_handle(d, b, bytes, &external, &need, e);
    if (rc) goto fail;
    int type = rdg_vk_memory_type(&d->memory, need.memoryTypeBits & p.memoryTypeBits, 0, 0);
    if (type < 0) {
        rc =
            rdg_fail(e, RDG_E_UNSUPPORTED, "no memory type of %s takes this host memory", d->base.facts.name);
        goto fail;
    }
    VkImportMemoryHostPointerInfoEXT import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                               .handleType = handle,
                                               .pHostPointer = host};
    rc = allocate(d, b, bytes, type, &import, e);
    if (rc) goto fail;
    b->base.host = host;
    *out = &b->base;
    return RDG_OK;
fail:
    rdg_vk_buffer_destroy(&b->base);
    return rc;
}

void rdg_vk_buffer_destroy(rdg_buffer *base)
{
    vk_buffer *b = (vk_buffer *)base;
    vk_device *d = (vk_device *)base->device;
    if (b->handle) d->fn.DestroyBuffer(d->handle, b->handle, NULL);
    if (b->memory) d->fn.FreeMemory(d->handle, b->memory, NULL);
    rdg_free(b);
}
