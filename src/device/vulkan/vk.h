/* Inside the Vulkan backend. Every function is reached through a table filled at run time: nothing links to
 * libvulkan. */
#ifndef RDG_DEVICE_VULKAN_VK_H
#define RDG_DEVICE_VULKAN_VK_H

#define VK_NO_PROTOTYPES 1
#include <vulkan/vulkan.h>

#include "device/backend.h"

/* Not in headers of 2022; values are the registry's. */
#define RDG_VK_STRUCTURE_COOPMAT_FEATURES   ((VkStructureType)1000506000)
#define RDG_VK_STRUCTURE_COOPMAT_PROPERTIES ((VkStructureType)1000506001)
typedef struct rdg_vk_coopmat_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} rdg_vk_coopmat_features;
typedef struct rdg_vk_coopmat_properties {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    int32_t a_type, b_type, c_type,
        result_type; /* VkComponentTypeKHR: 0 f16, 1 f32, 3 s8, 5 s32, 7 u8, 9 u32 */
    VkBool32 saturating;
    int32_t scope; /* 3 = subgroup */
} rdg_vk_coopmat_properties;
typedef VkResult(VKAPI_PTR *rdg_vk_get_coopmat_fn)(VkPhysicalDevice, uint32_t *, rdg_vk_coopmat_properties *);

#define VK_INSTANCE_FUNCTIONS(X)                                                                             \
    X(DestroyInstance)                                                                                       \
    X(EnumeratePhysicalDevices)                                                                              \
    X(GetPhysicalDeviceProperties2)                                                                          \
    X(GetPhysicalDeviceFeatures2)                                                                            \
    X(GetPhysicalDeviceMemoryProperties)                                                                     \
    X(GetPhysicalDeviceMemoryProperties2)                                                                    \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                \
    X(EnumerateDeviceExtensionProperties)                                                                    \
    X(CreateDevice)                                                                                          \
    X(GetDeviceProcAddr)

#define VK_DEVICE_FUNCTIONS(X)                                                                               \
    X(DestroyDevice)                                                                                         \
    X(DeviceWaitIdle)                                                                                        \
    X(GetDeviceQueue)                                                                                        \
    X(QueueSubmit)                                                                                           \
    X(CreateBuffer)                                                                                          \
    X(DestroyBuffer)                                                                                         \
    X(GetBufferMemoryRequirements)                                                                           \
    X(GetBufferDeviceAddress)                                                                                \
    X(AllocateMemory)                                                                                        \
    X(FreeMemory)                                                                                            \
    X(BindBufferMemory)                                                                                      \
    X(MapMemory)                                                                                             \
    X(CreateShaderModule)                                                                                    \
    X(DestroyShaderModule)                                                                                   \
    X(CreatePipelineLayout)                                                                                  \
    X(DestroyPipelineLayout)                                                                                 \
    X(CreateComputePipelines)                                                                                \
    X(DestroyPipeline)                                                                                       \
    X(CreatePipelineCache)                                                                                   \
    X(DestroyPipelineCache)                                                                                  \
    X(GetPipelineCacheData)                                                                                  \
    X(CreateCommandPool)                                                                                     \
    X(DestroyCommandPool)                                                                                    \
    X(ResetCommandPool)                                                                                      \
    X(AllocateCommandBuffers)                                                                                \
    X(BeginCommandBuffer)                                                                                    \
    X(EndCommandBuffer)                                                                                      \
    X(CmdBindPipeline)                                                                                       \
    X(CmdPushConstants)                                                                                      \
    X(CmdDispatch)                                                                                           \
    X(CmdPipelineBarrier)                                                                                    \
    X(CmdCopyBuffer)                                                                                         \
    X(CmdFillBuffer)                                                                                         \
    X(CmdWriteTimestamp)                                                                                     \
    X(CmdResetQueryPool)                                                                                     \
    X(CreateQueryPool)                                                                                       \
    X(DestroyQueryPool)                                                                                      \
    X(GetQueryPoolResults)                                                                                   \
    X(CreateSemaphore)                                                                                       \
    X(DestroySemaphore)                                                                                      \
    X(GetSemaphoreCounterValue)                                                                              \
    X(WaitSemaphores)

typedef struct vk_instance {
    void *library;
    VkInstance handle;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
    VK_INSTANCE_FUNCTIONS(X)
#undef X
    VkDebugUtilsMessengerEXT messenger;
    uint32_t version;
    /* First validation message, kept for the next call that can report it. */
    char complaint[768];
    int n_complaints;
} vk_instance;

typedef struct vk_fn {
#define X(name) PFN_vk##name name;
    VK_DEVICE_FUNCTIONS(X)
#undef X
    PFN_vkGetMemoryHostPointerPropertiesEXT
        GetMemoryHostPointerPropertiesEXT; /* NULL without the extension */
} vk_fn;

typedef struct vk_device {
    rdg_device base;
    vk_instance *instance;
    VkPhysicalDevice physical;
    VkDevice handle;
    vk_fn fn;
    VkPhysicalDeviceMemoryProperties memory;
    int family[RDG_QUEUES]; /* queue families; equal when there is one queue */
    VkQueue queue[RDG_QUEUES];
    VkSemaphore timeline[RDG_QUEUES];
    VkPipelineLayout layout; /* no descriptors; 128 bytes of push constants */
    VkPipelineCache cache;
    size_t cache_bytes; /* as loaded */
    char *cache_path;
    bool memory_priority;
} vk_device;

/* vk_loader.c */
rdg_err rdg_vk_instance_create(bool validation, vk_instance **out,
                               rdg_error *e); /* NOT_FOUND: what is missing */
void rdg_vk_instance_destroy(vk_instance *v);
rdg_err rdg_vk_load_device(vk_device *d, rdg_error *e);
const char *rdg_vk_result_name(VkResult r);
/* RDG_OK for VK_SUCCESS; otherwise fills e. A validation message turns success into an error as well. */
rdg_err rdg_vk_check(vk_device *d, VkResult r, const char *call, rdg_error *e);

/* vk_memory.c */
rdg_err rdg_vk_buffer_create(rdg_device *d, rdg_memory m, uint64_t bytes, rdg_buffer **out, rdg_error *e);
rdg_err rdg_vk_buffer_import(rdg_device *d, void *host, uint64_t bytes, rdg_buffer **out, rdg_error *e);
void rdg_vk_buffer_destroy(rdg_buffer *b);
VkBuffer rdg_vk_buffer_handle(const rdg_buffer *b);
/* Index of the first memory type allowed by mask with all of `want` and none of `avoid`, or -1. */
int rdg_vk_memory_type(const VkPhysicalDeviceMemoryProperties *p, uint32_t mask, VkMemoryPropertyFlags want,
                       VkMemoryPropertyFlags avoid);

/* vk_pipeline.c */
rdg_err rdg_vk_cache_open(vk_device *d, const char *dir, rdg_error *e);
void rdg_vk_cache_close(vk_device *d); /* writes what is new */
rdg_err rdg_vk_kernel_create(rdg_device *d, const rdg_kernel_desc *desc, rdg_kernel **out, rdg_error *e);
void rdg_vk_kernel_destroy(rdg_kernel *k);
VkPipeline rdg_vk_kernel_pipeline(const rdg_kernel *k);

/* vk_list.c */
rdg_err rdg_vk_list_create(rdg_device *d, int queue, int n_timestamps, rdg_list **out, rdg_error *e);
void rdg_vk_list_destroy(rdg_list *l);
rdg_err rdg_vk_list_begin(rdg_list *l, rdg_error *e);
rdg_err rdg_vk_dispatch(rdg_list *l, rdg_kernel *k, const void *push, const uint32_t grid[3], rdg_error *e);
rdg_err rdg_vk_barrier(rdg_list *l, rdg_error *e);
rdg_err rdg_vk_copy(rdg_list *l, rdg_buffer *dst, uint64_t dst_offset, rdg_buffer *src, uint64_t src_offset,
                    uint64_t bytes, rdg_error *e);
rdg_err rdg_vk_fill(rdg_list *l, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word,
                    rdg_error *e);
rdg_err rdg_vk_timestamp(rdg_list *l, int slot, bool early, rdg_error *e);
rdg_err rdg_vk_list_end(rdg_list *l, rdg_error *e);
rdg_err rdg_vk_read_ticks(rdg_list *l, uint64_t *ticks, int n, rdg_error *e);
VkCommandBuffer rdg_vk_list_commands(const rdg_list *l);

/* vk_queue.c */
rdg_err rdg_vk_submit(rdg_device *d, rdg_list *l, const rdg_event *waits, int n_waits, uint64_t value,
                      rdg_error *e);
rdg_err rdg_vk_poll(rdg_device *d, int queue, uint64_t *value, rdg_error *e);
rdg_err rdg_vk_wait(rdg_device *d, int queue, uint64_t value, int64_t timeout_ns, rdg_error *e);

#endif
