/* What an operation is: contract, cost, reference, tolerance, and a table of variants (its fast versions).
 *
 * One folder per operation holds everything: `<op>.h` (contract and parameters), `<op>.c` (descriptor), the
 * variants and the cases worth checking. `registry.c` lists the descriptors. The plan (src/graph) is a list
 * of calls; the CPU executor, the GPU recorders, `ridge check` and the profiler all work from these tables.
 */
#ifndef RDG_OPS_OP_H
#define RDG_OPS_OP_H

#include <ridge/type.h>
#include "base/err.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RDG_MAX_OPERANDS = 8, RDG_OP_PARAM_BYTES = 64 };

struct rdg_buffer; /* device/device.h */

/* Typed memory with a shape: an operand. Dimensions are listed innermost first; absent outer ones are 1.
 * A row (dim[0] elements) is always contiguous: stride[0] is the bytes of one block of the type. */
typedef struct rdg_tensor {
    rdg_type type;
    int64_t dim[4];            /* dim[0] == 0: the operand is absent */
    int64_t stride[4];         /* bytes from one index to the next; [0] = bytes of a block */
    void *data;                /* host address, or NULL when it lives on a device only */
    struct rdg_buffer *buffer; /* device buffer, or NULL */
    uint64_t buffer_offset;    /* bytes */
} rdg_tensor;

static inline bool rdg_tensor_present(const rdg_tensor *t)
{
    return t->dim[0] != 0;
}
static inline int64_t rdg_tensor_n_elements(const rdg_tensor *t)
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}
static inline int64_t rdg_tensor_n_rows(const rdg_tensor *t)
{
    return t->dim[1] * t->dim[2] * t->dim[3];
}
/* Host address of row (i1, i2, i3). */
static inline void *rdg_tensor_row(const rdg_tensor *t, int64_t i1, int64_t i2, int64_t i3)
{
    return (char *)t->data + i1 * t->stride[1] + i2 * t->stride[2] + i3 * t->stride[3];
}
/* Fills type, dim and dense strides; data and buffer are cleared. */
void rdg_tensor_init(rdg_tensor *t, rdg_type type, int64_t d0, int64_t d1, int64_t d2, int64_t d3);
bool rdg_tensor_dense(const rdg_tensor *t); /* strides are those of rdg_tensor_init */
/* From the first byte to the last, gaps between rows included. */
int64_t rdg_tensor_extent_bytes(const rdg_tensor *t);
int64_t rdg_tensor_bytes(const rdg_tensor *t); /* of a dense tensor of this shape: the compulsory bytes */
/* One element as double, whatever the type (slow: for references and tests). */
double rdg_tensor_get(const rdg_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

typedef struct rdg_op rdg_op;

/* One use of an operation: everything a kernel, a cost or a reference needs to know. */
typedef struct rdg_op_call {
    const rdg_op *op;
    rdg_tensor operand[RDG_MAX_OPERANDS];
    union {
        unsigned char bytes[RDG_OP_PARAM_BYTES]; /* the operation's parameter struct */
        int64_t align_i64;
        double align_f64;
        void *align_ptr;
    } params;
    /* For cost and launch shapes of operations whose work depends on positions held in a tensor: keys the
     * last token of the call can see (position + 1). 0 where it does not apply. */
    int64_t n_visible;
} rdg_op_call;

enum {
    RDG_OPERAND_IN = 1,
    RDG_OPERAND_OUT = 2,
    RDG_OPERAND_INOUT = 3,
    RDG_OPERAND_OPTIONAL = 4,
};
typedef struct rdg_operand_spec {
    const char *name; /* as in the contract's formula */
    unsigned flags;
} rdg_operand_spec;

/* Exact, from shapes and types alone (and n_visible). */
typedef struct rdg_cost {
    double bytes_read, bytes_written; /* compulsory: each operand's used part once */
    double flops; /* useful floating-point or multiply-accumulate work; a fused multiply-add is 2 */
} rdg_cost;

typedef enum rdg_tolerance_kind {
    RDG_TOLERANCE_INHERIT,    /* a variant's: the operation's applies */
    RDG_TOLERANCE_EXACT,      /* equal bits of the output type (copies, integers, dequantisation) */
    RDG_TOLERANCE_ULP,        /* elementwise: |got - ref| <= bound * ulp(ref) + bound * FLT_MIN */
    RDG_TOLERANCE_SIZE,       /* elementwise: |got - ref| <= bound * size + FLT_MIN, by the operation's
                               * `magnitude`: results of a few steps that magnify each other's rounding */
    RDG_TOLERANCE_NORMALISED, /* sums: ||got - ref|| <= bound * ||size|| per output row, and no element off by
                               * more than 8 * bound * size + bound * |ref|. The size of an element is the
                               * operation's `magnitude`, or the root mean square of the reference's row */
} rdg_tolerance_kind;
typedef struct rdg_tolerance {
    rdg_tolerance_kind kind;
    double bound;
} rdg_tolerance;

/* How a variant rounds the factors of a product. Activations to 8 bits, with one scale for 32 elements or for
 * as many as a block of the weights has: its sizes are then standard deviations of what that loses (nothing,
 * for activations that are whole steps), with the rounding of float sums on top; a result may be off by
 * RDG_ROUNDING_BOUND of them. TO_HALF: both to f16, scale and minimum of a block one by one, so that a weight
 * near 0 is as wrong as the largest of its block. */
typedef enum rdg_rounding {
    RDG_ROUNDS_NOT,
    RDG_ROUNDS_BY_32,
    RDG_ROUNDS_BY_BLOCK,
    RDG_ROUNDS_TO_HALF
} rdg_rounding;
#define RDG_ROUNDING_BOUND 7.0
static inline bool rdg_rounds_to_bytes(rdg_rounding r)
{
    return r == RDG_ROUNDS_BY_32 || r == RDG_ROUNDS_BY_BLOCK;
}

typedef enum rdg_backend {
    RDG_BACKEND_CPU,
    RDG_BACKEND_VULKAN,
    RDG_BACKEND_CUDA,
    RDG_BACKEND_METAL,
    RDG_BACKEND_COUNT
} rdg_backend;
const char *rdg_backend_name(rdg_backend b); /* "cpu", "vulkan", … */

/* A CPU kernel works on independent items; which thread does which item must not change the result. */
typedef struct rdg_cpu_task {
    int phase;
    int64_t begin, end; /* items [begin, end) */
    /* Last phase of a kernel with streams: of these items the turns [first_turn, end_turn) only. continues:
     * this thread did the turn before them just now. */
    int64_t first_turn, end_turn;
    bool continues;
    int thread, n_threads;
    void *scratch; /* scratch_bytes, shared by all threads of the call, 64-byte aligned, contents undefined */
} rdg_cpu_task;
/* Items run together as streams side by side through what they read once and nobody has in a cache: their
 * weights. A turn is a step of all streams, and is done whole by one thread. */
typedef struct rdg_cpu_streams {
    rdg_pool_ahead ahead; /* all that the streams read */
    int64_t n_turns;      /* 1 to 2 (end - begin): streams may be cut finer than items */
} rdg_cpu_streams;
typedef struct rdg_cpu_kernel {
    int n_phases; /* >= 1; a barrier stands between phases */
    int64_t (*n_items)(const rdg_op_call *call,
                       int phase); /* sized so that one item is >= about 1 us of work */
    size_t (*scratch_bytes)(const rdg_op_call *call, int n_threads); /* NULL = none */
    void (*run)(const rdg_op_call *call, const rdg_cpu_task *task);
    /* 1 + the operand of which phase 0 alone makes what the later phases read in the scratch (activations in
     * 8 bits) and leave as it is: the next call of this kernel with that operand may begin with phase 1. 0:
     * no such operand. */
    int prepares;
    /* NULL, or how items [begin, end) of the last phase are run together. */
    rdg_cpu_streams (*streams)(const rdg_op_call *call, int64_t begin, int64_t end);
} rdg_cpu_kernel;

struct rdg_gpu_kernel; /* ops/gpu.h: module, specialisation constants, push constants, grid */

typedef struct rdg_variant {
    const char *name;   /* <format or type>_<backend or isa>_<idea>: "q4_k_avx512_vnni" */
    const char *source; /* path of the file that holds it */
    rdg_backend backend;
    uint32_t requires_mask; /* CPU: RDG_CPU_* bits; GPU: RDG_GPU_* bits */
    bool (*accepts)(
        const rdg_op_call *call);     /* shapes and types it handles; NULL = all the operation allows */
    const rdg_cpu_kernel *cpu;        /* backend CPU */
    const struct rdg_gpu_kernel *gpu; /* other backends */
    rdg_tolerance tolerance;          /* INHERIT, or its own with the reason in a comment */
    rdg_rounding rounding;            /* of products */
} rdg_variant;

/* Shapes worth checking. `make` fills shapes, types, strides and params of a call (no data) and a name; it
 * returns false when i is past the last case. The checker allocates, fills inputs with seeded random data,
 * and calls `prepare` for operands whose values have a meaning (indices, positions). */
enum { RDG_CASE_NAME_BYTES = 96 };
typedef struct rdg_case_set {
    bool (*make)(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES]);
    void (*prepare)(int i, rdg_op_call *call,
                    uint64_t seed); /* NULL = nothing special; host data is allocated */
    int (*alias)(
        int i,
        int operand); /* the operand whose memory this one shares (in place), or -1; NULL = none does */
} rdg_case_set;

struct rdg_op {
    const char *name;
    const char *summary; /* the formula, one line */
    const rdg_operand_spec *operands;
    int n_operands;
    size_t param_bytes;
    /* Shapes, types, aliasing and parameters fit the contract; the message names operand and dimension. */
    rdg_err (*check)(const rdg_op_call *call, rdg_error *e);
    void (*cost)(const rdg_op_call *call, rdg_cost *cost);
    /* Double-precision reference. out[k] is a dense double array of operand k's shape for each OUT operand
     * (index by operand number, NULL for inputs); for INOUT it holds the old values on entry. Inputs are read
     * from the call. */
    rdg_err (*reference)(const rdg_op_call *call, double *const *out, rdg_error *e);
    rdg_tolerance tolerance;
    /* NORMALISED and SIZE: the size that the rounding error of each output element is measured by, as
     * reference() gives its value. A sum of products that cancels has the rounding errors of its terms. NULL
     * (NORMALISED only): the reference's row decides. rounding: NOT for all but products. */
    rdg_err (*magnitude)(const rdg_op_call *call, rdg_rounding rounding, double *const *out, rdg_error *e);
    const rdg_variant *const *variants; /* best first; NULL-terminated list of rows */
    const rdg_case_set *cases;
    const char *gaps; /* reasons for backends without a variant, or NULL: "cuda: …; metal: …" */
};

/* registry.c */
int rdg_op_count(void);
const rdg_op *rdg_op_at(int i);
const rdg_op *rdg_op_find(const char *name); /* NULL if unknown */
/* First row of this backend whose requirements are met by `features` and which accepts the call; a row whose
 * name is `wanted` comes first when it qualifies. NULL if there is none. */
const rdg_variant *rdg_op_select(const rdg_op_call *call, rdg_backend backend, uint32_t features,
                                 const char *wanted);
/* op->check plus the generic rules: operands present, rows contiguous, sizes positive. */
rdg_err rdg_op_check(const rdg_op_call *call, rdg_error *e);

#endif
