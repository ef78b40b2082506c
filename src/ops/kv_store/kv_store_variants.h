/* The rows of kv_store's table. */
#ifndef RDG_OPS_KV_STORE_VARIANTS_H
#define RDG_OPS_KV_STORE_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_kv_store_c;
#endif
