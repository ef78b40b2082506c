#ifndef RDG_OPS_ADD_CASES_H
#define RDG_OPS_ADD_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_add_cases;
#endif
