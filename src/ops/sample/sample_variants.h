/* The rows of sample's table. */
#ifndef RDG_OPS_SAMPLE_VARIANTS_H
#define RDG_OPS_SAMPLE_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_sample_c;
#endif
