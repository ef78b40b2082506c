/* Inside of the GPU executor: gpu_exec.c (memory, plans, runs) and gpu_generate.c (decoding that stays on the
 * device). */
#ifndef RDG_GRAPH_GPU_EXEC_INTERNAL_H
#define RDG_GRAPH_GPU_EXEC_INTERNAL_H

#include "graph/gpu.h"

enum { RDG_GPU_RECORDINGS = 6 };
#define RDG_GPU_TIMEOUT_NS ((int64_t)120 * 1000000000)

/* What the list of a plan does at its end and beside its launches: part of what it is recorded for. */
typedef struct gpu_recipe {
    rdg_gpu_stamps stamps;
    bool clock;   /* chained launches time themselves, see rdg_gpu_spans */
    int copy;     /* the same list again, for steps whose timestamps are read while the next one runs */
    bool goes_on; /* picks its token and goes on by itself instead of copying the logits out */
    rdg_sample_params sample;
} gpu_recipe;

/* What the host writes before a step, in one mapped buffer. */
enum { INPUT_TOKENS, INPUT_POSITIONS, INPUT_ROWS, INPUT_CARRIED, INPUT_DRAW, INPUT_COUNT };

typedef struct recording {
    rdg_list *list;
    int64_t n_visible;
    gpu_recipe recipe;
    rdg_gpu_spans spans; /* with RDG_STAMPS_SPANS, the picking of the token included */
    rdg_buffer *clock;   /* what spans.clock is the address of */
    uint64_t used;       /* for choosing which to drop */
} recording;

typedef struct gpu_prepared {
    rdg_prepared base;
    rdg_gpu_schedule schedule;
    rdg_buffer *inputs;
    uint64_t input_offset[INPUT_COUNT];
    rdg_buffer *output;
    rdg_value_id output_value;
    bool exact_visible; /* an attention that is not causal: its length is part of the recording */
    bool steps;         /* has attention steps */
    /* Of the memory that all plans share: what this one needs. */
    uint64_t scratch_bytes, kernel_bytes, step_bytes, sample_bytes, chain_bytes;
    recording recordings[RDG_GPU_RECORDINGS];
    uint64_t clock;
} gpu_prepared;

typedef struct gpu_state {
    rdg_state_kind kind;
    int32_t index;
    rdg_buffer *buffer;
    uint64_t bytes;
} gpu_state;

typedef struct gpu_exec {
    rdg_exec base;
    rdg_gpu_context *context; /* may be other sessions' as well */
    rdg_device *device;       /* the context's */
    rdg_gpu_weights *weights; /* the context's */
    rdg_gpu_cache *cache;
    rdg_pool *pool;
    const rdg_log *log;
    char variant[64];
    bool chains; /* false: barriers between all launches that depend on each other */
    enum { CLOCK_UNKNOWN, CLOCK_SAME, CLOCK_OTHER } clock; /* the one that kernels read, beside timestamps' */
    gpu_state *states;
    size_t n_states, cap_states;
    rdg_buffer *scratch, *kernel_scratch, *step_scratch;
    rdg_buffer *sample_scratch, *ring, *chain;
    gpu_prepared **prepared;
    size_t n_prepared, cap_prepared;
} gpu_exec;

/* The list for a step that sees n_visible positions, recorded now or before. */
rdg_err rdg_gpu_exec_record(gpu_exec *x, gpu_prepared *c, int64_t n_visible, const gpu_recipe *recipe,
                            recording **out, rdg_error *e);
/* An input of the next submit: INPUT_…, n words. */
void rdg_gpu_exec_input(const gpu_prepared *c, int i, const void *src, int64_t n);
/* Makes *b at least this large; what was recorded with the old one is dropped. zero: clears what is new. */
rdg_err rdg_gpu_exec_grow(gpu_exec *x, rdg_buffer **b, uint64_t bytes, bool zero, const char *label,
                          rdg_error *e);
/* Gives *b back with all that was recorded with it: the next use makes it anew. */
void rdg_gpu_exec_forget(gpu_exec *x, rdg_buffer **b);
/* Finishes a list that does one thing, runs it and waits. */
rdg_err rdg_gpu_exec_run_list(gpu_exec *x, rdg_list *l, rdg_error *e);

/* gpu_generate.c */
rdg_err rdg_gpu_exec_generate(rdg_exec *base, rdg_prepared *prepared, const rdg_generate *g, int64_t *n_done,
                              rdg_error *e);
/* The end of a step that goes on by itself: picks the token and puts it where the next step looks for it.
 * spans: NULL without RDG_STAMPS_SPANS. */
rdg_err rdg_gpu_record_sampling(gpu_exec *x, const gpu_prepared *c, const rdg_tensor *logits,
                                const gpu_recipe *recipe, rdg_list *l, rdg_gpu_spans *spans, rdg_error *e);

#endif
