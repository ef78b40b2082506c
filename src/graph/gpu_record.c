/* Launches → one command list. Order comes only where hazards.h asks for one, by a barrier or by a chain:
 * independent branches run side by side. */
#include "graph/gpu.h"
#include "graph/hazards.h"

#include <string.h>

/* Launches that need no order among themselves are a group. Between two groups stands a barrier, or they are
 * links of a chain: each launch of the later one waits by itself for all workgroups of the earlier one, which
 * waited for the one before it. A group has a counter of its own, behind that of the group before. */
typedef struct recording_state {
    rdg_hazards hazards;
    uint64_t counter;      /* of the group before the one in hand; 0: no chains */
    uint32_t before;       /* workgroups of that group to wait for; 0: a barrier stands between */
    uint32_t n_workgroups; /* of the group in hand so far */
    bool counts;           /* all its launches say when they are done */
} recording_state;

static bool can_chain(const rdg_gpu_launch *l)
{
    return l->kind == RDG_LAUNCH_MATVEC_STEP || l->kind == RDG_LAUNCH_ATTENTION_STEP;
}

uint64_t rdg_gpu_chain_bytes(const rdg_gpu_schedule *s)
{
    bool any = false;
    for (size_t i = 0; i < s->n && !any; i++) any = can_chain(&s->launches[i]);
    return any ? ((uint64_t)s->n + 2) * RDG_GPU_CHAIN_STRIDE : 0;
}

static void next_group(recording_state *s, uint32_t before)
{
    s->before = before;
    s->counter += s->counter ? RDG_GPU_CHAIN_STRIDE : 0;
    s->n_workgroups = 0;
    s->counts = true;
}

int rdg_gpu_span_begin(rdg_gpu_spans *s, bool ordered, rdg_list *l)
{
    if (!s || s->n == s->cap) return -1;
    int slot = s->n_slots;
    s->source[s->n++] = (rdg_gpu_span_source){.ordered = ordered, .slot = slot};
    s->n_slots += 2;
    rdg_list_timestamp_early(l, slot);
    return slot;
}

void rdg_gpu_span_end(int slot, rdg_list *l)
{
    if (slot >= 0) rdg_list_timestamp(l, slot + 1);
}

/* What orders launch i after those it conflicts with. */
static bool begin_launch(const rdg_gpu_recorder *r, recording_state *s, size_t i, rdg_list *l)
{
    bool chains = s->counter && can_chain(&r->schedule->launches[i]), barrier = false;
    if (!chains && s->before) { /* what came before the group in hand is not over, and this one cannot wait */
        barrier = true;
        rdg_hazards_restart(&s->hazards);
    } else if (rdg_hazards_order(&s->hazards)) {
        barrier = !chains || !s->counts || !s->n_workgroups;
        if (!barrier) next_group(s, s->n_workgroups);
    }
    if (barrier) {
        rdg_list_barrier(l);
        next_group(s, 0);
    }
    if (!chains) s->counts = false;
    return barrier || i == 0;
}

static rdg_tensor bound(const rdg_gpu_recorder *r, rdg_value_id v)
{
    rdg_tensor t = *rdg_plan_shape(r->plan, v);
    if (v != RDG_NO_VALUE) r->binding.bind(r->binding.user, v, &t);
    return t;
}

static void use_value(const rdg_gpu_recorder *r, rdg_hazards *h, rdg_value_id v, bool written)
{
    rdg_tensor t = bound(r, v);
    if (r->plan->values[rdg_plan_base(r->plan, v)].kind == RDG_VALUE_WEIGHT) return; /* never written */
    rdg_hazards_use(h, rdg_gpu_address(&t), (uint64_t)rdg_tensor_extent_bytes(&t), written);
}

static rdg_err node_call(const rdg_gpu_recorder *r, const rdg_gpu_launch *l, rdg_op_call *call,
                         const rdg_variant **v, rdg_error *e)
{
    const rdg_node *n = &r->plan->nodes[l->node];
    rdg_plan_call(r->plan, l->node, call);
    for (int k = 0; k < n->op->n_operands; k++)
        if (n->operand[k] != RDG_NO_VALUE) r->binding.bind(r->binding.user, n->operand[k], &call->operand[k]);
    call->n_visible = r->n_visible;
    *v = rdg_op_select(call, RDG_BACKEND_VULKAN,
                       rdg_device_get_facts(rdg_gpu_cache_device(r->cache))->features, r->variant);
    if (*v) return RDG_OK;
    return rdg_fail(e, RDG_E_UNSUPPORTED, "no GPU kernel for operation %zu (%s %s, block %d, %s)", l->node,
                    n->op->name, n->tag ? n->tag : "", n->layer, rdg_type_name(call->operand[0].type));
}

typedef struct step_tensors {
    rdg_tensor t[16];
    int n;
} step_tensors;

static const rdg_tensor *keep(const rdg_gpu_recorder *r, step_tensors *s, rdg_value_id v)
{
    if (v == RDG_NO_VALUE) return NULL;
    s->t[s->n] = bound(r, v);
    return &s->t[s->n++];
}

static rdg_matvec_q8 matvec_of(const rdg_gpu_recorder *r, const rdg_gpu_launch *l, step_tensors *s)
{
    s->n = 0;
    return (rdg_matvec_q8){.weight = keep(r, s, l->weight),
                           .weight2 = keep(r, s, l->weight2),
                           .x = keep(r, s, l->x),
                           .norm_weight = keep(r, s, l->norm_weight),
                           .bias = keep(r, s, l->bias),
                           .residual = keep(r, s, l->residual),
                           .out = keep(r, s, l->out),
                           .eps = l->eps,
                           .glu = l->glu};
}

static rdg_attention_step attention_of(const rdg_gpu_recorder *r, const rdg_gpu_launch *l, step_tensors *s)
{
    s->n = 0;
    const rdg_tensor *factors = keep(r, s, l->has_rope ? l->factors : RDG_NO_VALUE);
    return (rdg_attention_step){.q = keep(r, s, l->q),
                                .k = keep(r, s, l->k),
                                .v = keep(r, s, l->v),
                                .k_cache = keep(r, s, l->k_cache),
                                .v_cache = keep(r, s, l->v_cache),
                                .pos = keep(r, s, r->plan->positions),
                                .sinks = keep(r, s, l->sinks),
                                .out = keep(r, s, l->out),
                                .q_norm = keep(r, s, l->q_norm),
                                .k_norm = keep(r, s, l->k_norm),
                                .rope = l->has_rope ? &l->rope : NULL,
                                .factors = factors ? factors->data : NULL,
                                .params = l->attention,
                                .eps = l->eps,
                                .n_visible_max = r->n_visible};
}

rdg_err rdg_gpu_record_needs(const rdg_gpu_recorder *r, uint64_t *scratch, uint64_t *step_scratch,
                             rdg_error *e)
{
    rdg_gpu_env env = {.facts = rdg_device_get_facts(rdg_gpu_cache_device(r->cache))};
    *scratch = *step_scratch = 0;
    for (size_t i = 0; i < r->schedule->n; i++) {
        const rdg_gpu_launch *l = &r->schedule->launches[i];
        step_tensors s;
        if (l->kind == RDG_LAUNCH_ATTENTION_STEP) {
            rdg_attention_step a = attention_of(r, l, &s);
            *step_scratch = RDG_MAX(*step_scratch, rdg_attention_step_scratch_bytes(&a, env.facts));
        } else if (l->kind == RDG_LAUNCH_NODE) {
            rdg_op_call call;
            const rdg_variant *v;
            rdg_err rc = node_call(r, l, &call, &v, e);
            if (rc) return rc;
            if (v->gpu->scratch_bytes) *scratch = RDG_MAX(*scratch, v->gpu->scratch_bytes(&call, &env));
        }
    }
    return RDG_OK;
}

static rdg_err encode_step(const rdg_gpu_recorder *r, const rdg_gpu_launch *l, rdg_gpu_chain chain,
                           rdg_gpu_dispatch *d, rdg_error *e)
{
    rdg_gpu_env env = {.facts = rdg_device_get_facts(rdg_gpu_cache_device(r->cache)),
                       .cache = r->cache,
                       .scratch = r->step_scratch ? rdg_buffer_address(r->step_scratch) : 0,
                       .chain = chain};
    step_tensors s;
    int n;
    memset(d, 0, sizeof *d);
    if (l->kind == RDG_LAUNCH_MATVEC_STEP) {
        rdg_matvec_q8 m = matvec_of(r, l, &s);
        n = rdg_matvec_q8_encode(&m, &env, d, e);
    } else {
        rdg_attention_step a = attention_of(r, l, &s);
        n = rdg_attention_step_encode(&a, &env, d, e);
    }
    return n > 0 ? RDG_OK : e && e->code ? e->code : RDG_E_INTERNAL;
}

static uint32_t count_workgroups(const rdg_gpu_dispatch *d)
{
    return d->grid[0] * d->grid[1] * d->grid[2];
}

rdg_err rdg_gpu_record_clocks(const rdg_gpu_recorder *r, uint64_t *n, rdg_error *e)
{
    rdg_gpu_dispatch d;
    rdg_err rc = RDG_OK;
    *n = 0;
    for (size_t i = 0; i < r->schedule->n && !rc; i++) {
        const rdg_gpu_launch *l = &r->schedule->launches[i];
        if (!can_chain(l)) continue;
        rc = encode_step(r, l, (rdg_gpu_chain){0}, &d, e);
        if (!rc) *n += count_workgroups(&d);
    }
    return rc;
}

static rdg_err record_step(const rdg_gpu_recorder *r, const rdg_gpu_launch *l, bool ordered,
                           recording_state *state, rdg_list *list, rdg_error *e)
{
    rdg_gpu_spans *spans = r->spans;
    rdg_gpu_chain chain = {.counter = state->counter, .before = state->before};
    bool clock = chain.counter && spans && spans->clock;
    if (clock) chain.clock = spans->clock + spans->n_records * sizeof(rdg_gpu_clock_record);
    rdg_gpu_dispatch d;
    rdg_err rc = encode_step(r, l, chain, &d, e);
    if (rc) return rc;
    uint32_t n = count_workgroups(&d);
    state->n_workgroups += n;
    if (clock) {
        if (spans->n == spans->cap) return rdg_fail(e, RDG_E_INTERNAL, "more launches than spans");
        spans->source[spans->n++] =
            (rdg_gpu_span_source){.ordered = ordered, .slot = -1, .first = spans->n_records, .n = n};
        spans->n_records += n;
        return rdg_gpu_dispatch_all(r->cache, list, &d, 1, e);
    }
    int slot = rdg_gpu_span_begin(spans, ordered, list);
    rc = rdg_gpu_dispatch_all(r->cache, list, &d, 1, e);
    rdg_gpu_span_end(slot, list);
    return rc;
}

/* Prepared forms are told apart by the operand they come from: variants that prepare it do so alike. */
static const char forms[RDG_MAX_OPERANDS + 1];

rdg_err rdg_gpu_record_plan(const rdg_gpu_recorder *r, rdg_list *list, rdg_error *e)
{
    recording_state *s = rdg_alloc(sizeof *s);
    rdg_err rc = RDG_OK;
    rdg_error why = {0};
    if (!s) return rdg_fail(e, RDG_E_NOMEM, "no memory to record a plan");
    rdg_hazards *h = &s->hazards;
    if (r->chain) {
        s->counter = rdg_buffer_address(r->chain);
        rdg_list_fill(list, r->chain, 0, rdg_buffer_bytes(r->chain), 0);
        rdg_hazards_use(h, s->counter, rdg_buffer_bytes(r->chain), true);
        rdg_hazards_order(h);
    }
    if (r->stamps == RDG_STAMPS_ENDS) rdg_list_timestamp(list, 0);
    for (size_t i = 0; i < r->schedule->n && !rc; i++) {
        const rdg_gpu_launch *l = &r->schedule->launches[i];
        for (int k = 0; k < l->n_reads; k++) use_value(r, h, l->reads[k], false);
        for (int k = 0; k < l->n_writes; k++) use_value(r, h, l->writes[k], true);
        if (l->kind != RDG_LAUNCH_NODE) {
            if (l->kind == RDG_LAUNCH_ATTENTION_STEP && r->step_scratch)
                rdg_hazards_use(h, rdg_buffer_address(r->step_scratch), rdg_buffer_bytes(r->step_scratch),
                                true);
            if (r->chain) /* not before the counters are zero */
                rdg_hazards_use(h, rdg_buffer_address(r->chain), rdg_buffer_bytes(r->chain), false);
            rc = record_step(r, l, begin_launch(r, s, i, list), s, list, &why);
        } else {
            rdg_op_call call;
            const rdg_variant *v;
            rc = node_call(r, l, &call, &v, &why);
            if (rc) break;
            bool scratch = v->gpu->scratch_bytes && r->scratch, again = false;
            const void *form = v->gpu->prepares ? &forms[v->gpu->prepares] : NULL;
            uint64_t begin = 0, end = 0;
            int64_t row = 0;
            if (form) {
                const rdg_tensor *t = &call.operand[v->gpu->prepares - 1];
                begin = rdg_gpu_address(t);
                end = begin + (uint64_t)(t->stride[1] * t->dim[1]);
                row = t->dim[0];
                again = rdg_hazards_is_prepared(h, form, begin, end, row);
            }
            if (scratch)
                rdg_hazards_use(h, rdg_buffer_address(r->scratch), rdg_buffer_bytes(r->scratch), !again);
            bool ordered = begin_launch(r, s, i, list);
            int slot = rdg_gpu_span_begin(r->spans, ordered, list);
            int64_t n_barriers = rdg_list_n_barriers(list);
            rc = rdg_gpu_record(r->cache, list, &call, v, scratch ? rdg_buffer_address(r->scratch) : 0,
                                again ? begin : 0, &why);
            rdg_gpu_span_end(slot, list);
            if (scratch && !again) rdg_hazards_set_prepared(h, form, begin, end, row);
            if (rdg_list_n_barriers(list) != n_barriers) { /* its own barrier ordered all before it too */
                for (int k = 0; k < l->n_reads; k++) use_value(r, h, l->reads[k], false);
                for (int k = 0; k < l->n_writes; k++) use_value(r, h, l->writes[k], true);
                if (scratch)
                    rdg_hazards_use(h, rdg_buffer_address(r->scratch), rdg_buffer_bytes(r->scratch), false);
                rdg_hazards_restart(h);
            }
        }
        if (r->stamps == RDG_STAMPS_ENDS) rdg_list_timestamp(list, (int)i + 1);
    }
    rdg_free(s);
    if (rc && e) *e = why;
    return rc;
}

const char *rdg_gpu_launch_name(const rdg_gpu_recorder *r, size_t i)
{
    const rdg_gpu_launch *l = &r->schedule->launches[i];
    if (l->kind == RDG_LAUNCH_MATVEC_STEP) return l->weight2 != RDG_NO_VALUE ? "matvec_q8_glu" : "matvec_q8";
    if (l->kind == RDG_LAUNCH_ATTENTION_STEP) return "attention_step";
    rdg_op_call call;
    const rdg_variant *v = NULL;
    return node_call(r, l, &call, &v, NULL) ? "?" : v->name;
}
