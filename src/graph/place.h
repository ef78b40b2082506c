/* Which blocks of a model run on a GPU that may be too small for all of them.
 *
 * The last blocks and the output layer go to the GPU, the embedding and the first blocks stay on the CPU: the
 * hidden state crosses once a step, the embedding table (which the CPU only looks up) takes no device memory,
 * and logits are picked from where they are computed. The sizes come from the plan that will run. */
#ifndef RDG_GRAPH_PLACE_H
#define RDG_GRAPH_PLACE_H

#include "graph/plan.h"
#include <ridge/model.h>

typedef struct rdg_place_request {
    const rdg_plan *plan;  /* the session's largest */
    int64_t n_gpu_blocks;  /* wanted; < 0: as many as fit */
    uint64_t budget_bytes; /* of device memory */
    uint64_t fixed_bytes;  /* of it, for what does not depend on the number of blocks: scratch, outputs */
    bool weights_in_place; /* the device reads them from the file's map */
} rdg_place_request;

/* Stage 0 is what stands before the blocks, 1 … n_blocks the blocks, n_blocks + 1 what follows them. */
typedef struct rdg_place_sizes {
    int64_t n_blocks, n_gpu_blocks;
    int64_t first_stage;                   /* on the GPU from here on; 0: everything; > n_blocks: nothing */
    uint64_t weight_bytes[2], kv_bytes[2]; /* CPU, GPU; a weight that both use counts twice */
    uint64_t device_bytes;                 /* of all that is placed on the GPU */
    uint64_t one_more_bytes;               /* what the stage before would have added */
} rdg_place_sizes;

/* Device memory that a weight or a state of so many bytes takes. */
uint64_t rdg_place_weight_bytes(uint64_t bytes);
rdg_err rdg_place_blocks(const rdg_place_request *r, rdg_place_sizes *out, rdg_error *e);
/* The first operation of a stage or a later one; n_nodes if there is none. */
size_t rdg_place_first_node(const rdg_plan *p, int64_t stage);

#endif
