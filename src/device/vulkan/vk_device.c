/* Which device, with which facts, and why. A device must offer Vulkan 1.3 with buffer device addresses,
 * 64-bit integers, 8- and 16-bit storage, timeline semaphores and subgroup size control: everything the
 * kernels are built on. Known faults of drivers are rows of the table `quirks`. */
#include "device/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 16 };

typedef struct quirk {
    VkDriverId driver;
    uint32_t clears; /* features that this driver reports and that must not be used */
    uint32_t sets;   /* what no driver reports and this one is known for */
    bool no_import;
    const char *why;
} quirk;

static const quirk quirks[] = {
    {VK_DRIVER_ID_MESA_LLVMPIPE, RDG_GPU_INT8_DOT, RDG_GPU_ORDERED_LAUNCHES, false,
     "a processor: packed 8-bit dot products are emulated one by one; a launch ends before the next begins"},
    {VK_DRIVER_ID_NVIDIA_PROPRIETARY, 0, RDG_GPU_ORDERED_LAUNCHES, true,
     "imported host memory is read over PCIe at each use: weights must be copied; one distributor hands out "
     "the workgroups of a queue, launch after launch"},
};

typedef struct features {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan13Features v13;
    rdg_vk_coopmat_features coopmat;
    VkPhysicalDeviceShaderClockFeaturesKHR clock;
} features;

static void chain(features *f, bool coopmat, bool clock)
{
    *f = (features){.core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2},
                    .v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES},
                    .v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES},
                    .v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES},
                    .coopmat = {.sType = RDG_VK_STRUCTURE_COOPMAT_FEATURES},
                    .clock = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR}};
    f->core.pNext = &f->v11;
    f->v11.pNext = &f->v12;
    f->v12.pNext = &f->v13;
    f->clock.pNext = coopmat ? &f->coopmat : NULL;
    f->v13.pNext = clock ? &f->clock : f->clock.pNext;
}

typedef struct candidate {
    VkPhysicalDevice physical;
    rdg_device_facts facts;
    VkDriverId driver;
    char missing[128]; /* empty: usable */
    bool coopmat, clock, external_host, memory_priority, memory_budget;
    int family[RDG_QUEUES];
} candidate;

static void copy_text(char *out, size_t n, const char *s)
{
    snprintf(out, n, "%s", s);
}

static bool has_extension(const VkExtensionProperties *rows, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(rows[i].extensionName, name)) return true;
    return false;
}

/* The first feature that is required and absent; NULL if all are there. */
static const char *missing_feature(const features *f)
{
    const struct {
        VkBool32 have;
        const char *name;
    } needs[] = {
        {f->core.features.shaderInt64, "shaderInt64"},
        {f->core.features.shaderInt16, "shaderInt16"},
        {f->v11.storageBuffer16BitAccess, "storageBuffer16BitAccess"},
        {f->v12.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
        {f->v12.shaderInt8, "shaderInt8"},
        {f->v12.bufferDeviceAddress, "bufferDeviceAddress"},
        {f->v12.timelineSemaphore, "timelineSemaphore"},
        {f->v12.scalarBlockLayout, "scalarBlockLayout"},
        {f->v12.vulkanMemoryModel, "vulkanMemoryModel"},
        {f->v13.subgroupSizeControl, "subgroupSizeControl"},
        {f->v13.computeFullSubgroups, "computeFullSubgroups"},
        {f->v13.maintenance4, "maintenance4"},
        {f->v13.shaderIntegerDotProduct, "shaderIntegerDotProduct"},
    };
    for (int i = 0; i < RDG_COUNTOF(needs); i++)
        if (!needs[i].have) return needs[i].name;
    return NULL;
}

static void find_queues(vk_instance *v, candidate *c)
{
    VkQueueFamilyProperties rows[16];
    uint32_t n = RDG_COUNTOF(rows);
    v->GetPhysicalDeviceQueueFamilyProperties(c->physical, &n, rows);
    c->family[0] = c->family[1] = -1;
    for (uint32_t i = 0; i < n; i++) {
        VkQueueFlags f = rows[i].queueFlags;
        if (c->family[0] < 0 && (f & VK_QUEUE_COMPUTE_BIT)) {
            c->family[0] = (int)i;
            c->facts.timestamp_bits = (int)rows[i].timestampValidBits;
            if (rows[i].timestampValidBits == 0) c->facts.timestamp_ns = 0;
        }
        /* A family that does transfers only is the copy engine; video queues say so with higher bits. */
        if (c->family[1] < 0 && (f & VK_QUEUE_TRANSFER_BIT) &&
            !(f & ~(VkQueueFlags)(VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT)))
            c->family[1] = (int)i;
    }
    if (c->family[1] < 0) c->family[1] = c->family[0];
    c->facts.n_queues = c->family[1] == c->family[0] ? 1 : 2;
}

static void matrix_facts(vk_instance *v, candidate *c)
{
    static const char *const types[] = {"f16", "f32", "f64", "s8",  "s16", "s32",
                                        "s64", "u8",  "u16", "u32", "u64"};
    rdg_vk_get_coopmat_fn get = (rdg_vk_get_coopmat_fn)v->GetInstanceProcAddr(
        v->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    rdg_vk_coopmat_properties rows[64];
    uint32_t n = RDG_COUNTOF(rows);
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < RDG_COUNTOF(rows); i++) rows[i].sType = RDG_VK_STRUCTURE_COOPMAT_PROPERTIES;
    if (!get || get(c->physical, &n, rows) < 0) return;
    for (uint32_t i = 0; i < n; i++) {
        const rdg_vk_coopmat_properties *r = &rows[i];
        if (r->scope != 3) continue;
        if (r->m == 16 && r->n == 16 && r->k == 16 && r->a_type == 0 && r->b_type == 0 && r->c_type == 1)
            c->facts.features |= RDG_GPU_MATRIX_F16;
        if (c->facts.n_matrix == RDG_MATRIX_SHAPES_MAX) continue;
        rdg_matrix_shape *s = &c->facts.matrix[c->facts.n_matrix++];
        *s = (rdg_matrix_shape){.m = (int)r->m, .n = (int)r->n, .k = (int)r->k};
        bool named = r->a_type >= 0 && r->a_type < RDG_COUNTOF(types) && r->c_type >= 0 &&
                     r->c_type < RDG_COUNTOF(types);
        snprintf(s->types, sizeof s->types, "%s->%s", named ? types[r->a_type] : "other",
                 named ? types[r->c_type] : "other");
    }
}

static void memory_facts(vk_instance *v, candidate *c)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                           .pNext = c->memory_budget ? &budget : NULL};
    v->GetPhysicalDeviceMemoryProperties2(c->physical, &p);
    const VkPhysicalDeviceMemoryProperties m = p.memoryProperties;
    const VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                       VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    rdg_device_facts *f = &c->facts;
    bool all_local = true;
    for (uint32_t i = 0; i < m.memoryHeapCount; i++) {
        if (!(m.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) {
            all_local = false;
        } else if (m.memoryHeaps[i].size > f->memory_bytes) {
            f->memory_bytes = f->free_bytes = m.memoryHeaps[i].size;
            uint64_t may = budget.heapBudget[i], used = budget.heapUsage[i];
            if (c->memory_budget && may > 0)
                f->free_bytes = RDG_MIN(may > used ? may - used : 0, f->memory_bytes);
        }
    }
    for (uint32_t i = 0; i < m.memoryTypeCount; i++) {
        uint64_t heap = m.memoryHeaps[m.memoryTypes[i].heapIndex].size;
        VkMemoryPropertyFlags flags = m.memoryTypes[i].propertyFlags;
        if (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)
            f->host_memory_bytes = RDG_MAX(f->host_memory_bytes, heap);
        if ((flags & both) == both && heap >= f->memory_bytes) f->maps_device_memory = true;
    }
    f->unified = all_local && f->maps_device_memory;
}

static void inspect(vk_instance *v, VkPhysicalDevice physical, int index, candidate *c)
{
    static const char *const kinds[] = {"other", "integrated", "discrete", "virtual", "cpu"};
    *c = (candidate){.physical = physical};
    VkPhysicalDeviceVulkan13Properties v13 = {.sType =
                                                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceVulkan12Properties v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &v13};
    VkPhysicalDeviceVulkan11Properties v11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &v12};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v11};
    VkExtensionProperties *extensions = NULL;
    uint32_t n = 0;
    if (!v->EnumerateDeviceExtensionProperties(physical, NULL, &n, NULL) && n > 0) {
        extensions = rdg_alloc_array(n, sizeof *extensions);
        if (!extensions || v->EnumerateDeviceExtensionProperties(physical, NULL, &n, extensions) < 0) n = 0;
    }
    c->coopmat = has_extension(extensions, n, "VK_KHR_cooperative_matrix");
    c->clock = has_extension(extensions, n, VK_KHR_SHADER_CLOCK_EXTENSION_NAME);
    c->external_host = has_extension(extensions, n, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    c->memory_budget = has_extension(extensions, n, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    rdg_free(extensions);
    if (c->external_host) v13.pNext = &host;
    v->GetPhysicalDeviceProperties2(physical, &p);
    const VkPhysicalDeviceLimits *lim = &p.properties.limits;
    rdg_device_facts *f = &c->facts;
    c->driver = v12.driverID;
    f->index = index;
    copy_text(f->backend, sizeof f->backend, "vulkan");
    copy_text(f->name, sizeof f->name, p.properties.deviceName);
    snprintf(f->driver, sizeof f->driver, "%.120s %.120s", v12.driverName, v12.driverInfo);
    snprintf(f->api, sizeof f->api, "%u.%u.%u", VK_API_VERSION_MAJOR(p.properties.apiVersion),
             VK_API_VERSION_MINOR(p.properties.apiVersion), VK_API_VERSION_PATCH(p.properties.apiVersion));
    unsigned kind = (unsigned)p.properties.deviceType;
    copy_text(f->kind, sizeof f->kind, kinds[kind < RDG_COUNTOF(kinds) ? kind : 0]);
    if (p.properties.apiVersion < VK_API_VERSION_1_3) {
        snprintf(c->missing, sizeof c->missing, "it offers Vulkan %s; 1.3 is needed", f->api);
        return;
    }
    features have;
    chain(&have, c->coopmat, c->clock);
    v->GetPhysicalDeviceFeatures2(physical, &have.core);
    c->coopmat = c->coopmat && have.coopmat.cooperativeMatrix;
    const char *lack = missing_feature(&have);
    if (lack) snprintf(c->missing, sizeof c->missing, "it lacks the feature %s", lack);

    f->subgroup_width = v11.subgroupSize;
    f->subgroup_min = v13.minSubgroupSize;
    f->subgroup_max = v13.maxSubgroupSize;
    f->shared_bytes = lim->maxComputeSharedMemorySize;
    f->workgroup_max = lim->maxComputeWorkGroupInvocations;
    f->push_bytes = lim->maxPushConstantsSize;
    for (int i = 0; i < 3; i++) f->grid_max[i] = lim->maxComputeWorkGroupCount[i];
    f->timestamp_ns = lim->timestampPeriod;
    f->imports_host_memory = c->external_host;
    f->import_alignment = host.minImportedHostPointerAlignment;
    if (!c->missing[0] && !(v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT))
        copy_text(c->missing, sizeof c->missing, "it cannot fix the subgroup width of compute kernels");
    const VkSubgroupFeatureFlags ops =
        VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if (!c->missing[0] && (v11.subgroupSupportedOperations & ops) != ops)
        copy_text(c->missing, sizeof c->missing, "it lacks subgroup arithmetic or shuffles");
    if (have.v12.shaderFloat16) f->features |= RDG_GPU_FLOAT16;
    if (have.v13.shaderIntegerDotProduct) f->features |= RDG_GPU_INT8_DOT_ANY;
    if (v13.integerDotProduct4x8BitPackedSignedAccelerated) f->features |= RDG_GPU_INT8_DOT;
    if (f->subgroup_min <= 32 && f->subgroup_max >= 32) f->features |= RDG_GPU_SUBGROUP_32;
    if (f->shared_bytes >= 49152) f->features |= RDG_GPU_SHARED_48K;
    if (c->clock && have.clock.shaderDeviceClock) f->features |= RDG_GPU_CLOCK;
    memory_facts(v, c);
    find_queues(v, c);
    if (!c->missing[0] && c->family[0] < 0)
        copy_text(c->missing, sizeof c->missing, "it has no compute queue");
    if (c->coopmat) matrix_facts(v, c);
    for (int i = 0; i < RDG_COUNTOF(quirks); i++) {
        if (quirks[i].driver != c->driver) continue;
        f->features = (f->features & ~quirks[i].clears) | quirks[i].sets;
        if (quirks[i].no_import) f->imports_host_memory = false;
    }
}

static rdg_err inspect_all(vk_instance *v, candidate *c, int *n, rdg_error *e)
{
    VkPhysicalDevice physical[MAX_DEVICES];
    uint32_t count = MAX_DEVICES;
    *n = 0;
    VkResult r = v->EnumeratePhysicalDevices(v->handle, &count, physical);
    if (r < 0)
        return rdg_fail(e, RDG_E_NOT_FOUND, "vulkan: devices cannot be listed: %s", rdg_vk_result_name(r));
    for (uint32_t i = 0; i < count; i++) inspect(v, physical[i], (int)i, &c[i]);
    *n = (int)count;
    return RDG_OK;
}

/* Discrete before integrated before the rest; more memory first among equals. Writes the reason into the
 * choice. */
static int choose(candidate *c, int n, int wanted)
{
    static const char *const order[] = {"discrete", "integrated", "virtual", "other", "cpu"};
    int best = -1, best_rank = 99;
    for (int i = 0; i < n; i++) {
        if (c[i].missing[0]) continue;
        int rank = 0;
        while (rank < RDG_COUNTOF(order) && strcmp(order[rank], c[i].facts.kind)) rank++;
        bool better =
            rank < best_rank || (rank == best_rank && c[i].facts.memory_bytes > c[best].facts.memory_bytes);
        if (wanted >= 0 ? i == wanted : better) best = i, best_rank = rank;
    }
    if (best < 0) return -1;
    rdg_device_facts *f = &c[best].facts;
    size_t used = (size_t)snprintf(f->reason, sizeof f->reason, "%s",
                                   wanted >= 0 ? "asked for by number"
                                   : n == 1    ? "the only device"
                                               : "discrete before integrated, then the largest memory");
    for (int i = 0; i < n && used < sizeof f->reason; i++) {
        if (i == best) continue;
        int m = snprintf(f->reason + used, sizeof f->reason - used, "; passed over vulkan:%d %s (%s)", i,
                         c[i].facts.name, c[i].missing[0] ? c[i].missing : c[i].facts.kind);
        if (m > 0) used += (size_t)m;
    }
    return best;
}

static rdg_err vk_enumerate(rdg_device_facts *out, int cap, int *n, rdg_buf *notes, rdg_error *e)
{
    *n = 0;
    vk_instance *v;
    rdg_error why;
    candidate *c = rdg_alloc_array(MAX_DEVICES, sizeof *c);
    if (!c) return rdg_fail(e, RDG_E_NOMEM, "no memory to list devices");
    int count = 0;
    if (rdg_vk_instance_create(false, &v, &why)) {
        if (notes) rdg_buf_printf(notes, "%s\n", why.message);
        rdg_free(c);
        return RDG_OK;
    }
    if (inspect_all(v, c, &count, &why) && notes) rdg_buf_printf(notes, "%s\n", why.message);
    for (int i = 0; i < count; i++) {
        if (c[i].missing[0]) {
            if (notes)
                rdg_buf_printf(notes, "vulkan:%d %s is not usable: %s\n", i, c[i].facts.name, c[i].missing);
        } else if (*n < cap) {
            out[(*n)++] = c[i].facts;
        }
    }
    rdg_vk_instance_destroy(v);
    rdg_free(c);
    return RDG_OK;
}

static void vk_close(rdg_device *base)
{
    vk_device *d = (vk_device *)base;
    if (d->handle) {
        if (d->fn.DeviceWaitIdle && !d->base.lost) d->fn.DeviceWaitIdle(d->handle);
        if (d->cache) rdg_vk_cache_close(d);
        if (d->layout) d->fn.DestroyPipelineLayout(d->handle, d->layout, NULL);
        for (int q = 0; q < RDG_QUEUES; q++)
            if (d->timeline[q]) d->fn.DestroySemaphore(d->handle, d->timeline[q], NULL);
        if (d->fn.DestroyDevice) d->fn.DestroyDevice(d->handle, NULL);
    }
    rdg_vk_instance_destroy(d->instance);
    rdg_free(d->cache_path);
    rdg_free(d);
}

static rdg_err create_handle(vk_device *d, const candidate *c, rdg_error *e)
{
    features on;
    bool clock = c->facts.features & RDG_GPU_CLOCK;
    chain(&on, c->coopmat, clock);
    features have;
    chain(&have, c->coopmat, clock);
    d->instance->GetPhysicalDeviceFeatures2(d->physical, &have.core);
    on.core.features.shaderInt64 = on.core.features.shaderInt16 = VK_TRUE;
    on.v11.storageBuffer16BitAccess = VK_TRUE;
    on.v12.storageBuffer8BitAccess = on.v12.shaderInt8 = on.v12.bufferDeviceAddress = VK_TRUE;
    on.v12.timelineSemaphore = on.v12.scalarBlockLayout = on.v12.vulkanMemoryModel = VK_TRUE;
    on.v12.vulkanMemoryModelDeviceScope = have.v12.vulkanMemoryModelDeviceScope;
    on.v12.shaderFloat16 = have.v12.shaderFloat16;
    on.v13.subgroupSizeControl = on.v13.computeFullSubgroups = on.v13.maintenance4 = VK_TRUE;
    on.v13.shaderIntegerDotProduct = VK_TRUE;
    on.coopmat.cooperativeMatrix = c->coopmat;
    on.clock.shaderDeviceClock = clock;

    const char *extensions[3];
    uint32_t n_extensions = 0;
    if (c->coopmat) extensions[n_extensions++] = "VK_KHR_cooperative_matrix";
    if (clock) extensions[n_extensions++] = VK_KHR_SHADER_CLOCK_EXTENSION_NAME;
    if (c->facts.imports_host_memory) extensions[n_extensions++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    const float priority[2] = {1.0f, 1.0f};
    VkDeviceQueueCreateInfo queues[RDG_QUEUES];
    for (int q = 0; q < RDG_QUEUES; q++)
        queues[q] = (VkDeviceQueueCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                              .queueFamilyIndex = (uint32_t)c->family[q],
                                              .queueCount = 1,
                                              .pQueuePriorities = priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &on.core,
                               .queueCreateInfoCount = (uint32_t)c->facts.n_queues,
                               .pQueueCreateInfos = queues,
                               .enabledExtensionCount = n_extensions,
                               .ppEnabledExtensionNames = extensions};
    rdg_err rc =
        rdg_vk_check(d, d->instance->CreateDevice(d->physical, &info, NULL, &d->handle), "vkCreateDevice", e);
    if (rc) return rc;
    rc = rdg_vk_load_device(d, e);
    if (rc) return rc;
    for (int q = 0; q < RDG_QUEUES; q++) {
        d->family[q] = c->family[q];
        d->fn.GetDeviceQueue(d->handle, (uint32_t)c->family[q], 0, &d->queue[q]);
    }
    for (int q = 0; q < c->facts.n_queues; q++) {
        VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                          .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
        VkSemaphoreCreateInfo s = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
        rc = rdg_vk_check(d, d->fn.CreateSemaphore(d->handle, &s, NULL, &d->timeline[q]), "vkCreateSemaphore",
                          e);
        if (rc) return rc;
    }
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = RDG_PUSH_BYTES_MAX};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    return rdg_vk_check(d, d->fn.CreatePipelineLayout(d->handle, &layout, NULL, &d->layout),
                        "vkCreatePipelineLayout", e);
}

static rdg_err vk_open(int index, const rdg_device_options *o, rdg_device **out, rdg_error *e)
{
    vk_device *d = rdg_alloc(sizeof *d);
    candidate *c = rdg_alloc_array(MAX_DEVICES, sizeof *c);
    rdg_err rc = RDG_OK;
    int n = 0;
    if (!d || !c) {
        rc = rdg_fail(e, RDG_E_NOMEM, "no memory for a device");
        goto done;
    }
    rc = rdg_vk_instance_create(o->validation, &d->instance, e);
    if (!rc) rc = inspect_all(d->instance, c, &n, e);
    if (rc) goto done;
    int pick = choose(c, n, index);
    if (pick < 0) {
        rc = n == 0 ? rdg_fail(e, RDG_E_NOT_FOUND,
                               "vulkan: no device; is the GPU's driver installed? (Lavapipe, package "
                               "mesa-vulkan-drivers, runs the kernels on the processor)")
             : index >= n
                 ? rdg_fail(e, RDG_E_NOT_FOUND,
                            "vulkan:%d: the last one is vulkan:%d; `ridge devices` lists them", index, n - 1)
                 : rdg_fail(e, RDG_E_UNSUPPORTED, "vulkan:%d %s is not usable: %s", RDG_MAX(index, 0),
                            c[RDG_MAX(index, 0)].facts.name, c[RDG_MAX(index, 0)].missing);
        goto done;
    }
    d->base.facts = c[pick].facts;
    d->physical = c[pick].physical;
    d->instance->GetPhysicalDeviceMemoryProperties(d->physical, &d->memory);
    rc = create_handle(d, &c[pick], e);
    if (!rc) rc = rdg_vk_cache_open(d, o->cache_dir, e);
done:
    rdg_free(c);
    if (rc && d) {
        vk_close(&d->base);
        d = NULL;
    }
    *out = d ? &d->base : NULL;
    return rc;
}

const rdg_backend_api rdg_vulkan_backend = {
    .name = "vulkan",
    .enumerate = vk_enumerate,
    .open = vk_open,
    .close = vk_close,
    .buffer_create = rdg_vk_buffer_create,
    .buffer_import = rdg_vk_buffer_import,
    .buffer_destroy = rdg_vk_buffer_destroy,
    .kernel_create = rdg_vk_kernel_create,
    .kernel_destroy = rdg_vk_kernel_destroy,
    .list_create = rdg_vk_list_create,
    .list_destroy = rdg_vk_list_destroy,
    .list_begin = rdg_vk_list_begin,
    .dispatch = rdg_vk_dispatch,
    .barrier = rdg_vk_barrier,
    .copy = rdg_vk_copy,
    .fill = rdg_vk_fill,
    .timestamp = rdg_vk_timestamp,
    .list_end = rdg_vk_list_end,
    .read_ticks = rdg_vk_read_ticks,
    .submit = rdg_vk_submit,
    .poll = rdg_vk_poll,
    .wait = rdg_vk_wait,
};
