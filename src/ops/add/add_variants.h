/* The rows of add's table. */
#ifndef RDG_OPS_ADD_VARIANTS_H
#define RDG_OPS_ADD_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_add_c;
#endif
