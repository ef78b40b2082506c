/* How a GPU variant of an operation is launched, and what turns launches into commands of a device.
 *
 * A row's `encode` fills one dispatch per launch: the kernel's module and specialisation constants, its
 * arguments as the kernel declares them (addresses first), and its grid. Recording is the only time it runs;
 * a recorded list is replayed without it. Everything that changes between replays is read by the kernel from
 * memory. */
#ifndef RDG_OPS_GPU_H
#define RDG_OPS_GPU_H

#include "device/device.h"
#include "ops/op.h"

enum { RDG_GPU_MAX_DISPATCHES = 6 };

typedef struct rdg_gpu_dispatch {
    const char *module;
    uint32_t spec[RDG_SPEC_MAX];
    int n_spec;
    unsigned char push[RDG_PUSH_BYTES_MAX];
    uint32_t push_bytes;
    uint32_t grid[3];
    uint32_t subgroup;   /* exact width the kernel is written for; 0 = any */
    bool barrier_before; /* reads what an earlier dispatch of this call wrote */
} rdg_gpu_dispatch;

typedef struct rdg_gpu_cache rdg_gpu_cache;

/* A launch's place in a chain (ops/glsl/chain.glsl). counter 0: it is in none. */
typedef struct rdg_gpu_chain {
    uint64_t counter;  /* of the launches before; its own follows RDG_GPU_CHAIN_STRIDE bytes behind */
    uint32_t before;   /* workgroups that those have; 0: nothing to wait for */
    uint32_t patience; /* looks before a workgroup gives up; 0: the usual */
    uint64_t clock;    /* an rdg_gpu_clock_record for each workgroup of the launch; 0: no times are wanted */
} rdg_gpu_chain;
/* Patience: about a second on a GPU; only a device that does not keep the order comes to its end. */
enum { RDG_GPU_CHAIN_STRIDE = 32, RDG_GPU_CHAIN_PATIENCE = 1 << 20 };
uint32_t rdg_gpu_chain_spec(const rdg_gpu_chain *c); /* the kernels' constant CHAIN */
/* What a workgroup writes about itself, in the device's ticks: it began, had waited, ended. */
typedef struct rdg_gpu_clock_record {
    uint64_t begin, ready, end;
} rdg_gpu_clock_record;

typedef struct rdg_gpu_env {
    const rdg_device_facts *facts;
    rdg_gpu_cache *cache; /* for rdg_gpu_constant; may be NULL when only sizes are asked for */
    uint64_t scratch;     /* device address of scratch_bytes, 256-byte aligned; 0 if none was asked for */
    uint64_t prepared;   /* address of an operand whose prepared form lies in the scratch already; 0 = none */
    rdg_gpu_chain chain; /* of the step kernels */
} rdg_gpu_env;

typedef struct rdg_gpu_kernel {
    /* Returns the number of dispatches, or 0 with e filled. */
    int (*encode)(const rdg_op_call *call, const rdg_gpu_env *env, rdg_gpu_dispatch *out, rdg_error *e);
    uint64_t (*scratch_bytes)(const rdg_op_call *call, const rdg_gpu_env *env); /* NULL = none */
    /* 1 + the operand that the first dispatch turns into what lies in the scratch afterwards (activations as
     * f16); 0 = the scratch holds nothing that another call could use. Rows with equal values prepare alike.
     */
    int prepares;
} rdg_gpu_kernel;

/* For encode functions
 * ------------------------------------------------------------------------------------------- */

/* Device address of an operand's first element; 0 if absent. */
uint64_t rdg_gpu_address(const rdg_tensor *t);
/* Row strides 1 … 3 in elements of a type without blocks. False if one is not whole or does not fit 32 bits.
 */
bool rdg_gpu_strides(const rdg_tensor *t, uint32_t stride[3]);
/* Module, arguments, and n_groups workgroups laid out in x and y. */
void rdg_gpu_fill(rdg_gpu_dispatch *d, const char *module, const void *push, size_t push_bytes);
bool rdg_gpu_grid(rdg_gpu_dispatch *d, const rdg_device_facts *f, int64_t n_groups);
/* Read-only data that a kernel needs, such as a table of frequencies: the same content gives the same
 * address. 0 with e filled when there is no room. */
uint64_t rdg_gpu_constant(const rdg_gpu_env *env, const void *data, size_t bytes, rdg_error *e);

/* Modules built into the library
 * ----------------------------------------------------------------------------------- */

typedef struct rdg_gpu_module {
    const char *name;
    const unsigned char *code, *end;
} rdg_gpu_module;
const rdg_gpu_module *rdg_gpu_module_find(const char *name); /* NULL: not in this build */
int rdg_gpu_module_count(void);

/* Kernels of one device, created on first use, and their constants
 * ------------------------------------------------- */

rdg_err rdg_gpu_cache_create(rdg_device *d, rdg_gpu_cache **out, rdg_error *e);
void rdg_gpu_cache_destroy(rdg_gpu_cache *c);
rdg_device *rdg_gpu_cache_device(const rdg_gpu_cache *c);
rdg_err rdg_gpu_cache_kernel(rdg_gpu_cache *c, const rdg_gpu_dispatch *d, rdg_kernel **out, rdg_error *e);
int rdg_gpu_cache_size(const rdg_gpu_cache *c);
/* Appends the call's dispatches, with the barriers between them. `scratch` as asked by the row, 0 if none. */
rdg_err rdg_gpu_record(rdg_gpu_cache *c, rdg_list *l, const rdg_op_call *call, const rdg_variant *v,
                       uint64_t scratch, uint64_t prepared, rdg_error *e);
rdg_err rdg_gpu_dispatch_all(rdg_gpu_cache *c, rdg_list *l, const rdg_gpu_dispatch *d, int n, rdg_error *e);

/* Runs one call whose operands lie in host memory: copies in, launches, copies out. What `ridge check` and
 * the tests use. */
rdg_err rdg_gpu_run_host(rdg_gpu_cache *c, const rdg_variant *v, rdg_op_call *call, rdg_error *e);

#endif
