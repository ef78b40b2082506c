/* route: choose n_used experts per token and their weights from router logits
 *
 * logits   F32 [n_experts, n_tokens]
 * ids      I32 [n_used, n_tokens]   out: by falling logit; ties to the lower index
 * weights  F32 [n_used, n_tokens]   out
 * SOFTMAX: softmax over all experts, the chosen ones kept as they are. RENORMALISED: then divided by their
 * sum. TOPK_SOFTMAX: softmax over the chosen logits only. All weights are then multiplied by scale. */
#ifndef RDG_OPS_ROUTE_H
#define RDG_OPS_ROUTE_H
#include "ops/op.h"
typedef enum rdg_route_kind {
    RDG_ROUTE_SOFTMAX,
    RDG_ROUTE_RENORMALISED,
    RDG_ROUTE_TOPK_SOFTMAX
} rdg_route_kind;
typedef struct rdg_route_params {
    int32_t kind; /* rdg_route_kind */
    float scale;
} rdg_route_params;
enum { RDG_ROUTE_LOGITS, RDG_ROUTE_IDS, RDG_ROUTE_WEIGHTS };
extern const rdg_op rdg_op_route;
#endif
