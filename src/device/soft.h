/* Buffers and command lists in host memory: what the cpu and the trace backends have in common. A list is an
 * array of commands that submit walks at once, on the calling thread, so every event is done when submit
 * returns. */
#ifndef RDG_DEVICE_SOFT_H
#define RDG_DEVICE_SOFT_H

#include "device/backend.h"

typedef struct soft_device {
    rdg_device base;
    bool runs_kernels;
    /* Called before each call of the backend with its name; an error makes the call fail. NULL = never. */
    rdg_err (*before)(struct soft_device *d, const char *call, const char *detail, rdg_error *e);
    void *user;
} soft_device;

rdg_err rdg_soft_buffer_create(rdg_device *d, rdg_memory m, uint64_t bytes, rdg_buffer **out, rdg_error *e);
rdg_err rdg_soft_buffer_import(rdg_device *d, void *host, uint64_t bytes, rdg_buffer **out, rdg_error *e);
void rdg_soft_buffer_destroy(rdg_buffer *b);
rdg_err rdg_soft_kernel_create(rdg_device *d, const rdg_kernel_desc *desc, rdg_kernel **out, rdg_error *e);
void rdg_soft_kernel_destroy(rdg_kernel *k);
rdg_err rdg_soft_list_create(rdg_device *d, int queue, int n_timestamps, rdg_list **out, rdg_error *e);
void rdg_soft_list_destroy(rdg_list *l);
rdg_err rdg_soft_list_begin(rdg_list *l, rdg_error *e);
rdg_err rdg_soft_dispatch(rdg_list *l, rdg_kernel *k, const void *push, const uint32_t grid[3], rdg_error *e);
rdg_err rdg_soft_barrier(rdg_list *l, rdg_error *e);
rdg_err rdg_soft_copy(rdg_list *l, rdg_buffer *dst, uint64_t dst_offset, rdg_buffer *src, uint64_t src_offset,
                      uint64_t bytes, rdg_error *e);
rdg_err rdg_soft_fill(rdg_list *l, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word,
                      rdg_error *e);
rdg_err rdg_soft_timestamp(rdg_list *l, int slot, bool early, rdg_error *e);
rdg_err rdg_soft_list_end(rdg_list *l, rdg_error *e);
rdg_err rdg_soft_read_ticks(rdg_list *l, uint64_t *ticks, int n, rdg_error *e);
rdg_err rdg_soft_submit(rdg_device *d, rdg_list *l, const rdg_event *waits, int n_waits, uint64_t value,
                        rdg_error *e);
rdg_err rdg_soft_poll(rdg_device *d, int queue, uint64_t *value, rdg_error *e);
rdg_err rdg_soft_wait(rdg_device *d, int queue, uint64_t value, int64_t timeout_ns, rdg_error *e);

/* What the rdg_backend_api of such a device holds beside its name, enumerate, open and close. */
#define RDG_SOFT_CALLS                                                                                       \
    .buffer_create = rdg_soft_buffer_create, .buffer_import = rdg_soft_buffer_import,                        \
    .buffer_destroy = rdg_soft_buffer_destroy, .kernel_create = rdg_soft_kernel_create,                      \
    .kernel_destroy = rdg_soft_kernel_destroy, .list_create = rdg_soft_list_create,                          \
    .list_destroy = rdg_soft_list_destroy, .list_begin = rdg_soft_list_begin, .dispatch = rdg_soft_dispatch, \
    .barrier = rdg_soft_barrier, .copy = rdg_soft_copy, .fill = rdg_soft_fill,                               \
    .timestamp = rdg_soft_timestamp, .list_end = rdg_soft_list_end, .read_ticks = rdg_soft_read_ticks,       \
    .submit = rdg_soft_submit, .poll = rdg_soft_poll, .wait = rdg_soft_wait

#endif
