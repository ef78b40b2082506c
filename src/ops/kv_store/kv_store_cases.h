#ifndef RDG_OPS_KV_STORE_CASES_H
#define RDG_OPS_KV_STORE_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_kv_store_cases;
#endif
