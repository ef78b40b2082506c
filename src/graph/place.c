#include "graph/place.h"
#include "graph/plan_internal.h"

#include <inttypes.h>

enum { ALIGN_BYTES = 256 };

uint64_t rdg_place_weight_bytes(uint64_t bytes)
{
    return (uint64_t)rdg_round_up((int64_t)bytes, ALIGN_BYTES) + ALIGN_BYTES; /* kernels read past the end */
}

static int64_t count_blocks(const rdg_plan *p)
{
    int64_t n = 0;
    for (size_t i = 0; i < p->n_nodes; i++) n = RDG_MAX(n, p->nodes[i].layer + 1);
    return n;
}

static int64_t stage_of(const rdg_plan *p, size_t node, int64_t n_blocks)
{
    if (p->nodes[node].layer >= 0) return p->nodes[node].layer + 1;
    for (size_t i = node; i < p->n_nodes; i++)
        if (p->nodes[i].layer >= 0) return 0;
    return n_blocks + 1;
}

size_t rdg_place_first_node(const rdg_plan *p, int64_t stage)
{
    int64_t n_blocks = count_blocks(p);
    size_t i = 0;
    while (i < p->n_nodes && stage_of(p, i, n_blocks) < stage) i++;
    return i;
}

/* The stages that use a value. */
typedef struct span {
    int64_t first, last; /* first < 0: none */
} span;

static span *find_spans(const rdg_plan *p, int64_t n_blocks)
{
    span *spans = rdg_alloc_array(p->n_values + 1, sizeof *spans);
    if (!spans) return NULL;
    for (size_t i = 0; i < p->n_values; i++) spans[i].first = -1;
    for (size_t i = 0; i < p->n_nodes; i++) {
        int64_t stage = stage_of(p, i, n_blocks);
        for (int k = 0; k < p->nodes[i].op->n_operands; k++) {
            rdg_value_id v = rdg_plan_base(p, p->nodes[i].operand[k]);
            if (v == RDG_NO_VALUE) continue;
            if (spans[v].first < 0) spans[v].first = stage;
            spans[v].last = stage;
        }
    }
    return spans;
}

/* Bytes when stages from `first` on are on the GPU. */
static void add_up(const rdg_plan *p, const span *spans, int64_t first, rdg_place_sizes *s)
{
    s->weight_bytes[0] = s->weight_bytes[1] = s->kv_bytes[0] = s->kv_bytes[1] = 0;
    for (size_t i = 0; i < p->n_values; i++) {
        const rdg_value *v = &p->values[i];
        if (spans[i].first < 0 || (v->kind != RDG_VALUE_WEIGHT && v->kind != RDG_VALUE_STATE)) continue;
        uint64_t *bytes = v->kind == RDG_VALUE_WEIGHT ? s->weight_bytes : s->kv_bytes;
        uint64_t n = v->kind == RDG_VALUE_WEIGHT ? v->weight->bytes : (uint64_t)rdg_tensor_bytes(&v->shape);
        if (spans[i].first < first) bytes[0] += n;
        if (spans[i].last >= first) bytes[1] += rdg_place_weight_bytes(n);
    }
}

rdg_err rdg_place_blocks(const rdg_place_request *r, rdg_place_sizes *out, rdg_error *e)
{
    const rdg_plan *p = r->plan;
    int64_t n = count_blocks(p), wanted = r->n_gpu_blocks, first = 0;
    *out = (rdg_place_sizes){.n_blocks = n};
    span *spans = find_spans(p, n);
    if (!spans) return rdg_fail(e, RDG_E_NOMEM, "no memory to place %zu values", p->n_values);
    if (wanted == 0)
        first = n + 2;
    else if (wanted > 0 && wanted < n)
        first = n - wanted + 1;
    uint64_t least = 0;
    for (uint64_t before = 0;; first = first == n ? n + 2 : first + 1) {
        add_up(p, spans, first, out);
        out->device_bytes =
            (r->weights_in_place ? 0 : out->weight_bytes[1]) + out->kv_bytes[1] + r->fixed_bytes;
        out->one_more_bytes = before > out->device_bytes ? before - out->device_bytes : 0;
        if (first <= n) least = out->device_bytes;
        before = out->device_bytes;
        if (wanted >= 0 || out->device_bytes <= r->budget_bytes || first > n) break;
    }
    out->first_stage = first;
    out->n_gpu_blocks = first == 0 ? n : first <= n ? n - first + 1 : 0;
    if (first > n) { /* what was tried last was the least there is */
        out->device_bytes = 0;
        out->one_more_bytes = wanted < 0 ? least : 0;
    }
    rdg_free(spans);
    return RDG_OK;
}
