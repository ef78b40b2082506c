/* What runs plans: one executor per session and device. It owns the states (KV cache, importance sums), the
 * scratch block and whatever a prepared plan needs (variants chosen, command buffers recorded). */
#ifndef RDG_GRAPH_EXEC_H
#define RDG_GRAPH_EXEC_H

#include "base/pool.h"
#include "graph/plan.h"
#include "ops/sample/sample.h"
#include <ridge/model.h>

typedef struct rdg_exec rdg_exec;
typedef struct rdg_prepared rdg_prepared; /* a plan made ready by an executor */

typedef struct rdg_step {
    const int32_t *tokens;      /* [n_tokens] */
    const int32_t *positions;   /* [n_tokens] */
    const int32_t *output_rows; /* [n_outputs] */
    int64_t n_visible;          /* keys the last token sees: largest position + 1 */
    const float *carried;       /* of a part of a plan: the hidden state from the part before */
} rdg_step;

/* What one node took in a run, for the profiler and `bench`. */
typedef struct rdg_node_time {
    int64_t begin_ns, end_ns;
} rdg_node_time;

/* A launch of a decode step, on the device's clock. */
typedef struct rdg_launch_span {
    int32_t node; /* the last node that it does, -1: picking the token */
    bool ordered; /* it started after all launches before it; otherwise it may have run beside them */
    /* Since the first launch of the first step. ready: the first workgroup had waited for what it needs, in a
     * chain of launches that overlap; begin otherwise. */
    int64_t begin_ns, ready_ns, end_ns;
} rdg_launch_span;

/* Decoding that stays on the device: token i + 1 is picked from the logits after token i, with the random
 * number of `seed` and `step` + i. */
typedef struct rdg_generate {
    int32_t token, position;  /* the first token to evaluate, and where */
    int64_t n;                /* tokens to evaluate at most */
    rdg_sample_params sample; /* zeros: greedy */
    uint64_t seed;
    uint32_t step;
    bool (*on_token)(void *user, int32_t token); /* each token picked, in order; false stops */
    /* Optional: the launches of each step in order, once it is over. It puts timestamps into the lists. */
    void (*on_spans)(void *user, const rdg_launch_span *spans, int64_t n);
    void *user;
} rdg_generate;

typedef struct rdg_exec_class {
    const char *name; /* "cpu", "vulkan" */
    void (*destroy)(rdg_exec *x);
    /* Takes over the plan (destroys it on failure too). What is not released goes with the executor. */
    rdg_err (*prepare)(rdg_exec *x, rdg_plan *plan, rdg_prepared **out, rdg_error *e);
    void (*release)(rdg_exec *x, rdg_prepared *prepared);
    /* Runs one step and waits for it. *output: the logits (or hidden states), rows of dim[0] floats, valid
     * until the next run; NULL if the plan has none. times: [n_nodes] or NULL. */
    rdg_err (*run)(rdg_exec *x, rdg_prepared *prepared, const rdg_step *step, const float **output,
                   rdg_node_time *times, rdg_error *e);
    /* Optional. A plan of one token and one row of logits. The next step is submitted while one runs, so up
     * to one step more than *n_done may have stored keys behind the last position. */
    rdg_err (*generate)(rdg_exec *x, rdg_prepared *prepared, const rdg_generate *g, int64_t *n_done,
                        rdg_error *e);
    /* Copies a state between the executor and dense host memory. */
    rdg_err (*read_state)(rdg_exec *x, rdg_state_kind kind, int32_t index, void *dst, size_t bytes,
                          rdg_error *e);
    rdg_err (*write_state)(rdg_exec *x, rdg_state_kind kind, int32_t index, const void *src, size_t bytes,
                           rdg_error *e);
    /* The kernel that runs node i of a prepared plan; NULL if the node is part of a later one's launch. */
    const char *(*kernel_name)(rdg_exec *x, const rdg_prepared *prepared, size_t i);
} rdg_exec_class;

struct rdg_exec {
    const rdg_exec_class *class;
    const rdg_gguf *gguf;
    uint64_t state_bytes, scratch_bytes; /* allocated so far */
    uint64_t upload_bytes;               /* weights copied to the device so far */
    double upload_seconds;
    rdg_placement placements[RDG_PLACEMENTS_MAX]; /* none where no choice was made */
    int n_placements;
};

static inline void rdg_exec_destroy(rdg_exec *x)
{
    if (x) x->class->destroy(x);
}
/* Every executor's own rdg_prepared begins with this. */
struct rdg_prepared {
    rdg_plan *plan;
};

/* Devices and weights that executors of one file have in common; it must outlive them. */
typedef struct rdg_exec_shared rdg_exec_shared;
rdg_err rdg_exec_shared_create(rdg_exec_shared **out, rdg_error *e);
void rdg_exec_shared_destroy(rdg_exec_shared *s);

typedef struct rdg_exec_request {
    const char *device; /* "cpu", "vulkan:0", "auto" or NULL = "cpu" */
    const rdg_gguf *gguf;
    rdg_exec_shared *shared; /* NULL: nothing is shared */
    rdg_pool *pool;          /* stays the caller's and must outlive the executor */
    uint32_t cpu_mask;       /* RDG_CPU_* levels to use */
    const char *variant;     /* variant to prefer, or NULL */
    const char *cache_dir;   /* where compiled kernels are kept; NULL = nowhere */
    const rdg_log *log;      /* what was chosen and why */
    /* For a GPU that may be too small: the session's largest plan and its plan for one token, which tell how
     * much memory is needed. NULL: everything goes there. */
    const rdg_plan *sizing[2];
    int64_t gpu_layers;           /* 0 = as many blocks as fit, -1 = none */
    uint64_t device_memory_bytes; /* 0 = what is free */
} rdg_exec_request;
rdg_err rdg_exec_create(const rdg_exec_request *r, rdg_exec **out, rdg_error *e);
rdg_err rdg_exec_create_cpu(const rdg_exec_request *r, rdg_exec **out, rdg_error *e);

#endif
