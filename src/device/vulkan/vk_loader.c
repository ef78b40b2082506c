/* libvulkan at run time: opens the loader, makes an instance, fills the function tables. */
#include "device/vulkan/vk.h"

#include <dlfcn.h>
#include <string.h>

const char *rdg_vk_result_name(VkResult r)
{
    static const struct {
        VkResult result;
        const char *name;
    } names[] = {
        {VK_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"},
        {VK_ERROR_INITIALIZATION_FAILED, "initialisation failed"},
        {VK_ERROR_DEVICE_LOST, "device lost"},
        {VK_ERROR_MEMORY_MAP_FAILED, "mapping failed"},
        {VK_ERROR_LAYER_NOT_PRESENT, "layer not present"},
        {VK_ERROR_EXTENSION_NOT_PRESENT, "extension not present"},
        {VK_ERROR_FEATURE_NOT_PRESENT, "feature not present"},
        {VK_ERROR_INCOMPATIBLE_DRIVER, "incompatible driver"},
        {VK_ERROR_TOO_MANY_OBJECTS, "too many objects"},
        {VK_ERROR_INVALID_EXTERNAL_HANDLE, "this host memory cannot be imported"},
        {VK_ERROR_INVALID_SHADER_NV, "invalid shader"},
        {VK_ERROR_UNKNOWN, "unknown error"},
        {VK_TIMEOUT, "timeout"},
        {VK_NOT_READY, "not ready"},
    };
    for (int i = 0; i < RDG_COUNTOF(names); i++)
        if (names[i].result == r) return names[i].name;
    return "error";
}

rdg_err rdg_vk_check(vk_device *d, VkResult r, const char *call, rdg_error *e)
{
    if (r == VK_SUCCESS) {
        vk_instance *v = d->instance;
        if (!v || !v->n_complaints) return RDG_OK;
        v->n_complaints = 0;
        return rdg_fail(e, RDG_E_DEVICE, "%s: validation: %s", call, v->complaint);
    }
    rdg_err code = r == VK_ERROR_DEVICE_LOST ? RDG_E_DEVICE_LOST
                   : r == VK_ERROR_OUT_OF_HOST_MEMORY || r == VK_ERROR_OUT_OF_DEVICE_MEMORY ? RDG_E_NOMEM
                                                                                            : RDG_E_DEVICE;
    rdg_fail(e, code, "%s: %s (%d) on %s", call, rdg_vk_result_name(r), (int)r, d->base.facts.name);
    if (e) e->native = (int)r;
    return code;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)types;
    vk_instance *v = user;
    if (!(severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT)) return VK_FALSE;
    if (v->n_complaints++ == 0 && data->pMessage) {
        size_t n = RDG_MIN(strlen(data->pMessage), sizeof v->complaint - 1);
        memcpy(v->complaint, data->pMessage, n);
        v->complaint[n] = 0;
    }
    return VK_FALSE;
}

static bool has_layer(PFN_vkGetInstanceProcAddr get, const char *name)
{
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)get(NULL, "vkEnumerateInstanceLayerProperties");
    uint32_t n = 0;
    if (!list || list(&n, NULL) || n == 0) return false;
    VkLayerProperties *rows = rdg_alloc_array(n, sizeof *rows);
    bool found = false;
    if (rows && list(&n, rows) >= 0)
        for (uint32_t i = 0; i < n && !found; i++) found = !strcmp(rows[i].layerName, name);
    rdg_free(rows);
    return found;
}

rdg_err rdg_vk_instance_create(bool validation, vk_instance **out, rdg_error *e)
{
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib",
                                        "libMoltenVK.dylib"};
    static const char *const layer = "VK_LAYER_KHRONOS_validation";
    static const char *const debug = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    *out = NULL;
    vk_instance *v = rdg_alloc(sizeof *v);
    if (!v) return rdg_fail(e, RDG_E_NOMEM, "no memory for a Vulkan instance");
    rdg_err rc = RDG_OK;
    for (int i = 0; i < RDG_COUNTOF(names) && !v->library; i++)
        v->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!v->library) {
        rc = rdg_fail(e, RDG_E_NOT_FOUND,
                      "vulkan: no loader (libvulkan.so.1) on this machine; install the package "
                      "libvulkan1 or vulkan-loader and the driver of the GPU");
        goto fail;
    }
    v->GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)dlsym(v->library, "vkGetInstanceProcAddr");
    PFN_vkCreateInstance create = v->GetInstanceProcAddr
                                      ? (PFN_vkCreateInstance)v->GetInstanceProcAddr(NULL, "vkCreateInstance")
                                      : NULL;
    PFN_vkEnumerateInstanceVersion version =
        create ? (PFN_vkEnumerateInstanceVersion)v->GetInstanceProcAddr(NULL, "vkEnumerateInstanceVersion")
               : NULL;
    if (!create || !version || version(&v->version) || v->version < VK_API_VERSION_1_3) {
        rc = rdg_fail(e, RDG_E_NOT_FOUND,
                      "vulkan: the loader is older than Vulkan 1.3; install a newer libvulkan1");
        goto fail;
    }
    if (validation && !has_layer(v->GetInstanceProcAddr, layer)) {
        rc = rdg_fail(e, RDG_E_NOT_FOUND, "vulkan: %s is not installed (package vulkan-validationlayers)",
                      layer);
        goto fail;
    }
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "ridge",
                             .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    if (validation) {
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = &debug;
    }
    VkResult r = create(&info, NULL, &v->handle);
    if (r) {
        rc = rdg_fail(e, RDG_E_NOT_FOUND, "vulkan: no instance: %s (%d); is a driver installed?",
                      rdg_vk_result_name(r), (int)r);
        goto fail;
    }
#define X(name)                                                                                              \
    v->name = (PFN_vk##name)v->GetInstanceProcAddr(v->handle, "vk" #name);                                   \
    if (!v->name) {                                                                                          \
        rc = rdg_fail(e, RDG_E_NOT_FOUND, "vulkan: the loader lacks vk" #name);                              \
        goto fail;                                                                                           \
    }
    VK_INSTANCE_FUNCTIONS(X)
#undef X
    if (validation) {
        PFN_vkCreateDebugUtilsMessengerEXT make = (PFN_vkCreateDebugUtilsMessengerEXT)v->GetInstanceProcAddr(
            v->handle, "vkCreateDebugUtilsMessengerEXT");
        VkDebugUtilsMessengerCreateInfoEXT m = {
            .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
            .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
            .messageType =
                VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT,
            .pfnUserCallback = on_message,
            .pUserData = v};
        if (make) make(v->handle, &m, NULL, &v->messenger);
    }
    *out = v;
    return RDG_OK;
fail:
    rdg_vk_instance_destroy(v);
    return rc;
}

void rdg_vk_instance_destroy(vk_instance *v)
{
    if (!v) return;
    if (v->messenger) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy =
            (PFN_vkDestroyDebugUtilsMessengerEXT)v->GetInstanceProcAddr(v->handle,
                                                                        "vkDestroyDebugUtilsMessengerEXT");
        if (destroy) destroy(v->handle, v->messenger, NULL);
    }
    if (v->handle && v->DestroyInstance) v->DestroyInstance(v->handle, NULL);
    if (v->library) dlclose(v->library);
    rdg_free(v);
}

rdg_err rdg_vk_load_device(vk_device *d, rdg_error *e)
{
    vk_instance *v = d->instance;
#define X(name)                                                                                              \
    d->fn.name = (PFN_vk##name)v->GetDeviceProcAddr(d->handle, "vk" #name);                                  \
    if (!d->fn.name)                                                                                         \
        return rdg_fail(e, RDG_E_DEVICE, "vulkan: driver %s lacks vk" #name, d->base.facts.driver);
    VK_DEVICE_FUNCTIONS(X)
#undef X
    if (d->base.facts.imports_host_memory) {
        d->fn.GetMemoryHostPointerPropertiesEXT =
            (PFN_vkGetMemoryHostPointerPropertiesEXT)v->GetDeviceProcAddr(
                d->handle, "vkGetMemoryHostPointerPropertiesEXT");
        if (!d->fn.GetMemoryHostPointerPropertiesEXT) d->base.facts.imports_host_memory = false;
    }
    return RDG_OK;
}
