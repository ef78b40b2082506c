/* Devices: device → buffer → kernel → command list → queue with one rising timeline value.
 *
 * The interface every backend offers (cpu, trace, vulkan, …). All argument checks, states and accounting live
 * in device.c; a backend (backend.h) holds API calls only. Memory has addresses: a kernel takes one block of
 * arguments
 * ("push" bytes) that holds 64-bit addresses and sizes, so replaying a list costs nothing per buffer, and any
 * slice of a buffer is an operand. What changes from token to token is read by the kernels from a small
 * buffer. Errors: DEVICE when a call was refused, NOMEM when memory ran out, DEVICE_LOST sticks: every later
 * call returns it. Several threads may use a device; a buffer, a kernel or a list is one thread's at a time.
 */
#ifndef RDG_DEVICE_DEVICE_H
#define RDG_DEVICE_DEVICE_H

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rdg_device rdg_device;
typedef struct rdg_buffer rdg_buffer;
typedef struct rdg_kernel rdg_kernel;
typedef struct rdg_list rdg_list;

enum { RDG_PUSH_BYTES_MAX = 128, RDG_SPEC_MAX = 16, RDG_MATRIX_SHAPES_MAX = 32, RDG_QUEUES = 2 };

/* What a GPU kernel may need (rdg_variant.requires_mask). */
enum {
    RDG_GPU_FLOAT16 = 1 << 0,          /* half arithmetic */
    RDG_GPU_INT8_DOT = 1 << 1,         /* 4 x 8-bit dot product, reported as fast by the driver */
    RDG_GPU_MATRIX_F16 = 1 << 2,       /* subgroup matrices 16 x 16 x 16, f16 inputs, f32 sums */
    RDG_GPU_SUBGROUP_32 = 1 << 3,      /* subgroups of exactly 32 can be had */
    RDG_GPU_SHARED_48K = 1 << 4,       /* 48 KiB of workgroup memory */
    RDG_GPU_INT8_DOT_ANY = 1 << 5,     /* the instruction exists, fast or not */
    RDG_GPU_ORDERED_LAUNCHES = 1 << 6, /* workgroups start in the order of their launches, barrier or not */
    RDG_GPU_CLOCK = 1 << 7,            /* kernels can read a clock of the whole device */
};

typedef struct rdg_matrix_shape {
    int m, n, k;
    char types[24]; /* "f16,f16->f32" */
} rdg_matrix_shape;

typedef struct rdg_device_facts {
    char backend[16]; /* "cpu", "vulkan", … */
    char name[256], driver[256], api[32];
    char kind[16]; /* "discrete", "integrated", "virtual", "cpu", "other" */
    int index;     /* among the backend's devices: "vulkan:INDEX" */
    uint32_t features;
    uint64_t memory_bytes; /* of the heap that weights go to */
    uint64_t free_bytes;   /* of it, when the device was opened; memory_bytes where the driver does not say */
    uint64_t host_memory_bytes; /* memory that both sides see, 0 if unknown */
    bool unified;               /* device memory is host memory: nothing needs to be copied */
    bool maps_device_memory;    /* the host can write all of device memory (resizable BAR) */
    bool imports_host_memory;
    uint64_t import_alignment;
    uint32_t subgroup_width, subgroup_min, subgroup_max;
    uint32_t shared_bytes, workgroup_max, push_bytes;
    uint32_t grid_max[3];
    double timestamp_ns; /* nanoseconds a tick; 0: no timestamps */
    int timestamp_bits;  /* of a tick that count */
    int n_queues;        /* 1: compute only; 2: a copy queue that runs beside it */
    rdg_matrix_shape matrix[RDG_MATRIX_SHAPES_MAX];
    int n_matrix;
    char reason[512]; /* why this one was chosen, and which were passed over */
} rdg_device_facts;

/* Opening
 * ------------------------------------------------------------------------------------------------------ */

typedef struct rdg_device_options {
    bool validation;       /* API validation layer, if installed: its messages become errors */
    const char *cache_dir; /* where compiled pipelines may be kept; NULL = nowhere */
    const rdg_log *log;
} rdg_device_options;

/* "cpu", "vulkan", "vulkan:1", "trace". NOT_FOUND says what is missing and what to do about it. */
rdg_err rdg_device_open(const char *name, const rdg_device_options *o, rdg_device **out, rdg_error *e);
void rdg_device_close(rdg_device *d); /* NULL is fine; everything made from it must be gone */
const rdg_device_facts *rdg_device_get_facts(const rdg_device *d);
/* For a device that outlives the log it was opened with. NULL is fine. */
void rdg_device_set_log(rdg_device *d, const rdg_log *log);
/* One entry for each device of each backend. Backends that cannot be used add a line to `notes` (may be
 * NULL). */
rdg_err rdg_device_list(rdg_device_facts *out, int cap, int *n, rdg_buf *notes, rdg_error *e);

typedef struct rdg_device_account {
    uint64_t bytes_now, bytes_peak; /* allocated; imported memory not counted */
    uint64_t bytes_imported;
    int64_t n_buffers, n_kernels, n_lists; /* alive */
    int64_t n_submits, n_dispatches,
        n_barriers; /* submitted so far; the latter two as recorded in submitted lists */
} rdg_device_account;
/* It goes on counting: read it while no other thread uses the device. */
const rdg_device_account *rdg_device_get_account(const rdg_device *d);
uint64_t rdg_device_bytes_now(rdg_device *d); /* at any time */
bool rdg_device_lost(const rdg_device *d);

/* Buffers
 * ------------------------------------------------------------------------------------------------------ */

typedef enum rdg_memory {
    RDG_MEMORY_DEVICE,   /* fastest for the device; mapped only where device memory is host memory anyway */
    RDG_MEMORY_SHARED,   /* always mapped; in device memory where the host can reach that: step inputs */
    RDG_MEMORY_UPLOAD,   /* always mapped, in host memory: staging */
    RDG_MEMORY_READBACK, /* always mapped, in host memory, cached: results */
} rdg_memory;

rdg_err rdg_buffer_create(rdg_device *d, rdg_memory memory, uint64_t bytes, const char *label,
                          rdg_buffer **out, rdg_error *e);
/* Host memory as a buffer without a copy: pointer and bytes are multiples of import_alignment. UNSUPPORTED
 * where the device cannot. The memory must outlive the buffer. */
rdg_err rdg_buffer_import(rdg_device *d, void *host, uint64_t bytes, const char *label, rdg_buffer **out,
                          rdg_error *e);
void rdg_buffer_destroy(rdg_buffer *b);           /* NULL is fine; the device must have finished with it */
void *rdg_buffer_host(const rdg_buffer *b);       /* mapped address or NULL */
uint64_t rdg_buffer_address(const rdg_buffer *b); /* on the device */
uint64_t rdg_buffer_bytes(const rdg_buffer *b);
/* A word that the layers above keep with a buffer, 0 at first: how the weights in it are laid out. */
void rdg_buffer_set_tag(rdg_buffer *b, uint32_t tag);
uint32_t rdg_buffer_tag(const rdg_buffer *b);
const char *rdg_buffer_label(const rdg_buffer *b);

/* Kernels
 * ------------------------------------------------------------------------------------------------------ */

typedef void rdg_host_kernel(const void *push, uint32_t gx, uint32_t gy,
                             uint32_t gz); /* one workgroup; cpu backend */

typedef struct rdg_kernel_desc {
    const char *name;
    const void *code; /* SPIR-V, … */
    size_t code_bytes;
    rdg_host_kernel *host;       /* cpu backend only */
    uint32_t spec[RDG_SPEC_MAX]; /* specialisation constants 0 … n_spec - 1 */
    int n_spec;
    uint32_t push_bytes;
    uint32_t subgroup; /* exact width wanted, 0 = any */
} rdg_kernel_desc;
rdg_err rdg_kernel_create(rdg_device *d, const rdg_kernel_desc *desc, rdg_kernel **out, rdg_error *e);
void rdg_kernel_destroy(rdg_kernel *k);

/* Command lists: recorded once, submitted many times
 * ------------------------------------------------------------ */

/* n_timestamps: slots that rdg_list_timestamp may write. */
rdg_err rdg_list_create(rdg_device *d, int queue, int n_timestamps, const char *label, rdg_list **out,
                        rdg_error *e);
void rdg_list_destroy(rdg_list *l); /* NULL is fine; waits for it if it runs */
/* Recording never fails in the middle: the first error is kept and reported by rdg_list_finish. */
void rdg_list_dispatch(rdg_list *l, rdg_kernel *k, const void *push, uint32_t gx, uint32_t gy, uint32_t gz);
void rdg_list_barrier(rdg_list *l); /* later commands see what earlier ones wrote, and start after them */
void rdg_list_copy(rdg_list *l, rdg_buffer *dst, uint64_t dst_offset, rdg_buffer *src, uint64_t src_offset,
                   uint64_t bytes);
void rdg_list_fill(rdg_list *l, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word);
void rdg_list_timestamp(rdg_list *l, int slot); /* when everything before it has finished */
/* When the device comes to it: what precedes may still run, but for what a barrier makes it wait for (a
 * device may read ahead even there, so that the tick is a lower bound of when what follows began). */
void rdg_list_timestamp_early(rdg_list *l, int slot);
rdg_err rdg_list_finish(rdg_list *l, rdg_error *e);
rdg_err rdg_list_reset(rdg_list *l, rdg_error *e); /* empty again; must not be running */
int64_t rdg_list_n_dispatches(const rdg_list *l);
int64_t rdg_list_n_barriers(const rdg_list *l);
/* After the submit has finished, slots 0 … n - 1, which it must all have written: nanoseconds since slot 0;
 * or ticks, which all lists of a queue share. */
rdg_err rdg_list_read_timestamps(rdg_list *l, double *ns, int n, rdg_error *e);
rdg_err rdg_list_read_ticks(rdg_list *l, uint64_t *ticks, int n, rdg_error *e);
/* From tick a to tick b; negative when b is the earlier. */
double rdg_device_tick_ns(const rdg_device *d, uint64_t a, uint64_t b);

/* Queues: 0 computes, 1 copies (the same as 0 where n_queues is 1)
 * ----------------------------------------------- */

typedef struct rdg_event {
    int queue;
    uint64_t value; /* 0: nothing to wait for */
} rdg_event;
/* Runs the list after `n_waits` events. The list must not be running already unless nothing it writes
 * conflicts. */
rdg_err rdg_submit(rdg_device *d, rdg_list *l, const rdg_event *waits, int n_waits, rdg_event *done,
                   rdg_error *e);
bool rdg_event_done(rdg_device *d, rdg_event ev);
rdg_err rdg_event_wait(rdg_device *d, rdg_event ev, int64_t timeout_ns,
                       rdg_error *e); /* TIMEOUT; < 0 = for ever */

#endif
