#ifndef RDG_OPS_COMBINE_CASES_H
#define RDG_OPS_COMBINE_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_combine_cases;
#endif
