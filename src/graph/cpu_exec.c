/* The CPU executor. A whole plan is one run of the thread pool: every thread walks the node list, does its
 * share of a node's items and meets the others at a barrier where a node needs what one since the last
 * barrier wrote. Weights are read where they lie in the file's map. */
#include "graph/exec.h"
#include "graph/hazards.h"
#include "graph/plan_internal.h"
#include "ops/cpu_run.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "ops/matmul/matmul.h"

#include <string.h>

typedef struct cpu_node {
    rdg_op_call call;
    const rdg_variant *variant;
    bool barrier;    /* before it */
    int first_phase; /* 1: the scratch holds the prepared operand of an earlier node */
    size_t n_joined; /* nodes that run as one with this, itself included; 0: it runs with an earlier one */
    size_t stream;   /* the first node from here on that streams weights; n_nodes: none */
} cpu_node;

typedef struct cpu_prepared {
    rdg_prepared base;
    cpu_node *nodes;
    const rdg_op_call **calls; /* of the nodes */
    size_t kernel_scratch_bytes;
    int32_t *inputs; /* tokens, positions, output rows: addresses that the calls keep */
    float *carried;  /* of a part of a plan */
} cpu_prepared;

typedef struct cpu_state {
    rdg_state_kind kind;
    int32_t index;
    void *data;
    size_t bytes;
} cpu_state;

typedef struct cpu_exec {
    rdg_exec base;
    rdg_pool *pool;
    uint32_t features;
    char variant[64];
    cpu_state *states;
    size_t n_states, cap_states;
    char *scratch; /* values of the plan, then the kernels' own scratch */
    size_t scratch_bytes;
    cpu_prepared **prepared;
    size_t n_prepared, cap_prepared;
    bool storage; /* the last run had to read weights from storage, or there was none yet */
} cpu_exec;

static cpu_state *find_state(cpu_exec *x, rdg_state_kind kind, int32_t index)
{
    for (size_t i = 0; i < x->n_states; i++)
        if (x->states[i].kind == kind && x->states[i].index == index) return &x->states[i];
    return NULL;
}

static rdg_err make_state(cpu_exec *x, const rdg_state *s, cpu_state **out, rdg_error *e)
{
    size_t bytes = (size_t)rdg_tensor_bytes(&s->shape);
    cpu_state *found = find_state(x, s->kind, s->index);
    if (found && found->bytes != bytes)
        return rdg_fail(e, RDG_E_INTERNAL, "state %d of kind %d has two sizes: %zu and %zu bytes", s->index,
                        s->kind, found->bytes, bytes);
    if (!found) {
        if (!rdg_grow(&x->states, x->n_states, &x->cap_states, sizeof *x->states))
            return rdg_fail(e, RDG_E_NOMEM, "no memory for the session's states");
        /* calloc gives untouched zero pages: a large context costs memory only as it fills */
        void *data = rdg_alloc(bytes);
        if (!data)
            return rdg_fail(e, RDG_E_NOMEM, "no memory for %zu bytes of KV cache; use a smaller context (-c)",
                            bytes);
        found = &x->states[x->n_states++];
        *found = (cpu_state){.kind = s->kind, .index = s->index, .data = data, .bytes = bytes};
        x->base.state_bytes += bytes;
    }
    *out = found;
    return RDG_OK;
}

static rdg_err choose_variants(cpu_exec *x, cpu_prepared *c, rdg_error *e)
{
    const rdg_plan *plan = c->base.plan;
    int n_threads = rdg_pool_threads(x->pool);
    for (size_t i = 0; i < plan->n_nodes; i++) {
        cpu_node *n = &c->nodes[i];
        rdg_plan_call(plan, i, &n->call);
        n->variant = rdg_op_select(&n->call, RDG_BACKEND_CPU, x->features, x->variant[0] ? x->variant : NULL);
        if (!n->variant || n->variant->cpu->n_phases > RDG_CPU_MAX_PHASES)
            return rdg_fail(e, RDG_E_UNSUPPORTED, "no CPU kernel for operation %zu (%s %s, block %d, %s)", i,
                            plan->nodes[i].op->name, plan->nodes[i].tag ? plan->nodes[i].tag : "",
                            plan->nodes[i].layer, rdg_type_name(n->call.operand[0].type));
        const rdg_cpu_kernel *k = n->variant->cpu;
        c->kernel_scratch_bytes =
            RDG_MAX(c->kernel_scratch_bytes, rdg_cpu_scratch_bytes(&n->call, k, n_threads));
    }
    return RDG_OK;
}

static void *input_address(const cpu_prepared *c, rdg_value_id v)
{
    const rdg_plan *p = c->base.plan;
    if (v == p->carried) return c->carried;
    if (v == p->tokens) return c->inputs;
    if (v == p->positions) return c->inputs + p->options.n_tokens;
    return c->inputs + 2 * p->options.n_tokens;
}

/* Where a value lives. Scratch addresses are valid until the block grows: bind again then. */
static void *value_address(cpu_exec *x, const cpu_prepared *c, rdg_value_id id)
{
    const rdg_plan *p = c->base.plan;
    const rdg_value *v = &p->values[id];
    int64_t offset = 0;
    if (v->kind == RDG_VALUE_VIEW) {
        offset = v->offset_bytes;
        id = v->base;
        v = &p->values[id];
    }
    char *base = NULL;
    switch (v->kind) {
    case RDG_VALUE_WEIGHT: base = (char *)v->weight->data; break;
    case RDG_VALUE_INPUT: base = input_address(c, id); break;
    case RDG_VALUE_STATE:
        base = find_state(x, p->states[v->state_key].kind, p->states[v->state_key].index)->data;
        break;
    case RDG_VALUE_SCRATCH:
    case RDG_VALUE_OUTPUT: base = x->scratch + v->place; break;
    case RDG_VALUE_VIEW: break; /* a view's base is never a view */
    }
    return base + offset;
}

/* The kernels' own scratch lies behind the plan's values. */
static void *kernel_scratch(const cpu_exec *x, const rdg_plan *plan)
{
    return x->scratch + rdg_round_up(plan->scratch_bytes, 256);
}

static void use_node(const rdg_plan *plan, size_t i, const rdg_op_call *call, rdg_hazards *h)
{
    const rdg_node *n = &plan->nodes[i];
    for (int k = 0; k < n->op->n_operands; k++) {
        rdg_value_id base = rdg_plan_base(plan, n->operand[k]);
        if (base == RDG_NO_VALUE || plan->values[base].kind == RDG_VALUE_WEIGHT) continue; /* never written */
        rdg_hazards_use(h, (uintptr_t)call->operand[k].data,
                        (uint64_t)rdg_tensor_extent_bytes(&call->operand[k]),
                        n->op->operands[k].flags & RDG_OPERAND_OUT);
    }
}

/* Which nodes wait for the others, and which find their operand prepared. */
static void order_nodes(const cpu_exec *x, cpu_prepared *c)
{
    const rdg_plan *plan = c->base.plan;
    rdg_hazards hazards = {0}, *h = &hazards;
    uint64_t scratch = (uintptr_t)kernel_scratch(x, plan);
    for (size_t i = 0; i < plan->n_nodes; i++) {
        cpu_node *n = &c->nodes[i];
        const rdg_cpu_kernel *k = n->variant->cpu;
        uint64_t begin = 0, end = 0, bytes = rdg_cpu_scratch_bytes(&n->call, k, rdg_pool_threads(x->pool));
        int64_t row = 0;
        if (k->prepares) {
            const rdg_tensor *t = &n->call.operand[k->prepares - 1];
            begin = (uintptr_t)t->data;
            end = begin + (uint64_t)rdg_tensor_extent_bytes(t);
            row = t->dim[0];
        }
        bool again = k->prepares && rdg_hazards_is_prepared(h, k, begin, end, row);
        use_node(plan, i, &n->call, h);
        rdg_hazards_use(h, scratch, bytes, !again);
        n->barrier = rdg_hazards_order(h);
        n->first_phase = again;
        if (bytes && !again) rdg_hazards_set_prepared(h, k->prepares ? k : NULL, begin, end, row);
        if (k->n_phases - n->first_phase == 1) continue;
        use_node(plan, i, &n->call, h); /* its own barrier ordered all before it too */
        rdg_hazards_use(h, scratch, bytes, !k->prepares);
        rdg_hazards_restart(h);
    }
}

static void bind(cpu_exec *x, cpu_prepared *c)
{
    const rdg_plan *plan = c->base.plan;
    for (size_t i = 0; i < plan->n_nodes; i++)
        for (int k = 0; k < plan->nodes[i].op->n_operands; k++)
            if (plan->nodes[i].operand[k] != RDG_NO_VALUE)
                c->nodes[i].call.operand[k].data = value_address(x, c, plan->nodes[i].operand[k]);
    order_nodes(x, c);
    for (size_t i = plan->n_nodes, joined = 0; i-- > 0;) {
        cpu_node *n = &c->nodes[i];
        bool last = i + 1 == plan->n_nodes;
        c->calls[i] = &n->call;
        n->stream = n->variant->cpu->streams ? i : last ? i + 1 : c->nodes[i + 1].stream;
        joined++; /* products of one input run as one */
        bool joins = i > 0 && !n->barrier && n->first_phase && c->nodes[i - 1].variant == n->variant;
        n->n_joined = joins ? 0 : joined;
        if (!joins) joined = 0;
    }
}

/* One block serves all plans: it is as large as the largest needs. Growing moves it, so every plan is bound
 * again. */
static rdg_err reserve_scratch(cpu_exec *x, const cpu_prepared *c, rdg_error *e)
{
    size_t plan_bytes = (size_t)rdg_round_up(c->base.plan->scratch_bytes, 256), bytes;
    if (RDG_ADD_OVERFLOW(plan_bytes, c->kernel_scratch_bytes, &bytes))
        return rdg_fail(e, RDG_E_LIMIT, "the plan's scratch memory is too large");
    if (bytes <= x->scratch_bytes) return RDG_OK;
    char *fresh = rdg_alloc_working(bytes);
    if (!fresh)
        return rdg_fail(e, RDG_E_NOMEM, "no memory for %zu bytes of scratch; use a smaller batch", bytes);
    rdg_free(x->scratch);
    x->scratch = fresh;
    x->scratch_bytes = bytes;
    x->base.scratch_bytes = bytes;
    for (size_t i = 0; i < x->n_prepared; i++) bind(x, x->prepared[i]);
    return RDG_OK;
}

static void free_prepared(cpu_prepared *c)
{
    if (!c) return;
    rdg_free(c->carried);
    rdg_free(c->inputs);
    rdg_free(c->calls);
    rdg_free(c->nodes);
    rdg_plan_destroy(c->base.plan);
    rdg_free(c);
}

static rdg_err cpu_prepare(rdg_exec *base, rdg_plan *plan, rdg_prepared **out, rdg_error *e)
{
    cpu_exec *x = (cpu_exec *)base;
    rdg_err err = RDG_OK;
    *out = NULL;
    cpu_prepared *c = rdg_alloc(sizeof *c);
    if (!c) {
        rdg_plan_destroy(plan);
        return rdg_fail(e, RDG_E_NOMEM, "no memory for a plan");
    }
    c->base.plan = plan;
    c->nodes = rdg_alloc_array(plan->n_nodes, sizeof *c->nodes);
    c->calls = rdg_alloc_array(plan->n_nodes, sizeof *c->calls);
    c->inputs =
        rdg_alloc_array((size_t)(2 * plan->options.n_tokens + plan->options.n_outputs), sizeof *c->inputs);
    c->carried = rdg_alloc_aligned(64, (size_t)rdg_tensor_bytes(rdg_plan_shape(plan, plan->carried)) + 64);
    if (!c->nodes || !c->calls || !c->inputs || !c->carried ||
        !rdg_grow(&x->prepared, x->n_prepared, &x->cap_prepared, sizeof *x->prepared)) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for a plan of %zu operations", plan->n_nodes);
        goto fail;
    }
    for (size_t i = 0; i < plan->n_states; i++) {
        cpu_state *s;
        if ((err = make_state(x, &plan->states[i], &s, e))) goto fail;
    }
    if ((err = choose_variants(x, c, e))) goto fail;
    if ((err = reserve_scratch(x, c, e))) goto fail;
    bind(x, c);
    x->prepared[x->n_prepared++] = c;
    *out = &c->base;
    return RDG_OK;
fail:
    free_prepared(c);
    return err;
}

static void cpu_release(rdg_exec *base, rdg_prepared *prepared)
{
    cpu_exec *x = (cpu_exec *)base;
    for (size_t i = 0; i < x->n_prepared; i++) {
        if (&x->prepared[i]->base != prepared) continue;
        free_prepared(x->prepared[i]);
        x->prepared[i] = x->prepared[--x->n_prepared];
        return;
    }
}

typedef struct run_context {
    cpu_exec *x;
    cpu_prepared *c;
    rdg_node_time *times;
    size_t announced; /* thread 0: nodes below this have been */
    size_t ahead_bytes;
} run_context;

/* Where a page fault reads a little and waits for it, a cold file is read at a tenth of what the storage can
 * do. So while weights come from there, the products' next ones are asked for while this one computes. Tables
 * that are read in places (embeddings, experts) are left to the faults. */
static size_t announced_bytes(const run_context *r, size_t i)
{
    const rdg_op_call *call = &r->c->nodes[i].call;
    const rdg_node *node = &r->c->base.plan->nodes[i];
    bool product = call->op == &rdg_op_matvec || call->op == &rdg_op_matmul;
    return product && r->c->base.plan->values[node->operand[0]].kind == RDG_VALUE_WEIGHT
               ? (size_t)rdg_tensor_bytes(&call->operand[0])
               : 0;
}

static void announce(run_context *r, size_t node)
{
    enum { ANNOUNCE_BYTES = 128 << 20 };
    if (node) r->ahead_bytes -= announced_bytes(r, node - 1);
    for (; r->announced < r->c->base.plan->n_nodes && r->ahead_bytes < ANNOUNCE_BYTES; r->announced++) {
        size_t bytes = announced_bytes(r, r->announced);
        if (bytes) rdg_map_announce(r->c->nodes[r->announced].call.operand[0].data, bytes);
        r->ahead_bytes += bytes;
    }
}

/* Times are of one node, not of several that run as one. */
static rdg_cpu_calls calls_at(const run_context *r, size_t i)
{
    const cpu_node *n = &r->c->nodes[i];
    return (rdg_cpu_calls){&r->c->calls[i], r->times ? 1 : (int64_t)n->n_joined, n->variant->cpu};
}

static void run_thread(void *ctx, int thread, int n_threads)
{
    enum { AHEAD_BYTES = 128 << 10 }; /* an eighth of the second-level cache, or less */
    run_context *r = ctx;
    size_t n_nodes = r->c->base.plan->n_nodes;
    void *scratch = kernel_scratch(r->x, r->c->base.plan);
    /* While a thread waits it fetches the weights that it will begin the next product with: those from the
     * end of one product to the start of the next would otherwise leave the memory idle. */
    rdg_pool_ahead ahead = {0};
    size_t ahead_of = n_nodes;
    for (size_t i = 0; i < n_nodes; i++) {
        const cpu_node *n = &r->c->nodes[i];
        if (r->x->storage && thread == 0) announce(r, i);
        if (n->n_joined == 0 && !r->times) continue;
        if (n->stream != ahead_of && n->stream < n_nodes) {
            rdg_cpu_calls next = calls_at(r, n->stream);
            ahead_of = n->stream;
            ahead = rdg_cpu_ahead(&next, thread, n_threads, AHEAD_BYTES);
        }
        if (n->barrier || r->times) rdg_pool_barrier(r->x->pool, &ahead);
        if (r->times && thread == 0) r->times[i].begin_ns = rdg_clock_ns();
        rdg_cpu_calls calls = calls_at(r, i);
        rdg_cpu_run_calls(r->x->pool, thread, &calls, n->first_phase, scratch, &ahead);
        if (!r->times) continue;
        rdg_pool_barrier(r->x->pool, NULL);
        if (thread == 0) r->times[i].end_ns = rdg_clock_ns();
    }
}

static rdg_err cpu_run(rdg_exec *base, rdg_prepared *prepared, const rdg_step *step, const float **output,
                       rdg_node_time *times, rdg_error *e)
{
    (void)e;
    cpu_exec *x = (cpu_exec *)base;
    cpu_prepared *c = (cpu_prepared *)prepared;
    const rdg_plan *p = c->base.plan;
    int64_t n = p->options.n_tokens;
    memcpy(c->inputs, step->tokens, (size_t)n * sizeof *c->inputs);
    memcpy(c->inputs + n, step->positions, (size_t)n * sizeof *c->inputs);
    if (p->options.n_outputs)
        memcpy(c->inputs + 2 * n, step->output_rows, (size_t)p->options.n_outputs * sizeof *c->inputs);
    if (p->carried != RDG_NO_VALUE)
        memcpy(c->carried, step->carried, (size_t)rdg_tensor_bytes(rdg_plan_shape(p, p->carried)));
    for (size_t i = 0; i < p->n_nodes; i++) c->nodes[i].call.n_visible = step->n_visible;
    run_context r = {.x = x, .c = c, .times = times};
    int64_t blocks = rdg_blocks_read();
    rdg_pool_run(x->pool, run_thread, &r);
    x->storage = rdg_blocks_read() > blocks;
    rdg_value_id out = p->hidden != RDG_NO_VALUE ? p->hidden : p->logits;
    *output = out != RDG_NO_VALUE ? value_address(x, c, out) : NULL;
    return RDG_OK;
}

static rdg_err state_range(cpu_exec *x, rdg_state_kind kind, int32_t index, size_t bytes, cpu_state **out,
                           rdg_error *e)
{
    *out = find_state(x, kind, index);
    if (!*out) return rdg_fail(e, RDG_E_NOT_FOUND, "the session has no state %d of kind %d", index, kind);
    if ((*out)->bytes != bytes)
        return rdg_fail(e, RDG_E_ARGUMENT, "state %d has %zu bytes, not %zu", index, (*out)->bytes, bytes);
    return RDG_OK;
}

static rdg_err cpu_read_state(rdg_exec *base, rdg_state_kind kind, int32_t index, void *dst, size_t bytes,
                              rdg_error *e)
{
    cpu_state *s;
    rdg_err err = state_range((cpu_exec *)base, kind, index, bytes, &s, e);
    if (!err) memcpy(dst, s->data, bytes);
    return err;
}

static rdg_err cpu_write_state(rdg_exec *base, rdg_state_kind kind, int32_t index, const void *src,
                               size_t bytes, rdg_error *e)
{
    cpu_state *s;
    rdg_err err = state_range((cpu_exec *)base, kind, index, bytes, &s, e);
    if (!err) memcpy(s->data, src, bytes);
    return err;
}

static void cpu_destroy(rdg_exec *base)
{
    cpu_exec *x = (cpu_exec *)base;
    for (size_t i = 0; i < x->n_prepared; i++) free_prepared(x->prepared[i]);
    rdg_free(x->prepared);
    for (size_t i = 0; i < x->n_states; i++) rdg_free(x->states[i].data);
    rdg_free(x->states);
    rdg_free(x->scratch);
    rdg_free(x);
}

static const char *cpu_kernel_name(rdg_exec *base, const rdg_prepared *prepared, size_t i)
{
    (void)base;
    return ((const cpu_prepared *)prepared)->nodes[i].variant->name;
}

static const rdg_exec_class cpu_class = {
    .name = "cpu",
    .destroy = cpu_destroy,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .run = cpu_run,
    .read_state = cpu_read_state,
    .write_state = cpu_write_state,
    .kernel_name = cpu_kernel_name,
};

rdg_err rdg_exec_create_cpu(const rdg_exec_request *r, rdg_exec **out, rdg_error *e)
{
    cpu_exec *x = rdg_alloc(sizeof *x);
    *out = NULL;
    if (!x) return rdg_fail(e, RDG_E_NOMEM, "no memory for an executor");
    x->base = (rdg_exec){.class = &cpu_class, .gguf = r->gguf};
    x->pool = r->pool;
    x->storage = true;
    x->features = rdg_cpu_features() & r->cpu_mask;
    if (r->variant) {
        size_t n = strlen(r->variant);
        if (n >= sizeof x->variant) {
            rdg_free(x);
            return rdg_fail(e, RDG_E_ARGUMENT, "variant '%s' is not known", r->variant);
        }
        memcpy(x->variant, r->variant, n);
    }
    *out = &x->base;
    return RDG_OK;
}
