#ifndef RDG_OPS_SAMPLE_CASES_H
#define RDG_OPS_SAMPLE_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_sample_cases;
#endif
