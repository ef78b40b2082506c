#ifndef RDG_OPS_EMBED_CASES_H
#define RDG_OPS_EMBED_CASES_H
#include "ops/op.h"
extern const rdg_case_set rdg_embed_cases;
#endif
