#ifndef RDG_OPS_ROUTE_CASES_H
#define RDG_OPS_ROUTE_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_route_cases;
#endif
