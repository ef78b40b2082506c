/* What a backend implements. Arguments have been checked by device.c; a backend makes API calls and nothing
 * else. Backend objects start with the common struct, so that device.c and the backend share one allocation.
 */
#ifndef RDG_DEVICE_BACKEND_H
#define RDG_DEVICE_BACKEND_H

#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct rdg_backend_api {
    const char *name;
    /* Fills facts of up to cap devices; *n is how many there are. A missing driver is 0 devices and a note.
     */
    rdg_err (*enumerate)(rdg_device_facts *out, int cap, int *n, rdg_buf *notes, rdg_error *e);
    rdg_err (*open)(int index, const rdg_device_options *o, rdg_device **out, rdg_error *e); /* -1: choose */
    void (*close)(rdg_device *d);

    rdg_err (*buffer_create)(rdg_device *d, rdg_memory memory, uint64_t bytes, rdg_buffer **out,
                             rdg_error *e);
    rdg_err (*buffer_import)(rdg_device *d, void *host, uint64_t bytes, rdg_buffer **out,
                             rdg_error *e); /* optional */
    void (*buffer_destroy)(rdg_buffer *b);
    rdg_err (*kernel_create)(rdg_device *d, const rdg_kernel_desc *desc, rdg_kernel **out, rdg_error *e);
    void (*kernel_destroy)(rdg_kernel *k);

    rdg_err (*list_create)(rdg_device *d, int queue, int n_timestamps, rdg_list **out, rdg_error *e);
    void (*list_destroy)(rdg_list *l);
    rdg_err (*list_begin)(rdg_list *l, rdg_error *e);
    rdg_err (*dispatch)(rdg_list *l, rdg_kernel *k, const void *push, const uint32_t grid[3], rdg_error *e);
    rdg_err (*barrier)(rdg_list *l, rdg_error *e);
    rdg_err (*copy)(rdg_list *l, rdg_buffer *dst, uint64_t dst_offset, rdg_buffer *src, uint64_t src_offset,
                    uint64_t bytes, rdg_error *e);
    rdg_err (*fill)(rdg_list *l, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word,
                    rdg_error *e);
    rdg_err (*timestamp)(rdg_list *l, int slot, bool early, rdg_error *e);
    rdg_err (*list_end)(rdg_list *l, rdg_error *e);
    rdg_err (*read_ticks)(rdg_list *l, uint64_t *ticks, int n, rdg_error *e);

    rdg_err (*submit)(rdg_device *d, rdg_list *l, const rdg_event *waits, int n_waits, uint64_t value,
                      rdg_error *e);
    rdg_err (*poll)(rdg_device *d, int queue, uint64_t *value, rdg_error *e);
    rdg_err (*wait)(rdg_device *d, int queue, uint64_t value, int64_t timeout_ns, rdg_error *e);
} rdg_backend_api;

struct rdg_device {
    const rdg_backend_api *api;
    rdg_device_facts facts;
    const rdg_log *log;
    pthread_mutex_t lock; /* of what follows, and of submits; made by device.c */
    rdg_device_account account;
    atomic_bool lost; /* lost_error is complete when it turns true */
    rdg_error lost_error;
    uint64_t submitted[RDG_QUEUES]; /* last timeline value handed out */
    uint64_t finished[RDG_QUEUES];  /* largest value that was seen reached */
};
struct rdg_buffer {
    rdg_device *device;
    rdg_memory memory;
    uint64_t bytes, address;
    void *host;
    bool imported;
    uint32_t tag;
    char label[48];
};
struct rdg_kernel {
    rdg_device *device;
    uint32_t push_bytes;
    char name[64];
};
typedef enum rdg_list_state { RDG_LIST_RECORDING, RDG_LIST_FINISHED } rdg_list_state;
struct rdg_list {
    rdg_device *device;
    int queue, n_timestamps;
    rdg_list_state state;
    rdg_error error; /* first error while recording */
    int64_t n_dispatches, n_barriers, n_commands;
    rdg_event last; /* last submit */
    char label[48];
};

extern const rdg_backend_api rdg_cpu_backend, rdg_trace_backend, rdg_vulkan_backend;

#endif
