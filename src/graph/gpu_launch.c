/* Nodes → launches. For a plan of one token, what stands around a product or an attention is done by the same
 * kernel:
 *
 *   rmsnorm → products          the norm is computed by every product itself
 *   two products → glu          one launch
 *   (norm) rope, kv_store, attention   one launch
 *
 * A value that a merged node would have read early is read later now, so places are chosen anew from the
 * launches' lifetimes. They are kept a few launches longer than needed: memory that is used again at once
 * would order launches that are independent. */
#include "graph/gpu.h"
#include "ops/glu/glu.h"
#include "ops/kv_store/kv_store.h"
#include "ops/matmul/matmul.h"
#include "ops/rmsnorm/rmsnorm.h"

#include <stdlib.h>
#include <string.h>

enum { PLACE_ALIGN = 256, KEEP_LAUNCHES = 6 };

typedef struct matcher {
    const rdg_plan *p;
    const rdg_device_facts *facts;
    rdg_gpu_weights *weights;
    int32_t *n_reads;       /* by base value: operands that read it */
    int32_t *producer;      /* by value: the node that writes it whole, -1 if none or several */
    bool *absorbed;         /* by node: done by another's launch */
    rdg_gpu_launch *merged; /* by node: launch that takes its place; n_reads 0 = none */
} matcher;

static bool is_scratch(const matcher *m, rdg_value_id v)
{
    return v != RDG_NO_VALUE && m->p->values[v].kind == RDG_VALUE_SCRATCH;
}

/* Step kernels read these through the caches of a core, which do not see what another launch of their chain
 * writes. */
static bool never_written(const matcher *m, rdg_value_id v)
{
    return v == RDG_NO_VALUE || m->p->values[rdg_plan_base(m->p, v)].kind == RDG_VALUE_WEIGHT;
}

static rdg_err count(matcher *m, rdg_error *e)
{
    const rdg_plan *p = m->p;
    m->n_reads = rdg_alloc_array(p->n_values + 1, sizeof *m->n_reads);
    m->producer = rdg_alloc_array(p->n_values + 1, sizeof *m->producer);
    m->absorbed = rdg_alloc_array(p->n_nodes + 1, sizeof *m->absorbed);
    m->merged = rdg_alloc_array(p->n_nodes + 1, sizeof *m->merged);
    if (!m->n_reads || !m->producer || !m->absorbed || !m->merged)
        return rdg_fail(e, RDG_E_NOMEM, "no memory to schedule %zu operations", p->n_nodes);
    for (size_t i = 0; i < p->n_values; i++) m->producer[i] = -1;
    for (size_t i = 0; i < p->n_nodes; i++) {
        const rdg_node *n = &p->nodes[i];
        for (int k = 0; k < n->op->n_operands; k++) {
            rdg_value_id v = n->operand[k];
            if (v == RDG_NO_VALUE) continue;
            if (n->op->operands[k].flags & RDG_OPERAND_IN) m->n_reads[rdg_plan_base(p, v)]++;
            if (n->op->operands[k].flags & RDG_OPERAND_OUT) {
                rdg_value_id b = rdg_plan_base(p, v);
                m->producer[b] = m->producer[b] == -1 && b == v ? (int32_t)i : -2;
            }
        }
    }
    return RDG_OK;
}

/* The node that made all of v (seen through a view of the whole), if it is `op`; -1 otherwise. */
static int32_t made_by(const matcher *m, rdg_value_id v, const rdg_op *op)
{
    const rdg_plan *p = m->p;
    if (v == RDG_NO_VALUE) return -1;
    rdg_value_id b = rdg_plan_base(p, v);
    if (!is_scratch(m, b) ||
        (b != v && (p->values[v].offset_bytes != 0 || rdg_tensor_n_elements(&p->values[v].shape) !=
                                                          rdg_tensor_n_elements(&p->values[b].shape))))
        return -1;
    int32_t i = m->producer[b];
    return i >= 0 && p->nodes[i].op == op && !m->absorbed[i] ? i : -1;
}

static int reads_of(const matcher *m, rdg_value_id v)
{
    return m->n_reads[rdg_plan_base(m->p, v)];
}

/* Shape of a value, with the device memory of a weight and the alignment of a view. */
static rdg_tensor seen(const matcher *m, rdg_value_id v)
{
    rdg_tensor t = *rdg_plan_shape(m->p, v);
    if (v == RDG_NO_VALUE) return t;
    const rdg_value *x = &m->p->values[v], *b = &m->p->values[rdg_plan_base(m->p, v)];
    int64_t offset = x->kind == RDG_VALUE_VIEW ? x->offset_bytes : 0;
    if (b->kind == RDG_VALUE_WEIGHT) {
        rdg_gpu_place place = rdg_gpu_weights_find(m->weights, b->weight);
        t.buffer = place.buffer;
        t.buffer_offset = place.offset + (uint64_t)offset;
    } else {
        t.data = (void *)(uintptr_t)offset; /* looked at modulo 16 only */
    }
    return t;
}

static bool matvec_fits(const matcher *m, const rdg_gpu_launch *l)
{
    rdg_tensor w = seen(m, l->weight), w2 = seen(m, l->weight2), x = seen(m, l->x),
               norm = seen(m, l->norm_weight);
    rdg_matvec_q8 q = {.weight = &w,
                       .weight2 = l->weight2 != RDG_NO_VALUE ? &w2 : NULL,
                       .x = &x,
                       .norm_weight = l->norm_weight != RDG_NO_VALUE ? &norm : NULL};
    return rdg_matvec_q8_accepts(&q, m->facts);
}

static bool as_matvec(const matcher *m, size_t i, rdg_gpu_launch *l)
{
    const rdg_node *n = &m->p->nodes[i];
    if (n->op != &rdg_op_matvec || m->absorbed[i]) return false;
    *l = (rdg_gpu_launch){.kind = RDG_LAUNCH_MATVEC_STEP,
                          .node = i,
                          .weight = n->operand[RDG_MATMUL_WEIGHT],
                          .weight2 = RDG_NO_VALUE,
                          .x = n->operand[RDG_MATMUL_X],
                          .norm_weight = RDG_NO_VALUE,
                          .bias = n->operand[RDG_MATMUL_BIAS],
                          .residual = n->operand[RDG_MATMUL_RESIDUAL],
                          .out = n->operand[RDG_MATMUL_OUT]};
    return never_written(m, l->weight) && never_written(m, l->bias) && matvec_fits(m, l);
}

/* Two products of one x that only a glu reads. */
static void match_glu(matcher *m, size_t i)
{
    const rdg_plan *p = m->p;
    const rdg_node *n = &p->nodes[i];
    int32_t a = made_by(m, n->operand[RDG_GLU_GATE], &rdg_op_matvec),
            b = made_by(m, n->operand[RDG_GLU_UP], &rdg_op_matvec);
    rdg_gpu_launch la, lb;
    if (a < 0 || b < 0 || a == b || !as_matvec(m, (size_t)a, &la) || !as_matvec(m, (size_t)b, &lb)) return;
    if (la.x != lb.x || la.bias != RDG_NO_VALUE || lb.bias != RDG_NO_VALUE || la.residual != RDG_NO_VALUE ||
        lb.residual != RDG_NO_VALUE || reads_of(m, la.out) != 1 || reads_of(m, lb.out) != 1)
        return;
    la.weight2 = lb.weight;
    la.out = n->operand[RDG_GLU_OUT];
    la.node = i;
    memcpy(&la.glu, n->params, sizeof la.glu);
    if (!matvec_fits(m, &la)) return;
    m->absorbed[a] = m->absorbed[b] = m->absorbed[i] = true;
    m->merged[i] = la;
    m->merged[i].n_reads = 1;
}

/* A norm goes into the products that read it when all its readers are such products. */
static void match_norm(matcher *m, size_t i)
{
    const rdg_plan *p = m->p;
    const rdg_node *norm = &p->nodes[i];
    rdg_value_id out = norm->operand[RDG_RMSNORM_OUT], x = norm->operand[RDG_RMSNORM_X],
                 w = norm->operand[RDG_RMSNORM_WEIGHT];
    rdg_rmsnorm_params np;
    memcpy(&np, norm->params, sizeof np);
    if (w == RDG_NO_VALUE || !never_written(m, w) || !is_scratch(m, out) || m->producer[out] != (int32_t)i)
        return;
    int readers = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = i + 1; k < p->n_nodes; k++) {
            rdg_gpu_launch *l = &m->merged[k];
            if (!l->n_reads || l->kind != RDG_LAUNCH_MATVEC_STEP ||
                made_by(m, l->x, &rdg_op_rmsnorm) != (int32_t)i)
                continue;
            rdg_gpu_launch with = *l;
            with.x = x;
            with.norm_weight = w;
            with.eps = np.eps;
            if (pass == 0) {
                if (!matvec_fits(m, &with)) return;
                readers += l->weight2 != RDG_NO_VALUE ? 2 : 1;
            } else {
                with.n_reads = -1; /* marked; put right below, so that made_by still sees the norm */
                *l = with;
            }
        }
        if (readers != reads_of(m, out)) return;
    }
    for (size_t k = i + 1; k < p->n_nodes; k++)
        if (m->merged[k].n_reads == -1) m->merged[k].n_reads = 1;
    m->absorbed[i] = true;
}

/* The kv_store that fills this cache; -1 unless exactly one does. */
static int32_t store_of(const matcher *m, rdg_value_id cache)
{
    int32_t found = -1;
    for (size_t i = 0; i < m->p->n_nodes; i++) {
        if (m->p->nodes[i].op != &rdg_op_kv_store || m->p->nodes[i].operand[RDG_KV_STORE_CACHE] != cache)
            continue;
        if (found >= 0) return -1;
        found = (int32_t)i;
    }
    return found;
}

/* Steps back over a rope, then over a norm, each read by nobody else. Returns the value that is left. */
static rdg_value_id step_back(const matcher *m, rdg_value_id v, int32_t *rope, int32_t *norm)
{
    *rope = reads_of(m, v) == 1 ? made_by(m, v, &rdg_op_rope) : -1;
    if (*rope >= 0) v = m->p->nodes[*rope].operand[RDG_ROPE_X];
    *norm = reads_of(m, v) == 1 ? made_by(m, v, &rdg_op_rmsnorm) : -1;
    if (*norm >= 0 && m->p->nodes[*norm].operand[RDG_RMSNORM_WEIGHT] == RDG_NO_VALUE) *norm = -1;
    if (*norm >= 0) v = m->p->nodes[*norm].operand[RDG_RMSNORM_X];
    return v;
}

static void match_attention(matcher *m, size_t i)
{
    const rdg_plan *p = m->p;
    const rdg_node *n = &p->nodes[i];
    rdg_gpu_launch l = {.kind = RDG_LAUNCH_ATTENTION_STEP,
                        .node = i,
                        .k_cache = n->operand[RDG_ATTENTION_K],
                        .v_cache = n->operand[RDG_ATTENTION_V],
                        .sinks = n->operand[RDG_ATTENTION_SINKS],
                        .out = n->operand[RDG_ATTENTION_OUT],
                        .q_norm = RDG_NO_VALUE,
                        .k_norm = RDG_NO_VALUE,
                        .factors = RDG_NO_VALUE,
                        .n_reads = 1};
    memcpy(&l.attention, n->params, sizeof l.attention);
    int32_t ks = store_of(m, l.k_cache), vs = store_of(m, l.v_cache), q_rope, q_norm, k_rope, k_norm;
    if (ks < 0 || vs < 0 || (size_t)ks > i || (size_t)vs > i) return;
    l.v = p->nodes[vs].operand[RDG_KV_STORE_X];
    l.q = step_back(m, n->operand[RDG_ATTENTION_Q], &q_rope, &q_norm);
    l.k = step_back(m, p->nodes[ks].operand[RDG_KV_STORE_X], &k_rope, &k_norm);
    if ((q_rope >= 0) != (k_rope >= 0) || (q_norm >= 0) != (k_norm >= 0)) return;
    if (q_rope >= 0) {
        const rdg_node *a = &p->nodes[q_rope], *b = &p->nodes[k_rope];
        if (memcmp(a->params, b->params, sizeof l.rope) ||
            a->operand[RDG_ROPE_FACTORS] != b->operand[RDG_ROPE_FACTORS])
            return;
        memcpy(&l.rope, a->params, sizeof l.rope);
        l.has_rope = true;
        l.factors = a->operand[RDG_ROPE_FACTORS];
    }
    if (q_norm >= 0) {
        rdg_rmsnorm_params a, b;
        memcpy(&a, p->nodes[q_norm].params, sizeof a);
        memcpy(&b, p->nodes[k_norm].params, sizeof b);
        if (a.eps != b.eps) return;
        l.eps = a.eps;
        l.q_norm = p->nodes[q_norm].operand[RDG_RMSNORM_WEIGHT];
        l.k_norm = p->nodes[k_norm].operand[RDG_RMSNORM_WEIGHT];
    }
    if (!never_written(m, l.sinks) || !never_written(m, l.q_norm) || !never_written(m, l.k_norm)) return;
    rdg_tensor q = seen(m, l.q), k = seen(m, l.k), v = seen(m, l.v), kc = seen(m, l.k_cache),
               vc = seen(m, l.v_cache), out = seen(m, l.out), qn = seen(m, l.q_norm), kn = seen(m, l.k_norm);
    rdg_attention_step s = {.q = &q,
                            .k = &k,
                            .v = &v,
                            .k_cache = &kc,
                            .v_cache = &vc,
                            .out = &out,
                            .q_norm = l.q_norm != RDG_NO_VALUE ? &qn : NULL,
                            .k_norm = l.k_norm != RDG_NO_VALUE ? &kn : NULL,
                            .rope = l.has_rope ? &l.rope : NULL,
                            .params = l.attention};
    /* q and k of the whole projection at once (olmo2) are not heads: rows of the norm must be heads */
    if (l.q_norm != RDG_NO_VALUE && (q.dim[0] != qn.dim[0] || k.dim[0] != kn.dim[0])) return;
    if (!rdg_attention_step_accepts(&s, m->facts)) return;
    const int32_t chain[] = {ks, vs, q_rope, q_norm, k_rope, k_norm, (int32_t)i};
    for (int c = 0; c < RDG_COUNTOF(chain); c++)
        if (chain[c] >= 0) m->absorbed[chain[c]] = true;
    m->merged[i] = l;
}

static void match_all(matcher *m)
{
    const rdg_plan *p = m->p;
    for (size_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].op == &rdg_op_attention) match_attention(m, i);
    for (size_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].op == &rdg_op_glu) match_glu(m, i);
    for (size_t i = 0; i < p->n_nodes; i++) {
        rdg_gpu_launch l;
        if (!as_matvec(m, i, &l)) continue;
        l.n_reads = 1;
        m->merged[i] = l;
    }
    for (size_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].op == &rdg_op_rmsnorm && !m->absorbed[i]) match_norm(m, i);
}

static void add_value(rdg_value_id *list, int *n, rdg_value_id v)
{
    if (v != RDG_NO_VALUE && *n < RDG_LAUNCH_VALUES) list[(*n)++] = v;
}

static void list_values(const rdg_plan *p, rdg_gpu_launch *l)
{
    l->n_reads = l->n_writes = 0;
    if (l->kind == RDG_LAUNCH_NODE) {
        const rdg_node *n = &p->nodes[l->node];
        for (int k = 0; k < n->op->n_operands; k++) {
            if (n->op->operands[k].flags & RDG_OPERAND_IN) add_value(l->reads, &l->n_reads, n->operand[k]);
            if (n->op->operands[k].flags & RDG_OPERAND_OUT) add_value(l->writes, &l->n_writes, n->operand[k]);
        }
        return;
    }
    add_value(l->writes, &l->n_writes, l->out);
    if (l->kind == RDG_LAUNCH_MATVEC_STEP) {
        const rdg_value_id reads[] = {l->weight, l->weight2, l->x, l->norm_weight, l->bias, l->residual};
        for (int k = 0; k < RDG_COUNTOF(reads); k++) add_value(l->reads, &l->n_reads, reads[k]);
        return;
    }
    const rdg_value_id reads[] = {l->q,      l->k,       l->v,       l->sinks,    l->q_norm,
                                  l->k_norm, l->k_cache, l->v_cache, p->positions};
    for (int k = 0; k < RDG_COUNTOF(reads); k++) add_value(l->reads, &l->n_reads, reads[k]);
    add_value(l->writes, &l->n_writes, l->k_cache);
    add_value(l->writes, &l->n_writes, l->v_cache);
}

typedef struct lifetime {
    rdg_value_id value;
    int64_t bytes, first, last;
} lifetime;

static int larger_first(const void *a, const void *b)
{
    const lifetime *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

static void touch(const rdg_plan *p, lifetime *lives, rdg_value_id v, int64_t launch)
{
    lifetime *l = &lives[rdg_plan_base(p, v)];
    if (l->first < 0) l->first = launch;
    l->last = launch;
}

static rdg_err place(const rdg_plan *p, rdg_gpu_schedule *s, rdg_error *e)
{
    lifetime *lives = rdg_alloc_array(p->n_values + 1, sizeof *lives);
    s->place = rdg_alloc_array(p->n_values + 1, sizeof *s->place);
    if (!lives || !s->place) {
        rdg_free(lives);
        return rdg_fail(e, RDG_E_NOMEM, "no memory to place %zu values", p->n_values);
    }
    for (size_t i = 0; i < p->n_values; i++) {
        s->place[i] = -1;
        lives[i] = (lifetime){.value = (rdg_value_id)i, .first = -1};
    }
    for (size_t i = 0; i < s->n; i++) {
        const rdg_gpu_launch *l = &s->launches[i];
        for (int k = 0; k < l->n_reads; k++) touch(p, lives, l->reads[k], (int64_t)i);
        for (int k = 0; k < l->n_writes; k++) touch(p, lives, l->writes[k], (int64_t)i);
    }
    size_t n = 0;
    for (size_t i = 0; i < p->n_values; i++) {
        const rdg_value *v = &p->values[i];
        if (lives[i].first < 0 || (v->kind != RDG_VALUE_SCRATCH && v->kind != RDG_VALUE_OUTPUT)) continue;
        lifetime l = lives[i];
        l.last = v->kind == RDG_VALUE_OUTPUT ? (int64_t)s->n
                                             : l.last + (p->options.n_tokens <= 8 ? KEEP_LAUNCHES : 0);
        l.bytes = rdg_round_up(rdg_tensor_bytes(&v->shape), PLACE_ALIGN);
        lives[n++] = l;
    }
    qsort(lives, n, sizeof *lives, larger_first);
    for (size_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (size_t k = 0; k < i; k++) {
                int64_t o = s->place[lives[k].value];
                if (lives[k].last < lives[i].first || lives[k].first > lives[i].last) continue;
                if (offset + lives[i].bytes <= o || o + lives[k].bytes <= offset) continue;
                offset = o + lives[k].bytes;
                moved = true;
            }
        }
        s->place[lives[i].value] = offset;
        s->scratch_bytes = RDG_MAX(s->scratch_bytes, offset + lives[i].bytes);
    }
    rdg_free(lives);
    return RDG_OK;
}

rdg_err rdg_gpu_schedule_create(const rdg_plan *p, const rdg_device_facts *f, rdg_gpu_weights *w,
                                rdg_gpu_schedule *out, rdg_error *e)
{
    *out = (rdg_gpu_schedule){0};
    matcher m = {.p = p, .facts = f, .weights = w};
    rdg_err rc = count(&m, e);
    if (rc) goto done;
    if (p->options.n_tokens == 1) match_all(&m);
    for (size_t i = 0; i < p->n_nodes && !rc; i++) {
        bool merged = m.merged[i].n_reads != 0;
        if (m.absorbed[i] && !merged) continue;
        if (!rdg_grow(&out->launches, out->n, &out->cap, sizeof *out->launches)) {
            rc = rdg_fail(e, RDG_E_NOMEM, "no memory to schedule %zu operations", p->n_nodes);
            break;
        }
        rdg_gpu_launch *l = &out->launches[out->n++];
        *l = merged ? m.merged[i] : (rdg_gpu_launch){.kind = RDG_LAUNCH_NODE, .node = i};
        list_values(p, l);
    }
    if (!rc) rc = place(p, out, e);
done:
    rdg_free(m.merged);
    rdg_free(m.absorbed);
    rdg_free(m.producer);
    rdg_free(m.n_reads);
    if (rc) rdg_gpu_schedule_finish(out);
    return rc;
}

void rdg_gpu_schedule_finish(rdg_gpu_schedule *s)
{
    rdg_free(s->launches);
    rdg_free(s->place);
    *s = (rdg_gpu_schedule){0};
}
