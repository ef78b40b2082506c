/* Shared by the files that run plans on a GPU: gpu_exec.c (memory and runs), gpu_weights.c (weights on the
 * device), gpu_launch.c (nodes → launches: fusion for the device, places), gpu_record.c (launches → command
 * list). */
#ifndef RDG_GRAPH_GPU_H
#define RDG_GRAPH_GPU_H

#include "device/upload.h"
#include "graph/exec.h"
#include "graph/gpu_exec.h"
#include "graph/plan_internal.h"
#include "ops/attention/attention_step.h"
#include "ops/gpu.h"
#include "ops/matmul/matvec_q8.h"

/* Weights
 * ------------------------------------------------------------------------------------------------------ */

typedef struct rdg_gpu_weights rdg_gpu_weights;
typedef struct rdg_gpu_place {
    rdg_buffer *buffer;
    uint64_t offset;
} rdg_gpu_place;

rdg_err rdg_gpu_weights_create(rdg_device *d, const rdg_gguf *g, bool import, rdg_gpu_weights **out,
                               rdg_error *e);
void rdg_gpu_weights_destroy(rdg_gpu_weights *w);
/* Puts every weight of the plan on the device that is not there yet. o and stats may be NULL. */
rdg_err rdg_gpu_weights_load(rdg_gpu_weights *w, const rdg_plan *p, rdg_pool *pool,
                             const rdg_upload_options *o, const rdg_log *log, rdg_upload_stats *stats,
                             rdg_error *e);
/* Where it lies; buffer NULL if it has not been loaded. */
rdg_gpu_place rdg_gpu_weights_find(rdg_gpu_weights *w, const rdg_gguf_tensor *t);
bool rdg_gpu_weights_import(rdg_gpu_weights *w);           /* they are used in the file's map */
uint64_t rdg_gpu_weights_device_bytes(rdg_gpu_weights *w); /* allocated for them */

/* A device with the weights on it, for one session or for several. */
typedef struct rdg_gpu_context {
    struct rdg_gpu_context *next;
    rdg_exec_shared *owner;
    int n_users;
    char asked[32], name[32]; /* as it was asked for; "vulkan:0" */
    bool import;
    rdg_device *device;
    rdg_gpu_weights *weights;
} rdg_gpu_context;
rdg_err rdg_gpu_context_get(const rdg_exec_request *r, const rdg_gpu_options *o, rdg_gpu_context **out,
                            rdg_error *e);
void rdg_gpu_context_put(rdg_gpu_context *c, const rdg_log *log); /* NULL is fine */

/* Launches
 * ----------------------------------------------------------------------------------------------------- */

typedef enum rdg_launch_kind {
    RDG_LAUNCH_NODE,
    RDG_LAUNCH_MATVEC_STEP,
    RDG_LAUNCH_ATTENTION_STEP
} rdg_launch_kind;

enum { RDG_LAUNCH_VALUES = 16 };

/* One node, or several that a step kernel does at once. */
typedef struct rdg_gpu_launch {
    rdg_launch_kind kind;
    size_t node; /* the last of its nodes: its name in reports */
    rdg_value_id reads[RDG_LAUNCH_VALUES], writes[RDG_LAUNCH_VALUES];
    int n_reads, n_writes;
    /* MATVEC_STEP */
    rdg_value_id weight, weight2, x, norm_weight, bias, residual, out;
    float eps;
    rdg_glu_params glu;
    /* ATTENTION_STEP */
    rdg_value_id q, k, v, k_cache, v_cache, sinks, q_norm, k_norm, factors;
    bool has_rope;
    rdg_rope_params rope;
    rdg_attention_params attention;
} rdg_gpu_launch;

typedef struct rdg_gpu_schedule {
    rdg_gpu_launch *launches;
    size_t n, cap;
    int64_t *place; /* by value: offset in the scratch block, -1 where it has none */
    int64_t scratch_bytes;
} rdg_gpu_schedule;

/* Plans of one token are launched by step kernels where these fit. */
rdg_err rdg_gpu_schedule_create(const rdg_plan *p, const rdg_device_facts *f, rdg_gpu_weights *w,
                                rdg_gpu_schedule *out, rdg_error *e);
void rdg_gpu_schedule_finish(rdg_gpu_schedule *s);

/* Recording
 * ---------------------------------------------------------------------------------------------------- */

/* Resolves a value to memory: type, shape, strides, buffer and offset, and host data for weights. */
typedef struct rdg_gpu_binding {
    void *user;
    void (*bind)(void *user, rdg_value_id v, rdg_tensor *t);
} rdg_gpu_binding;

/* Times in a list. */
typedef enum rdg_gpu_stamps {
    RDG_STAMPS_NONE,
    RDG_STAMPS_ENDS,  /* slot 0 before the first launch, slot i + 1 at the end of launch i: n + 1 */
    RDG_STAMPS_SPANS, /* rdg_gpu_spans says where those of each launch are */
} rdg_gpu_stamps;

/* Where the times of a launch are: in slots `slot` (when the device comes to it) and `slot + 1` (when it is
 * over) of the list's timestamps, or, slot -1, in what its workgroups wrote: a chain with timestamps in it
 * would be none. */
typedef struct rdg_gpu_span_source {
    bool ordered; /* a barrier stands before it: it starts after all before it */
    int slot;
    uint32_t first, n; /* records of its workgroups */
} rdg_gpu_span_source;

typedef struct rdg_gpu_spans {
    rdg_gpu_span_source *source; /* by launch, in order */
    int n, cap, n_slots;
    uint64_t clock; /* address of the workgroups' records; 0: there are none, and no chains */
    uint32_t n_records;
} rdg_gpu_spans;
/* Around a launch: its timestamps. Returns its slot, for the end; -1 without spans or room, and nothing is
 * recorded. */
int rdg_gpu_span_begin(rdg_gpu_spans *s, bool ordered, rdg_list *l);
void rdg_gpu_span_end(int slot, rdg_list *l);

typedef struct rdg_gpu_recorder {
    const rdg_plan *plan;
    const rdg_gpu_schedule *schedule;
    rdg_gpu_cache *cache;
    rdg_gpu_binding binding;
    const char *variant;      /* wanted, or NULL */
    int64_t n_visible;        /* positions below this in every replay */
    rdg_buffer *scratch;      /* of kernels that need some; may be NULL when only asking for bytes */
    rdg_buffer *step_scratch; /* zeroed; attention steps */
    rdg_buffer *chain;        /* counters of chains, rdg_gpu_chain_bytes; NULL: barriers everywhere */
    rdg_gpu_stamps stamps;
    rdg_gpu_spans *spans; /* filled with RDG_STAMPS_SPANS; NULL otherwise */
} rdg_gpu_recorder;

/* Bytes that rdg_gpu_record_plan needs in `scratch` and `step_scratch`. */
rdg_err rdg_gpu_record_needs(const rdg_gpu_recorder *r, uint64_t *scratch, uint64_t *step_scratch,
                             rdg_error *e);
/* Bytes of `chain`; 0 where the schedule has no launches that can be in one. */
uint64_t rdg_gpu_chain_bytes(const rdg_gpu_schedule *s);
/* Records that the workgroups of chained launches write. */
rdg_err rdg_gpu_record_clocks(const rdg_gpu_recorder *r, uint64_t *n, rdg_error *e);
rdg_err rdg_gpu_record_plan(const rdg_gpu_recorder *r, rdg_list *l, rdg_error *e);
/* The variant or step kernel of launch i. */
const char *rdg_gpu_launch_name(const rdg_gpu_recorder *r, size_t i);

#endif
