#ifndef RDG_OPS_MUL_CASES_H
#define RDG_OPS_MUL_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_mul_cases;
#endif
