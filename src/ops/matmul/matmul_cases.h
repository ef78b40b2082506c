#ifndef RDG_OPS_MATMUL_CASES_H
#define RDG_OPS_MATMUL_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_matmul_cases, rdg_matvec_cases;
#endif
