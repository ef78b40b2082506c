/* Shared by the files of src/graph that build and transform a plan; model files do not include this. */
#ifndef RDG_GRAPH_PLAN_INTERNAL_H
#define RDG_GRAPH_PLAN_INTERNAL_H

#include "graph/plan.h"

rdg_value_id rdg_plan_new_value(rdg_plan *p, rdg_value_kind kind, const char *name, const rdg_tensor *shape);
/* Appends a node; operands has op->n_operands entries, params op->param_bytes bytes (or NULL). */
void rdg_plan_append(rdg_plan *p, const rdg_op *op, const rdg_value_id *operands, const void *params,
                     const char *tag);
/* The value that owns v's memory: v itself or a view's base. */
static inline rdg_value_id rdg_plan_base(const rdg_plan *p, rdg_value_id v)
{
    return v != RDG_NO_VALUE && p->values[v].kind == RDG_VALUE_VIEW ? p->values[v].base : v;
}

void rdg_plan_fuse(rdg_plan *p, bool merge); /* fuse.c: dead nodes always go, merging is optional */
void rdg_plan_place(rdg_plan *p);            /* memory.c: first and last uses, then places */

/* cut.c. The value that operations before `node` compute and later ones read; RDG_NO_VALUE with an error
 * unless it is exactly one. */
rdg_value_id rdg_plan_crossing(const rdg_plan *p, size_t node, rdg_error *e);
/* Operations first … end - 1 of a finished plan as a finished plan. `in` becomes its carried input, `out` its
 * output; either may be RDG_NO_VALUE. Names are borrowed from p. */
rdg_err rdg_plan_cut(const rdg_plan *p, size_t first, size_t end, rdg_value_id in, rdg_value_id out,
                     rdg_plan **part, rdg_error *e);

#endif
