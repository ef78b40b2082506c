/* Lifetimes and the memory plan: which scratch values may share bytes because they never live at the same
 * time. */
#include "graph/plan_internal.h"

#include <stdlib.h>

enum { PLACE_ALIGN = 256 }; /* covers every device's storage-buffer offset alignment */

static bool is_placed_kind(const rdg_value *v)
{
    return v->kind == RDG_VALUE_SCRATCH || v->kind == RDG_VALUE_OUTPUT;
}

static void find_lifetimes(rdg_plan *p)
{
    for (size_t i = 0; i < p->n_nodes; i++) {
        const rdg_node *n = &p->nodes[i];
        for (int k = 0; k < n->op->n_operands; k++) {
            rdg_value_id id = rdg_plan_base(p, n->operand[k]);
            if (id == RDG_NO_VALUE) continue;
            rdg_value *v = &p->values[id];
            if (v->first_use < 0) v->first_use = (int32_t)i;
            v->last_use = (int32_t)i;
        }
    }
    /* The session reads outputs after the run. */
    for (size_t i = 0; i < p->n_values; i++)
        if (p->values[i].kind == RDG_VALUE_OUTPUT) p->values[i].last_use = (int32_t)p->n_nodes;
}

typedef struct placement {
    int64_t bytes;
    rdg_value_id value;
} placement;

static int larger_first(const void *a, const void *b)
{
    const placement *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Lowest offset at which `bytes` fit beside every placed value that lives at the same time. O(placed^2) at
 * worst. */
static int64_t lowest_fit(const rdg_plan *p, const placement *placed, size_t n_placed, const rdg_value *v,
                          int64_t bytes)
{
    int64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < n_placed; i++) {
            const rdg_value *o = &p->values[placed[i].value];
            if (o->last_use < v->first_use || o->first_use > v->last_use) continue;
            if (offset + bytes <= o->place || o->place + placed[i].bytes <= offset) continue;
            offset = o->place + placed[i].bytes;
            moved = true;
        }
    }
    return offset;
}

void rdg_plan_place(rdg_plan *p)
{
    size_t n = 0;
    find_lifetimes(p);
    placement *list = rdg_alloc_array(p->n_values, sizeof *list);
    if (!list) {
        rdg_plan_fail(p, RDG_E_NOMEM, "no memory to place %zu values", p->n_values);
        return;
    }
    for (size_t i = 0; i < p->n_values; i++) {
        const rdg_value *v = &p->values[i];
        if (is_placed_kind(v) && v->first_use >= 0)
            list[n++] = (placement){rdg_round_up(rdg_tensor_bytes(&v->shape), PLACE_ALIGN), (rdg_value_id)i};
    }
    qsort(list, n, sizeof *list, larger_first);
    p->scratch_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        rdg_value *v = &p->values[list[i].value];
        v->place = lowest_fit(p, list, i, v, list[i].bytes);
        p->scratch_bytes = RDG_MAX(p->scratch_bytes, v->place + list[i].bytes);
    }
    rdg_free(list);
}
