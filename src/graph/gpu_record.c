/* Launches → one command list. A barrier is recorded only where hazards.h asks for one: independent branches
 * run side by side. */
#include "graph/gpu.h"
#include "graph/hazards.h"

#include <string.h>

/* The barrier in front of launch i, if it needs one, and its first timestamp. */
static void begin_launch(const rdg_gpu_recorder *r, rdg_hazards *h, size_t i, rdg_list *l)
{
    bool barrier = rdg_hazards_order(h);
    if (barrier) rdg_list_barrier(l);
    if (r->ordered) r->ordered[i] = barrier || i == 0;
    if (r->stamps == RDG_STAMPS_SPANS) rdg_list_timestamp_early(l, 2 * (int)i);
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

static rdg_err record_step(const rdg_gpu_recorder *r, const rdg_gpu_launch *l, rdg_list *list, rdg_error *e)
{
    rdg_gpu_env env = {.facts = rdg_device_get_facts(rdg_gpu_cache_device(r->cache)),
                       .cache = r->cache,
                       .scratch = r->step_scratch ? rdg_buffer_address(r->step_scratch) : 0};
    rdg_gpu_dispatch d;
    memset(&d, 0, sizeof d);
    step_tensors s;
    int n;
    if (l->kind == RDG_LAUNCH_MATVEC_STEP) {
        rdg_matvec_q8 m = matvec_of(r, l, &s);
        n = rdg_matvec_q8_encode(&m, &env, &d, e);
    } else {
        rdg_attention_step a = attention_of(r, l, &s);
        n = rdg_attention_step_encode(&a, &env, &d, e);
    }
    if (n <= 0) return e && e->code ? e->code : RDG_E_INTERNAL;
    return rdg_gpu_dispatch_all(r->cache, list, &d, 1, e);
}

/* Prepared forms are told apart by the operand they come from: variants that prepare it do so alike. */
static const char forms[RDG_MAX_OPERANDS + 1];

rdg_err rdg_gpu_record_plan(const rdg_gpu_recorder *r, rdg_list *list, rdg_error *e)
{
    rdg_hazards *h = rdg_alloc(sizeof *h);
    rdg_err rc = RDG_OK;
    rdg_error why = {0};
    if (!h) return rdg_fail(e, RDG_E_NOMEM, "no memory to record a plan");
    if (r->stamps == RDG_STAMPS_ENDS) rdg_list_timestamp(list, 0);
    for (size_t i = 0; i < r->schedule->n && !rc; i++) {
        const rdg_gpu_launch *l = &r->schedule->launches[i];
        for (int k = 0; k < l->n_reads; k++) use_value(r, h, l->reads[k], false);
        for (int k = 0; k < l->n_writes; k++) use_value(r, h, l->writes[k], true);
        if (l->kind != RDG_LAUNCH_NODE) {
            if (l->kind == RDG_LAUNCH_ATTENTION_STEP && r->step_scratch)
                rdg_hazards_use(h, rdg_buffer_address(r->step_scratch), rdg_buffer_bytes(r->step_scratch),
                                true);
            begin_launch(r, h, i, list);
            rc = record_step(r, l, list, &why);
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
            begin_launch(r, h, i, list);
            int64_t n_barriers = rdg_list_n_barriers(list);
            rc = rdg_gpu_record(r->cache, list, &call, v, scratch ? rdg_buffer_address(r->scratch) : 0,
                                again ? begin : 0, &why);
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
        if (r->stamps == RDG_STAMPS_SPANS) rdg_list_timestamp(list, 2 * (int)i + 1);
    }
    rdg_free(h);
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
