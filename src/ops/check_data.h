/* Operands of one checked call: memory with guards, and random content. Used by the checker and by bench-op.
 */
#ifndef RDG_OPS_CHECK_DATA_H
#define RDG_OPS_CHECK_DATA_H

#include "base/rng.h"
#include "ops/op.h"

/* Memory of one operand. Guard words (signalling NaNs as f32: arithmetic on one changes its bits) lie before,
 * between and after its rows. */
typedef struct rdg_check_block {
    char *memory;
    size_t bytes;
    int shared_with; /* the operand that owns the memory, or -1 */
} rdg_check_block;

typedef enum rdg_check_content {
    RDG_CHECK_NORMAL,
    RDG_CHECK_HEAVY_TAILED, /* outliers, as activations of trained models have them */
    RDG_CHECK_GRID, /* a power of two times integers up to 127: rounding to 8-bit blocks loses nothing */
    RDG_CHECK_CONTENT_COUNT
} rdg_check_content;

typedef struct rdg_check_data {
    rdg_check_content content;
    rdg_check_block block[RDG_MAX_OPERANDS];
} rdg_check_data;

/* Allocates, fills and sets operand[].data of the call. Half of the seeds place rows off the cache line, half
 * draw heavy-tailed values. */
rdg_err rdg_check_data_create(rdg_check_data *d, rdg_op_call *call, const rdg_case_set *cases, int i,
                              uint64_t seed, rdg_error *e);
void rdg_check_data_finish(rdg_check_data *d);

/* Random content of a tensor in host memory; rows only. */
rdg_err rdg_check_fill(const rdg_tensor *t, rdg_rng *rng, rdg_check_content content, rdg_error *e);

#endif
