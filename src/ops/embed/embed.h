/* embed: out[:, t] = scale * table[:, ids[t]]
 *
 * table  any type that can be dequantised  [n_embd, n_rows]
 * ids    I32  [n_tokens]                   0 <= ids[t] < n_rows (a negative id gives a row of zeros)
 * out    F32  [n_embd, n_tokens]
 * With an F32 table it is the selection of rows of any activation. */
#ifndef RDG_OPS_EMBED_H
#define RDG_OPS_EMBED_H
#include "ops/op.h"
typedef struct rdg_embed_params {
    float scale;
} rdg_embed_params;
enum { RDG_EMBED_TABLE, RDG_EMBED_IDS, RDG_EMBED_OUT };
extern const rdg_op rdg_op_embed;
#endif
