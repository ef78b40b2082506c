/* kv_store: cache[:, pos[t] mod n_slots, h] = x[:, h, t], converted to the cache's type
 *
 * x      F32 [head_dim, n_kv_heads, n_tokens]; heads and tokens may be strided
 * pos    I32 [n_tokens], distinct slots; a negative position stores nothing
 * cache  F32, F16, BF16, Q8_0 or Q4_0 [head_dim, n_slots, n_kv_heads]  in/out: other slots keep their values
 *
 * A head's keys lie together, so that attention reads one contiguous range per head. */
#ifndef RDG_OPS_KV_STORE_H
#define RDG_OPS_KV_STORE_H
#include "ops/op.h"
enum { RDG_KV_STORE_X, RDG_KV_STORE_POS, RDG_KV_STORE_CACHE };
extern const rdg_op rdg_op_kv_store;
#endif
