/* A plan: a flat list of operations over named values with static shapes, for a fixed number of tokens.
 *
 * Model files build plans through the functions below and know nothing of devices. Passes (fuse.c, memory.c)
 * then merge operations, give scratch values their place by lifetime, and an executor (cpu_exec.c, or a
 * device's recorder) runs it. Building is cheap (some hundred nodes), so there is one plan per number of
 * tokens a step; step inputs (token ids, positions, rows to keep) are values of kind INPUT that the session
 * fills before each run.
 *
 * Ownership: everything belongs to the plan's arena. Building never fails in the middle: the first error is
 * kept in the plan, later calls do nothing and return RDG_NO_VALUE, and rdg_plan_finish reports it. */
#ifndef RDG_GRAPH_PLAN_H
#define RDG_GRAPH_PLAN_H

#include "base/mem.h"
#include "ops/op.h"
#include "ops/glu/glu.h"
#include "ops/rope/rope.h"
#include "ops/route/route.h"
#include <ridge/gguf.h>

typedef int32_t rdg_value_id;
#define RDG_NO_VALUE ((rdg_value_id)-1)

typedef enum rdg_value_kind {
    RDG_VALUE_WEIGHT,  /* a tensor of the file: read-only, lies in the map */
    RDG_VALUE_INPUT,   /* filled by the session before a run */
    RDG_VALUE_STATE,   /* survives runs: KV cache, importance sums; owned by the session */
    RDG_VALUE_SCRATCH, /* lives between its first and last use inside one run */
    RDG_VALUE_OUTPUT,  /* scratch that the session reads after the run: logits, embeddings */
    RDG_VALUE_VIEW,    /* part of another value */
} rdg_value_kind;

typedef struct rdg_value {
    rdg_value_kind kind;
    const char *name;
    rdg_tensor shape;              /* type, dim, stride; data and buffer unset */
    const rdg_gguf_tensor *weight; /* WEIGHT */
    int32_t state_key;             /* STATE: which (rdg_state_key) */
    rdg_value_id base;             /* VIEW: the value it is part of (never itself a view) */
    int64_t offset_bytes;          /* VIEW: from the base's start */
    int64_t place;                 /* SCRATCH, OUTPUT: offset in the scratch block, set by rdg_plan_finish */
    int32_t first_use, last_use;   /* node indices */
} rdg_value;

typedef struct rdg_node {
    const rdg_op *op;
    rdg_value_id operand[RDG_MAX_OPERANDS];
    unsigned char params[RDG_OP_PARAM_BYTES];
    int32_t layer;   /* block number, -1 outside blocks */
    const char *tag; /* role: "attn_q", "ffn_down", … for reports */
} rdg_node;

/* STATE values are the same memory in every plan of a session: they are named by kind and layer. */
typedef enum rdg_state_kind {
    RDG_STATE_K,
    RDG_STATE_V,
    RDG_STATE_IMATRIX_SUMS,
    RDG_STATE_IMATRIX_COUNTS
} rdg_state_kind;
typedef struct rdg_state {
    rdg_state_kind kind;
    int32_t index; /* layer, or number of the weight for IMATRIX_* */
    rdg_tensor shape;
    const char *weight; /* IMATRIX_*: the weight's name */
} rdg_state;

typedef struct rdg_plan_options {
    int64_t n_tokens;  /* tokens a run */
    int64_t n_outputs; /* rows of logits kept: 0, 1 … n_tokens */
    int64_t n_ctx;     /* positions the KV cache must hold */
    int64_t n_batch;   /* most tokens of any plan of this session (sizes window caches) */
    rdg_type kv_type_k, kv_type_v;
    bool collect_imatrix; /* add sumsq nodes in front of every weight of a block */
    bool embeddings;      /* output the final hidden states (all tokens) instead of logits */
} rdg_plan_options;

typedef struct rdg_plan {
    rdg_arena arena;
    const rdg_gguf *gguf;
    rdg_plan_options options;
    rdg_value *values;
    size_t n_values, cap_values;
    rdg_node *nodes;
    size_t n_nodes, cap_nodes;
    rdg_state *states;
    size_t n_states, cap_states;
    /* Values every plan has. tokens, positions: I32 [n_tokens]; output_rows: I32 [n_outputs], indices of
     * tokens. */
    rdg_value_id tokens, positions, output_rows, logits, hidden;
    rdg_value_id carried;  /* INPUT of a part of a plan: the hidden state that the part before computed */
    int64_t scratch_bytes; /* after rdg_plan_finish */
    int32_t layer;         /* building: current block */
    rdg_error error;       /* first error while building */
} rdg_plan;

rdg_err rdg_plan_create(const rdg_gguf *g, const rdg_plan_options *o, rdg_plan **out, rdg_error *e);
void rdg_plan_destroy(rdg_plan *p);
/* Passes, memory plan, checks of every node against its contract. `fuse` off keeps the nodes as built (for
 * tests). */
rdg_err rdg_plan_finish(rdg_plan *p, bool fuse, rdg_error *e);
bool rdg_plan_failed(const rdg_plan *p);
rdg_err rdg_plan_fail(rdg_plan *p, rdg_err code, const char *fmt, ...) RDG_PRINTF(3, 4); /* keeps the first */
/* One readable line per node, for tests and `-v`. */
void rdg_plan_describe(const rdg_plan *p, rdg_buf *out);
/* The call of node i with shapes and params filled, no data. */
void rdg_plan_call(const rdg_plan *p, size_t i, rdg_op_call *call);

/* Values
 * ------------------------------------------------------------------------------------------------------ */

void rdg_plan_set_layer(rdg_plan *p, int32_t layer);                 /* -1 outside blocks */
const rdg_tensor *rdg_plan_shape(const rdg_plan *p, rdg_value_id v); /* a zero shape for RDG_NO_VALUE */

/* A weight by name with the exact shape it must have (d1 or d2 = 0: 1-D or 2-D). Absent: an error that names
 * it, or RDG_NO_VALUE from the _optional form. The shape of an existing tensor is always checked. */
rdg_value_id rdg_plan_weight(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2);
rdg_value_id rdg_plan_weight_optional(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2);
/* "blk.<layer>.<name>" with the current layer. */
rdg_value_id rdg_plan_block_weight(rdg_plan *p, const char *name, int64_t d0, int64_t d1, int64_t d2);
rdg_value_id rdg_plan_block_weight_optional(rdg_plan *p, const char *name, int64_t d0, int64_t d1,
                                            int64_t d2);

/* Views cost nothing. reshape: same elements, dense base. rows: elements [first, first + n) of dim 0 of every
 * row. */
rdg_value_id rdg_plan_reshape(rdg_plan *p, rdg_value_id x, int64_t d0, int64_t d1, int64_t d2);
rdg_value_id rdg_plan_slice(rdg_plan *p, rdg_value_id x, int64_t first, int64_t n);

/* Operations: each appends one node and returns its (first) output. Optional operands take RDG_NO_VALUE.
 * ---------- */

rdg_value_id rdg_plan_embed(rdg_plan *p, rdg_value_id table, rdg_value_id ids, float scale, const char *tag);
rdg_value_id rdg_plan_rmsnorm(rdg_plan *p, rdg_value_id x, rdg_value_id weight, float eps, const char *tag);
rdg_value_id rdg_plan_layernorm(rdg_plan *p, rdg_value_id x, rdg_value_id weight, rdg_value_id bias,
                                float eps, const char *tag);
/* y = W x (+ bias): matvec or matmul by the number of tokens; adds the sumsq node when an imatrix is
 * collected. */
rdg_value_id rdg_plan_linear(rdg_plan *p, rdg_value_id weight, rdg_value_id x, rdg_value_id bias,
                             const char *tag);
rdg_value_id rdg_plan_rope(rdg_plan *p, rdg_value_id x, rdg_value_id factors, const rdg_rope_params *rp,
                           const char *tag);
/* Stores k and v ([head_dim, n_kv_heads, n_tokens]) into the layer's caches and attends. window 0 =
 * unlimited; layers with a window keep only what the window and one batch need. `sinks` optional. Not causal:
 * k and v are attended directly (no cache). Returns [head_dim_v * n_heads, n_tokens]. */
typedef struct rdg_attention_spec {
    float scale, softcap;
    int32_t window;
    bool causal;
    rdg_value_id sinks;
} rdg_attention_spec;
rdg_value_id rdg_plan_attention(rdg_plan *p, rdg_value_id q, rdg_value_id k, rdg_value_id v,
                                const rdg_attention_spec *spec);
rdg_value_id rdg_plan_glu(rdg_plan *p, rdg_value_id gate, rdg_value_id up, const rdg_glu_params *gp,
                          const char *tag);
rdg_value_id rdg_plan_act(rdg_plan *p, rdg_value_id x, rdg_act_kind act, float cap, const char *tag);
rdg_value_id rdg_plan_add(rdg_plan *p, rdg_value_id a, float a_scale, rdg_value_id b, float b_scale,
                          const char *tag);
rdg_value_id rdg_plan_mul(rdg_plan *p, rdg_value_id a, rdg_value_id b, const char *tag);
void rdg_plan_route(rdg_plan *p, rdg_value_id logits, int64_t n_used, rdg_route_kind kind, float scale,
                    rdg_value_id *ids, rdg_value_id *weights);
/* y[:, k, t] = W[:, :, ids[k, t]] x[:, k or 0, t] (+ bias of the expert) */
rdg_value_id rdg_plan_experts(rdg_plan *p, rdg_value_id weight, rdg_value_id x, rdg_value_id ids,
                              rdg_value_id bias, const char *tag);
rdg_value_id rdg_plan_combine(rdg_plan *p, rdg_value_id x, rdg_value_id weights, rdg_value_id residual,
                              const char *tag);
/* Keeps the rows of x that output_rows names; x itself when every row is kept in order. */
rdg_value_id rdg_plan_keep_outputs(rdg_plan *p, rdg_value_id x);
/* Declares what the session reads: logits [n_vocab, n_outputs], or hidden states for embeddings. */
void rdg_plan_set_logits(rdg_plan *p, rdg_value_id x);
void rdg_plan_set_hidden(rdg_plan *p, rdg_value_id x);

#endif
