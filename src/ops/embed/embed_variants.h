/* The rows of embed's table. */
#ifndef RDG_OPS_EMBED_VARIANTS_H
#define RDG_OPS_EMBED_VARIANTS_H
#include "ops/op.h"
extern const rdg_variant rdg_embed_c;
#endif
