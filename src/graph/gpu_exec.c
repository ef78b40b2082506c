/* The executor of GPU devices: owns the device, weights, states, scratch and the recorded lists of prepared
 * plans. A plan is recorded on its first run and replayed from then on; decode plans are recorded anew each
 * time the number of visible positions passes a power of two, because that sets how many workgroups share an
 * attention. */
#include "graph/gpu_exec.h"
#include "graph/gpu_exec_internal.h"
#include "ops/attention/attention.h"
#include "ops/sample/sample_step.h"

#include <string.h>

enum { INPUT_ALIGN = 256, FIRST_BUCKET = 128 };

static gpu_state *find_state(const gpu_exec *x, rdg_state_kind kind, int32_t index)
{
    for (size_t i = 0; i < x->n_states; i++)
        if (x->states[i].kind == kind && x->states[i].index == index) return &x->states[i];
    return NULL;
}

/* A list that does one thing now. */
rdg_err rdg_gpu_exec_run_list(gpu_exec *x, rdg_list *l, rdg_error *e)
{
    rdg_event done;
    rdg_err rc = rdg_list_finish(l, e);
    if (!rc) rc = rdg_submit(x->device, l, NULL, 0, &done, e);
    return rc ? rc : rdg_event_wait(x->device, done, RDG_GPU_TIMEOUT_NS, e);
}

static rdg_err make_states(gpu_exec *x, const rdg_plan *p, rdg_error *e)
{
    rdg_list *zero = NULL;
    rdg_err rc = RDG_OK;
    size_t n_before = x->n_states;
    for (size_t i = 0; i < p->n_states && !rc; i++) {
        const rdg_state *s = &p->states[i];
        uint64_t bytes = (uint64_t)rdg_tensor_bytes(&s->shape);
        const gpu_state *found = find_state(x, s->kind, s->index);
        if (found && found->bytes == bytes) continue;
        if (found) {
            rc = rdg_fail(e, RDG_E_INTERNAL, "state %d of kind %d has two sizes: %llu and %llu bytes",
                          s->index, s->kind, (unsigned long long)found->bytes, (unsigned long long)bytes);
            break;
        }
        if (!rdg_grow(&x->states, x->n_states, &x->cap_states, sizeof *x->states)) {
            rc = rdg_fail(e, RDG_E_NOMEM, "no memory for the session's states");
            break;
        }
        gpu_state fresh = {.kind = s->kind, .index = s->index, .bytes = bytes};
        rc = rdg_buffer_create(x->device, RDG_MEMORY_DEVICE, bytes + INPUT_ALIGN, "kv_cache", &fresh.buffer,
                               e);
        if (rc) break;
        x->states[x->n_states++] = fresh;
        x->base.state_bytes += bytes;
        if (!zero) rc = rdg_list_create(x->device, 0, 0, "clear states", &zero, e);
        if (!rc) rdg_list_fill(zero, fresh.buffer, 0, bytes / 4 * 4 + INPUT_ALIGN, 0);
    }
    if (!rc && zero) rc = rdg_gpu_exec_run_list(x, zero, e);
    rdg_list_destroy(zero);
    while (rc && x->n_states > n_before) { /* the next try must clear them */
        gpu_state *s = &x->states[--x->n_states];
        rdg_buffer_destroy(s->buffer);
        x->base.state_bytes -= s->bytes;
    }
    return rc;
}

/* Where a value lies
 * ---------------------------------------------------------------------------------------------- */

typedef struct bind_context {
    const gpu_exec *x;
    const gpu_prepared *c;
} bind_context;

static void bind(void *user, rdg_value_id id, rdg_tensor *t)
{
    const bind_context *b = user;
    const rdg_plan *p = b->c->base.plan;
    const rdg_value *v = &p->values[id];
    uint64_t offset = v->kind == RDG_VALUE_VIEW ? (uint64_t)v->offset_bytes : 0;
    rdg_value_id base = rdg_plan_base(p, id);
    v = &p->values[base];
    switch (v->kind) {
    case RDG_VALUE_WEIGHT: {
        rdg_gpu_place place = rdg_gpu_weights_find(b->x->weights, v->weight);
        t->buffer = place.buffer;
        t->data = (char *)(uintptr_t)v->weight->data + offset;
        offset += place.offset;
        break;
    }
    case RDG_VALUE_INPUT:
        t->buffer = b->c->inputs;
        offset += b->c->input_offset[base == p->tokens      ? INPUT_TOKENS
                                     : base == p->positions ? INPUT_POSITIONS
                                     : base == p->carried   ? INPUT_CARRIED
                                                            : INPUT_ROWS];
        break;
    case RDG_VALUE_STATE: {
        const rdg_state *s = &p->states[v->state_key];
        const gpu_state *found = find_state(b->x, s->kind, s->index);
        t->buffer = found ? found->buffer : NULL; /* not yet, when only needs are asked for */
        break;
    }
    case RDG_VALUE_SCRATCH:
    case RDG_VALUE_OUTPUT:
        t->buffer = b->x->scratch;
        offset += (uint64_t)b->c->schedule.place[base];
        break;
    case RDG_VALUE_VIEW: break; /* a view's base is never a view */
    }
    t->buffer_offset = offset;
}

static rdg_gpu_recorder recorder(const gpu_exec *x, const gpu_prepared *c, bind_context *b, int64_t n_visible)
{
    *b = (bind_context){x, c};
    return (rdg_gpu_recorder){.plan = c->base.plan,
                              .schedule = &c->schedule,
                              .cache = x->cache,
                              .binding = {.user = b, .bind = bind},
                              .variant = x->variant[0] ? x->variant : NULL,
                              .n_visible = n_visible,
                              .scratch = x->kernel_scratch,
                              .step_scratch = x->step_scratch,
                              .chain = c->chain_bytes ? x->chain : NULL};
}

/* Memory that all plans share: it grows, and what was recorded with the old one is dropped.
 * ------------------------- */

static void drop_recording(recording *r)
{
    rdg_list_destroy(r->list);
    rdg_free(r->spans.source);
    rdg_buffer_destroy(r->clock);
    *r = (recording){0};
}

static void drop_recordings(gpu_prepared *c)
{
    for (int i = 0; i < RDG_GPU_RECORDINGS; i++) drop_recording(&c->recordings[i]);
}

void rdg_gpu_exec_forget(gpu_exec *x, rdg_buffer **b)
{
    if (!*b) return;
    for (size_t i = 0; i < x->n_prepared; i++) drop_recordings(x->prepared[i]);
    x->base.scratch_bytes -= rdg_buffer_bytes(*b);
    rdg_buffer_destroy(*b);
    *b = NULL;
}

rdg_err rdg_gpu_exec_grow(gpu_exec *x, rdg_buffer **b, uint64_t bytes, bool zero, const char *label,
                          rdg_error *e)
{
    uint64_t have = *b ? rdg_buffer_bytes(*b) : 0;
    if (bytes <= have) return RDG_OK;
    rdg_gpu_exec_forget(x, b);
    bytes = (uint64_t)rdg_round_up((int64_t)bytes, 4096);
    rdg_err rc = rdg_buffer_create(x->device, RDG_MEMORY_DEVICE, bytes, label, b, e);
    if (rc) return rc;
    x->base.scratch_bytes += bytes;
    if (!zero) return RDG_OK;
    rdg_list *l = NULL;
    rc = rdg_list_create(x->device, 0, 0, "clear scratch", &l, e);
    if (!rc) {
        rdg_list_fill(l, *b, 0, bytes, 0);
        rc = rdg_gpu_exec_run_list(x, l, e);
    }
    rdg_list_destroy(l);
    if (rc) { /* the next try must clear it */
        rdg_buffer_destroy(*b);
        *b = NULL;
        x->base.scratch_bytes -= bytes;
    }
    return rc;
}

/* What the plan needs of the memory that all share. Usually it is there: not so when it could not grow for
 * another plan, which it had been given back for. */
static rdg_err reserve_memory(gpu_exec *x, const gpu_prepared *c, rdg_error *e)
{
    rdg_err rc = rdg_gpu_exec_grow(x, &x->scratch, c->scratch_bytes, false, "scratch", e);
    if (!rc) rc = rdg_gpu_exec_grow(x, &x->kernel_scratch, c->kernel_bytes, false, "kernel scratch", e);
    if (!rc) rc = rdg_gpu_exec_grow(x, &x->step_scratch, c->step_bytes, true, "step scratch", e);
    if (!rc) rc = rdg_gpu_exec_grow(x, &x->chain, c->chain_bytes, false, "chain", e);
    return rc ? rc : rdg_gpu_exec_grow(x, &x->sample_scratch, c->sample_bytes, true, "sample", e);
}

static void free_prepared(gpu_prepared *c)
{
    if (!c) return;
    drop_recordings(c);
    rdg_buffer_destroy(c->inputs);
    rdg_buffer_destroy(c->output);
    rdg_gpu_schedule_finish(&c->schedule);
    rdg_plan_destroy(c->base.plan);
    rdg_free(c);
}

static void look_at_attention(gpu_prepared *c)
{
    const rdg_plan *p = c->base.plan;
    for (size_t i = 0; i < c->schedule.n; i++) {
        const rdg_gpu_launch *l = &c->schedule.launches[i];
        if (l->kind == RDG_LAUNCH_ATTENTION_STEP) c->steps = true;
        if (l->kind != RDG_LAUNCH_NODE || p->nodes[l->node].op != &rdg_op_attention) continue;
        rdg_attention_params ap;
        memcpy(&ap, p->nodes[l->node].params, sizeof ap);
        if (!ap.causal) c->exact_visible = true;
    }
}

static rdg_err make_buffers(gpu_exec *x, gpu_prepared *c, rdg_error *e)
{
    const rdg_plan *p = c->base.plan;
    const int64_t counts[INPUT_COUNT] = {p->options.n_tokens, p->options.n_tokens, p->options.n_outputs,
                                         rdg_tensor_n_elements(rdg_plan_shape(p, p->carried)), 3};
    uint64_t total = 0;
    for (int i = 0; i < INPUT_COUNT; i++) {
        c->input_offset[i] = total;
        total += (uint64_t)rdg_round_up(counts[i] * 4 + 4, INPUT_ALIGN);
    }
    rdg_err rc = rdg_buffer_create(x->device, RDG_MEMORY_SHARED, total, "inputs", &c->inputs, e);
    c->output_value = p->hidden != RDG_NO_VALUE ? p->hidden : p->logits;
    if (!rc && c->output_value != RDG_NO_VALUE)
        rc = rdg_buffer_create(x->device, RDG_MEMORY_READBACK,
                               (uint64_t)rdg_tensor_bytes(rdg_plan_shape(p, c->output_value)), "output",
                               &c->output, e);
    return rc;
}

/* So that a session can decode by any settings in what was planned for it. */
static uint64_t picking_bytes(const rdg_plan *p)
{
    const rdg_sample_params cuts = {.temperature = 1, .top_k = 1}; /* need most */
    return p->logits == RDG_NO_VALUE ? 0
                                     : rdg_sample_scratch_bytes(&cuts, rdg_plan_shape(p, p->logits)->dim[0]);
}

/* What c, which has its plan and its schedule, needs of the memory that all share. */
static rdg_err find_needs(const gpu_exec *x, gpu_prepared *c, rdg_error *e)
{
    const rdg_plan *p = c->base.plan;
    bind_context b;
    rdg_gpu_recorder r = recorder(x, c, &b, p->options.n_ctx);
    c->scratch_bytes = (uint64_t)c->schedule.scratch_bytes + INPUT_ALIGN;
    c->sample_bytes = picking_bytes(p);
    c->chain_bytes = x->chains ? rdg_gpu_chain_bytes(&c->schedule) : 0;
    return rdg_gpu_record_needs(&r, &c->kernel_bytes, &c->step_bytes, e);
}

static rdg_err gpu_prepare(rdg_exec *base, rdg_plan *plan, rdg_prepared **out, rdg_error *e)
{
    gpu_exec *x = (gpu_exec *)base;
    *out = NULL;
    gpu_prepared *c = rdg_alloc(sizeof *c);
    if (!c) {
        rdg_plan_destroy(plan);
        return rdg_fail(e, RDG_E_NOMEM, "no memory for a plan");
    }
    c->base.plan = plan;
    rdg_err rc = RDG_OK;
    if (!rdg_grow(&x->prepared, x->n_prepared, &x->cap_prepared, sizeof *x->prepared)) {
        rc = rdg_fail(e, RDG_E_NOMEM, "no memory for a plan");
        goto fail;
    }
    rdg_upload_stats up;
    if ((rc = rdg_gpu_weights_load(x->weights, plan, x->pool, NULL, x->log, &up, e))) goto fail;
    x->base.upload_bytes += up.bytes;
    x->base.upload_seconds += up.seconds;
    if ((rc = make_states(x, plan, e))) goto fail;
    rc = rdg_gpu_schedule_create(plan, rdg_device_get_facts(x->device), x->weights, &c->schedule, e);
    if (rc) goto fail;
    look_at_attention(c);
    if ((rc = make_buffers(x, c, e))) goto fail;
    if ((rc = find_needs(x, c, e))) goto fail;
    if ((rc = reserve_memory(x, c, e))) goto fail;
    x->prepared[x->n_prepared++] = c;
    *out = &c->base;
    return RDG_OK;
fail:
    free_prepared(c);
    return rc;
}

static void gpu_release(rdg_exec *base, rdg_prepared *prepared)
{
    gpu_exec *x = (gpu_exec *)base;
    for (size_t i = 0; i < x->n_prepared; i++) {
        if (&x->prepared[i]->base != prepared) continue;
        free_prepared(x->prepared[i]);
        x->prepared[i] = x->prepared[--x->n_prepared];
        return;
    }
}

/* Recording and running
 * --------------------------------------------------------------------------------------------- */

static int64_t bucket(const gpu_prepared *c, int64_t n_visible)
{
    if (c->exact_visible) return n_visible;
    if (!c->steps) return c->base.plan->options.n_ctx;
    int64_t b = FIRST_BUCKET;
    while (b < n_visible) b *= 2;
    return b;
}

static bool same_recipe(const gpu_recipe *a, const gpu_recipe *b)
{
    return a->stamps == b->stamps && a->clock == b->clock && a->copy == b->copy && a->goes_on == b->goes_on &&
           a->sample.temperature == b->sample.temperature && a->sample.top_k == b->sample.top_k &&
           a->sample.top_p == b->sample.top_p && a->sample.min_p == b->sample.min_p;
}

/* Room for the times of a list's launches. */
static rdg_err make_spans(gpu_exec *x, const gpu_prepared *c, rdg_gpu_recorder *r, recording *rec,
                          rdg_error *e)
{
    uint64_t n = 0;
    rec->spans.cap = (int)c->schedule.n + RDG_GPU_MAX_DISPATCHES;
    rec->spans.source = rdg_alloc_array((size_t)rec->spans.cap, sizeof *rec->spans.source);
    if (!rec->spans.source) return rdg_fail(e, RDG_E_NOMEM, "no memory for the times of launches");
    if (!r->chain || !rec->recipe.clock) {
        r->chain = NULL;
        return RDG_OK;
    }
    rdg_err rc = rdg_gpu_record_clocks(r, &n, e);
    if (!rc)
        rc = rdg_buffer_create(x->device, RDG_MEMORY_READBACK, RDG_MAX(n, 1) * sizeof(rdg_gpu_clock_record),
                               "clock", &rec->clock, e);
    if (!rc) rec->spans.clock = rdg_buffer_address(rec->clock);
    return rc;
}

rdg_err rdg_gpu_exec_record(gpu_exec *x, gpu_prepared *c, int64_t n_visible, const gpu_recipe *recipe,
                            recording **out, rdg_error *e)
{
    int64_t key = bucket(c, n_visible);
    recording *victim = &c->recordings[0];
    for (int i = 0; i < RDG_GPU_RECORDINGS; i++) {
        recording *rec = &c->recordings[i];
        if (rec->list && rec->n_visible == key && same_recipe(&rec->recipe, recipe)) {
            rec->used = ++c->clock;
            *out = rec;
            return RDG_OK;
        }
        if (rec->used < victim->used) victim = rec;
    }
    drop_recording(victim);
    rdg_err rc = reserve_memory(x, c, e);
    if (rc) return rc;
    bind_context b;
    rdg_gpu_recorder r = recorder(x, c, &b, key);
    r.stamps = recipe->stamps;
    recording fresh = {.n_visible = key, .recipe = *recipe};
    int slots = recipe->stamps == RDG_STAMPS_ENDS ? (int)c->schedule.n + 1 : 0;
    if (recipe->stamps == RDG_STAMPS_SPANS) {
        r.spans = &fresh.spans;
        rc = make_spans(x, c, &r, &fresh, e);
        slots = 2 * fresh.spans.cap;
    } else if (recipe->stamps == RDG_STAMPS_ENDS) {
        r.chain = NULL; /* the end of a launch that the next one is already waiting for says little */
    }
    rdg_list *l = NULL;
    if (!rc)
        rc = rdg_list_create(x->device, 0, slots, c->base.plan->options.n_tokens == 1 ? "decode" : "prefill",
                             &l, e);
    fresh.list = l;
    if (!rc) rc = rdg_gpu_record_plan(&r, l, e);
    if (!rc && c->output) {
        rdg_tensor t = *rdg_plan_shape(c->base.plan, c->output_value);
        bind(&b, c->output_value, &t);
        if (recipe->goes_on) {
            rc = rdg_gpu_record_sampling(x, c, &t, recipe, l, r.spans, e);
        } else {
            rdg_list_barrier(l);
            rdg_list_copy(l, c->output, 0, t.buffer, t.buffer_offset, rdg_buffer_bytes(c->output));
        }
    }
    if (!rc) rc = rdg_list_finish(l, e);
    if (rc) {
        drop_recording(&fresh);
        return rc;
    }
    fresh.used = ++c->clock;
    *victim = fresh;
    *out = victim;
    return RDG_OK;
}

void rdg_gpu_exec_input(const gpu_prepared *c, int i, const void *src, int64_t n)
{
    if (n) memcpy((char *)rdg_buffer_host(c->inputs) + c->input_offset[i], src, (size_t)n * 4);
}

static rdg_err read_times(const gpu_prepared *c, rdg_list *l, rdg_node_time *times, rdg_error *e)
{
    size_t n = c->schedule.n;
    double *ns = rdg_alloc_array(n + 1, sizeof *ns);
    if (!ns) return rdg_fail(e, RDG_E_NOMEM, "no memory for timestamps");
    rdg_err rc = rdg_list_read_timestamps(l, ns, (int)n + 1, e);
    memset(times, 0, c->base.plan->n_nodes * sizeof *times);
    for (size_t i = 0; i < n && !rc; i++)
        times[c->schedule.launches[i].node] =
            (rdg_node_time){.begin_ns = (int64_t)ns[i], .end_ns = (int64_t)ns[i + 1]};
    rdg_free(ns);
    return rc;
}

static rdg_err gpu_run(rdg_exec *base, rdg_prepared *prepared, const rdg_step *step, const float **output,
                       rdg_node_time *times, rdg_error *e)
{
    gpu_exec *x = (gpu_exec *)base;
    gpu_prepared *c = (gpu_prepared *)prepared;
    const rdg_plan_options *o = &c->base.plan->options;
    recording *rec;
    rdg_event done;
    *output = NULL;
    const gpu_recipe recipe = {.stamps = times ? RDG_STAMPS_ENDS : RDG_STAMPS_NONE};
    rdg_err rc = rdg_gpu_exec_record(x, c, step->n_visible, &recipe, &rec, e);
    if (rc) return rc;
    rdg_gpu_exec_input(c, INPUT_TOKENS, step->tokens, o->n_tokens);
    rdg_gpu_exec_input(c, INPUT_POSITIONS, step->positions, o->n_tokens);
    rdg_gpu_exec_input(c, INPUT_ROWS, step->output_rows, o->n_outputs);
    if (c->base.plan->carried != RDG_NO_VALUE)
        rdg_gpu_exec_input(c, INPUT_CARRIED, step->carried,
                           rdg_tensor_n_elements(rdg_plan_shape(c->base.plan, c->base.plan->carried)));
    rc = rdg_submit(x->device, rec->list, NULL, 0, &done, e);
    if (!rc) rc = rdg_event_wait(x->device, done, RDG_GPU_TIMEOUT_NS, e);
    if (!rc && times) rc = read_times(c, rec->list, times, e);
    if (rc) return rc;
    *output = c->output ? rdg_buffer_host(c->output) : NULL;
    return RDG_OK;
}

/* States to and from host memory
 * -------------------------------------------------------------------------------------- */

static rdg_err move_state(gpu_exec *x, rdg_state_kind kind, int32_t index, void *dst, const void *src,
                          size_t bytes, rdg_error *e)
{
    const gpu_state *s = find_state(x, kind, index);
    if (!s) return rdg_fail(e, RDG_E_NOT_FOUND, "the session has no state %d of kind %d", index, kind);
    if (s->bytes != bytes)
        return rdg_fail(e, RDG_E_ARGUMENT, "state %d has %llu bytes, not %zu", index,
                        (unsigned long long)s->bytes, bytes);
    rdg_buffer *host = NULL;
    rdg_list *l = NULL;
    rdg_err rc = rdg_buffer_create(x->device, dst ? RDG_MEMORY_READBACK : RDG_MEMORY_UPLOAD, bytes,
                                   "state copy", &host, e);
    if (!rc) rc = rdg_list_create(x->device, 0, 0, "state copy", &l, e);
    if (rc) goto done;
    if (src) memcpy(rdg_buffer_host(host), src, bytes);
    if (dst)
        rdg_list_copy(l, host, 0, s->buffer, 0, bytes);
    else
        rdg_list_copy(l, s->buffer, 0, host, 0, bytes);
    rc = rdg_gpu_exec_run_list(x, l, e);
    if (!rc && dst) memcpy(dst, rdg_buffer_host(host), bytes);
done:
    rdg_list_destroy(l);
    rdg_buffer_destroy(host);
    return rc;
}

static rdg_err gpu_read_state(rdg_exec *x, rdg_state_kind kind, int32_t index, void *dst, size_t bytes,
                              rdg_error *e)
{
    return move_state((gpu_exec *)x, kind, index, dst, NULL, bytes, e);
}

static rdg_err gpu_write_state(rdg_exec *x, rdg_state_kind kind, int32_t index, const void *src, size_t bytes,
                               rdg_error *e)
{
    return move_state((gpu_exec *)x, kind, index, NULL, src, bytes, e);
}

static void gpu_destroy(rdg_exec *base)
{
    gpu_exec *x = (gpu_exec *)base;
    for (size_t i = 0; i < x->n_prepared; i++) free_prepared(x->prepared[i]);
    rdg_free(x->prepared);
    for (size_t i = 0; i < x->n_states; i++) rdg_buffer_destroy(x->states[i].buffer);
    rdg_free(x->states);
    rdg_buffer_destroy(x->scratch);
    rdg_buffer_destroy(x->kernel_scratch);
    rdg_buffer_destroy(x->step_scratch);
    rdg_buffer_destroy(x->sample_scratch);
    rdg_buffer_destroy(x->ring);
    rdg_buffer_destroy(x->chain);
    rdg_gpu_cache_destroy(x->cache);
    rdg_gpu_context_put(x->context, x->log);
    rdg_free(x);
}

static const char *gpu_kernel_name(rdg_exec *base, const rdg_prepared *prepared, size_t i)
{
    gpu_exec *x = (gpu_exec *)base;
    gpu_prepared *c = (gpu_prepared *)prepared;
    bind_context b;
    rdg_gpu_recorder r = recorder(x, c, &b, bucket(c, 1));
    for (size_t k = 0; k < c->schedule.n; k++)
        if (c->schedule.launches[k].node == i) return rdg_gpu_launch_name(&r, k);
    return NULL;
}

static const rdg_exec_class gpu_class = {
    .name = "vulkan",
    .destroy = gpu_destroy,
    .prepare = gpu_prepare,
    .release = gpu_release,
    .run = gpu_run,
    .generate = rdg_gpu_exec_generate,
    .read_state = gpu_read_state,
    .write_state = gpu_write_state,
    .kernel_name = gpu_kernel_name,
};

rdg_err rdg_exec_create_gpu(const rdg_exec_request *r, const rdg_gpu_options *o, rdg_exec **out, rdg_error *e)
{
    static const rdg_gpu_options usual = {0};
    *out = NULL;
    if (!o) o = &usual;
    gpu_exec *x = rdg_alloc(sizeof *x);
    if (!x) return rdg_fail(e, RDG_E_NOMEM, "no memory for an executor");
    x->base = (rdg_exec){.class = &gpu_class, .gguf = r->gguf};
    x->pool = r->pool;
    x->log = r->log;
    rdg_err rc = RDG_OK;
    if (r->variant) {
        size_t n = strlen(r->variant);
        if (n >= sizeof x->variant) {
            rc = rdg_fail(e, RDG_E_ARGUMENT, "variant '%s' is not known", r->variant);
            goto fail;
        }
        memcpy(x->variant, r->variant, n);
    }
    if ((rc = rdg_gpu_context_get(r, o, &x->context, e))) goto fail;
    x->device = x->context->device;
    x->weights = x->context->weights;
    x->chains = rdg_device_get_facts(x->device)->features & RDG_GPU_ORDERED_LAUNCHES;
    if ((rc = rdg_gpu_cache_create(x->device, &x->cache, e))) goto fail;
    *out = &x->base;
    return RDG_OK;
fail:
    gpu_destroy(&x->base);
    return rc;
}

rdg_device *rdg_exec_gpu_device(const rdg_exec *x)
{
    return x->class == &gpu_class ? ((const gpu_exec *)x)->device : NULL;
}

rdg_err rdg_exec_gpu_needs(rdg_exec *base, const rdg_plan *const *plans, int n, uint64_t *bytes, rdg_error *e)
{
    gpu_exec *x = (gpu_exec *)base;
    uint64_t most[5] = {0};
    rdg_err rc = RDG_OK;
    *bytes = 0;
    for (int i = 0; i < n && !rc; i++) {
        gpu_prepared c = {.base.plan = (rdg_plan *)plans[i]};
        rc = rdg_gpu_schedule_create(plans[i], rdg_device_get_facts(x->device), x->weights, &c.schedule, e);
        if (!rc) rc = find_needs(x, &c, e);
        const uint64_t need[] = {c.scratch_bytes, c.kernel_bytes, c.step_bytes, c.sample_bytes,
                                 c.chain_bytes};
        for (int k = 0; k < RDG_COUNTOF(most); k++)
            most[k] = RDG_MAX(most[k], (uint64_t)rdg_round_up((int64_t)need[k], 4096));
        rdg_gpu_schedule_finish(&c.schedule);
    }
    *bytes = rdg_device_bytes_now(x->device) - rdg_gpu_weights_device_bytes(x->weights);
    for (int k = 0; k < RDG_COUNTOF(most); k++) *bytes += most[k];
    return rc;
}

uint64_t rdg_exec_gpu_free_bytes(const rdg_exec *base)
{
    const gpu_exec *x = (const gpu_exec *)base;
    uint64_t total = rdg_device_get_facts(x->device)->free_bytes;
    return total - total / 16; /* the driver's own, and what others allocate meanwhile */
}

bool rdg_exec_gpu_imports(const rdg_exec *base)
{
    return rdg_gpu_weights_import(((const gpu_exec *)base)->weights);
}
