#ifndef RDG_OPS_RMSNORM_CASES_H
#define RDG_OPS_RMSNORM_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_rmsnorm_cases;
#endif
