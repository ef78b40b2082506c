/* The executor of models whose first blocks run on the CPU and whose last ones run on a GPU. */
#ifndef RDG_GRAPH_SPLIT_EXEC_H
#define RDG_GRAPH_SPLIT_EXEC_H

#include "graph/exec.h"

/* The stages below first_stage (place.h) run on `cpu`, the others on `gpu`. Takes over both executors, on
 * failure too. */
rdg_err rdg_exec_create_split(rdg_exec *cpu, rdg_exec *gpu, int64_t first_stage, rdg_exec **out,
                              rdg_error *e);

/* The executor of the GPU's part; NULL if x is another kind. */
rdg_exec *rdg_exec_split_gpu(const rdg_exec *x);

#endif
