/* Decoding that stays on the device: each step ends with picking its token, which goes where the next step
 * looks for it, and into a ring that the host reads. The next step is submitted while one runs. */
#include "graph/gpu_exec_internal.h"
#include "ops/sample/sample_step.h"

#include <string.h>

enum { RING = 64, IN_FLIGHT = 2 };

rdg_err rdg_gpu_record_sampling(gpu_exec *x, const gpu_prepared *c, const rdg_tensor *logits,
                                const gpu_recipe *recipe, rdg_list *l, rdg_gpu_spans *spans, rdg_error *e)
{
    rdg_gpu_dispatch d[RDG_GPU_MAX_DISPATCHES];
    memset(d, 0, sizeof d);
    uint64_t inputs = rdg_buffer_address(c->inputs);
    const rdg_sample_step step = {.logits = rdg_gpu_address(logits),
                                  .n = logits->dim[0],
                                  .draw = inputs + c->input_offset[INPUT_DRAW],
                                  .id = inputs + c->input_offset[INPUT_TOKENS],
                                  .position = inputs + c->input_offset[INPUT_POSITIONS],
                                  .ring = rdg_buffer_address(x->ring),
                                  .ring_size = RING};
    int n = rdg_sample_step_encode(&recipe->sample, &step, rdg_buffer_address(x->sample_scratch), d);
    for (int i = 0; i < n; i++) {
        d[i].barrier_before = false; /* it stands in front of the timestamp */
        rdg_list_barrier(l);
        int slot = rdg_gpu_span_begin(spans, true, l);
        rdg_err rc = rdg_gpu_dispatch_all(x->cache, l, &d[i], 1, e);
        if (rc) return rc;
        rdg_gpu_span_end(slot, l);
    }
    return RDG_OK;
}

static rdg_err start_sampling(gpu_exec *x, rdg_error *e)
{
    if (x->ring) return RDG_OK;
    return rdg_buffer_create(x->device, RDG_MEMORY_READBACK, RING * 4, "tokens", &x->ring, e);
}

/* Reads the times of steps that are over and hands them on as spans. */
typedef struct span_reader {
    const rdg_generate *g;
    uint64_t *ticks, origin;
    rdg_launch_span *spans;
    bool started;
} span_reader;

/* Whether the clock that kernels read is the one of the timestamps: read between two of those. */
static rdg_err probe_clock(gpu_exec *x, rdg_error *e)
{
    const rdg_device_facts *f = rdg_device_get_facts(x->device);
    rdg_buffer *b = NULL;
    rdg_list *l = NULL;
    uint64_t ticks[2] = {0};
    if (!(f->features & RDG_GPU_CLOCK)) x->clock = CLOCK_OTHER;
    if (x->clock != CLOCK_UNKNOWN) return RDG_OK;
    rdg_gpu_dispatch d = {.grid = {1, 1, 1}};
    rdg_err rc = rdg_buffer_create(x->device, RDG_MEMORY_READBACK, 8, "clock", &b, e);
    if (!rc) rc = rdg_list_create(x->device, 0, 2, "clock", &l, e);
    if (rc) goto done;
    uint64_t address = rdg_buffer_address(b);
    rdg_gpu_fill(&d, "probe_clock", &address, sizeof address);
    rdg_list_timestamp_early(l, 0);
    rc = rdg_gpu_dispatch_all(x->cache, l, &d, 1, e);
    rdg_list_timestamp(l, 1);
    if (!rc) rc = rdg_gpu_exec_run_list(x, l, e);
    if (!rc) rc = rdg_list_read_ticks(l, ticks, 2, e);
    if (rc) goto done;
    uint64_t read = *(const volatile uint64_t *)rdg_buffer_host(b);
    x->clock = read >= ticks[0] && read <= ticks[1] ? CLOCK_SAME : CLOCK_OTHER;
    if (x->clock == CLOCK_OTHER)
        rdg_log_info(x->log,
                     "the clock that kernels read on %s is not that of its timestamps: launches are timed "
                     "one after the other, without overlap",
                     f->name);
done:
    rdg_list_destroy(l);
    rdg_buffer_destroy(b);
    return rc;
}

static rdg_err start_spans(span_reader *r, gpu_exec *x, const gpu_prepared *c, const rdg_generate *g,
                           rdg_error *e)
{
    size_t cap = c->schedule.n + RDG_GPU_MAX_DISPATCHES;
    if (rdg_device_get_facts(x->device)->timestamp_ns <= 0)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "%s has no timestamps", rdg_device_get_facts(x->device)->name);
    r->g = g;
    r->ticks = rdg_alloc_array(2 * cap, sizeof *r->ticks);
    r->spans = rdg_alloc_array(cap, sizeof *r->spans);
    return r->ticks && r->spans ? probe_clock(x, e) : rdg_fail(e, RDG_E_NOMEM, "no memory for timestamps");
}

/* First and last of what a launch's workgroups wrote. */
static rdg_gpu_clock_record whole_launch(const rdg_gpu_clock_record *r, uint32_t n)
{
    rdg_gpu_clock_record w = r[0];
    for (uint32_t i = 1; i < n; i++) {
        w.begin = RDG_MIN(w.begin, r[i].begin);
        w.ready = RDG_MIN(w.ready, r[i].ready);
        w.end = RDG_MAX(w.end, r[i].end);
    }
    return w;
}

static rdg_err read_spans(span_reader *r, const gpu_exec *x, const gpu_prepared *c, const recording *rec,
                          rdg_error *e)
{
    const rdg_gpu_spans *s = &rec->spans;
    const rdg_gpu_clock_record *records = rec->clock ? rdg_buffer_host(rec->clock) : NULL;
    rdg_err rc = rdg_list_read_ticks(rec->list, r->ticks, s->n_slots, e);
    if (rc) return rc;
    if (!r->started) r->origin = r->ticks[0];
    bool one_clock = true;
    double first = rdg_device_tick_ns(x->device, r->origin, r->ticks[0]),
           last = rdg_device_tick_ns(x->device, r->origin, r->ticks[s->n_slots - 1]);
    for (int i = 0; i < s->n; i++) {
        const rdg_gpu_span_source *from = &s->source[i];
        rdg_gpu_clock_record w;
        if (from->slot >= 0)
            w = (rdg_gpu_clock_record){r->ticks[from->slot], r->ticks[from->slot], r->ticks[from->slot + 1]};
        else
            w = whole_launch(records + from->first, from->n);
        double begin = rdg_device_tick_ns(x->device, r->origin, w.begin),
               end = rdg_device_tick_ns(x->device, r->origin, w.end);
        one_clock = one_clock && begin >= first && end <= last;
        bool sampling = (size_t)i >= c->schedule.n;
        r->spans[i] =
            (rdg_launch_span){.node = sampling ? -1 : (int32_t)c->schedule.launches[i].node,
                              .ordered = from->ordered,
                              .begin_ns = (int64_t)begin,
                              .ready_ns = (int64_t)rdg_device_tick_ns(x->device, r->origin, w.ready),
                              .end_ns = (int64_t)end};
    }
    if (!one_clock)
        return rdg_fail(e, RDG_E_DEVICE,
                        "launches of a step are timed outside of the step: clocks that differ");
    r->started = true;
    r->g->on_spans(r->g->user, r->spans, s->n);
    return RDG_OK;
}

rdg_err rdg_gpu_exec_generate(rdg_exec *base, rdg_prepared *prepared, const rdg_generate *g, int64_t *n_done,
                              rdg_error *e)
{
    gpu_exec *x = (gpu_exec *)base;
    gpu_prepared *c = (gpu_prepared *)prepared;
    const rdg_plan_options *o = &c->base.plan->options;
    const int32_t row = 0, draw[3] = {(int32_t)(uint32_t)g->seed, (int32_t)(uint32_t)(g->seed >> 32),
                                      (int32_t)g->step};
    gpu_recipe recipe = {
        .stamps = g->on_spans ? RDG_STAMPS_SPANS : RDG_STAMPS_NONE, .goes_on = true, .sample = g->sample};
    span_reader reader = {0};
    recording *rec[IN_FLIGHT] = {0};
    rdg_event done[IN_FLIGHT] = {{0}};
    *n_done = 0;
    if (o->n_tokens != 1 || o->n_outputs != 1 || !c->output || c->exact_visible)
        return rdg_fail(e, RDG_E_ARGUMENT, "only a plan of one token with logits can go on by itself");
    rdg_err rc = start_sampling(x, e);
    if (!rc && g->on_spans) rc = start_spans(&reader, x, c, g, e);
    if (rc) goto done;
    rdg_gpu_exec_input(c, INPUT_TOKENS, &g->token, 1);
    rdg_gpu_exec_input(c, INPUT_POSITIONS, &g->position, 1);
    rdg_gpu_exec_input(c, INPUT_ROWS, &row, 1);
    rdg_gpu_exec_input(c, INPUT_DRAW, draw, 3);
    bool go_on = true, failed = false;
    for (int64_t i = 0; i < g->n + IN_FLIGHT - 1 && go_on && !rc; i++) {
        if (i < g->n) {
            recording **now = &rec[i % IN_FLIGHT];
            recipe.copy = g->on_spans ? (int)(i % IN_FLIGHT) : 0; /* its timestamps have been read by now */
            recipe.clock = g->on_spans && x->clock == CLOCK_SAME;
            rc = rdg_gpu_exec_record(x, c, g->position + i + 1, &recipe, now, e);
            if (!rc) rc = rdg_submit(x->device, (*now)->list, NULL, 0, &done[i % IN_FLIGHT], e);
        }
        int64_t k = i - IN_FLIGHT + 1; /* the step that must be over by now */
        if (rc || k < 0) continue;
        rc = rdg_event_wait(x->device, done[k % IN_FLIGHT], RDG_GPU_TIMEOUT_NS, e);
        if (rc) break;
        int32_t token = ((const volatile int32_t *)rdg_buffer_host(x->ring))[(g->step + (uint32_t)k) % RING];
        if (token < 0) {
            rc = rdg_fail(e, RDG_E_DEVICE, "position %lld: %s", (long long)(g->position + k),
                          rdg_sample_problem(token));
            failed = true;
            break;
        }
        *n_done = k + 1;
        if (g->on_spans && (rc = read_spans(&reader, x, c, rec[k % IN_FLIGHT], e))) break;
        go_on = g->on_token(g->user, token);
    }
    for (int i = 0; i < IN_FLIGHT; i++) { /* nothing may run on when the caller touches the session again */
        rdg_err late = rdg_event_wait(x->device, done[i], RDG_GPU_TIMEOUT_NS, rc ? NULL : e);
        if (!rc) rc = late;
    }
    /* a broken chain may be why, and attentions that ran beside each other leave their counters anyhow */
    if (failed) rdg_gpu_exec_forget(x, &x->step_scratch);
done:
    rdg_free(reader.spans);
    rdg_free(reader.ticks);
    return rc;
}
