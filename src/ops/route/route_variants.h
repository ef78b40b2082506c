/* The rows of route's table. */
#ifndef RDG_OPS_ROUTE_VARIANTS_H
#define RDG_OPS_ROUTE_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_route_c;
#endif
