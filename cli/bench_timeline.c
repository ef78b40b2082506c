#include "bench_timeline.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/sort.h"
#include "engine/decode.h"
#include "ops/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPEATS = 32 };

typedef struct collector {
    rdg_timeline *t;
    bool no_memory;
} collector;

static bool on_token(void *user, int32_t token)
{
    (void)token;
    return !((collector *)user)->no_memory;
}

static void on_spans(void *user, const rdg_launch_span *spans, int64_t n)
{
    collector *c = user;
    rdg_span *s = c->no_memory ? NULL : rdg_timeline_add_step(c->t, (size_t)n);
    c->no_memory = !s;
    for (int64_t i = 0; s && i < n; i++)
        s[i] = (rdg_span){.what = spans[i].node,
                          .ordered = spans[i].ordered,
                          .begin_ns = spans[i].begin_ns,
                          .ready_ns = spans[i].ready_ns,
                          .end_ns = spans[i].end_ns};
}

static rdg_err one_run(const cli_timeline_job *j, cli_timeline *t, bool stamps, double *speed, rdg_error *e)
{
    collector c = {.t = &t->spans};
    rdg_decode d = {.token = j->token,
                    .n = j->n,
                    .sample = j->sample,
                    .seed = j->seed,
                    .on_token = on_token,
                    .on_spans = stamps ? on_spans : NULL,
                    .user = &c};
    int64_t n_done;
    rdg_err err = j->rewind(j->user, e);
    if (err) return err;
    if (stamps) rdg_timeline_finish(&t->spans);
    double start = rdg_clock_seconds();
    err = rdg_session_decode(j->session, &d, &n_done, e);
    *speed = (double)n_done / (rdg_clock_seconds() - start);
    if (!err && c.no_memory) err = rdg_fail(e, RDG_E_NOMEM, "no memory for the timeline");
    return err;
}

static double median(double *x, int64_t n)
{
    rdg_sort_doubles(x, (size_t)n);
    return rdg_median_sorted(x, (size_t)n);
}

/* Picking a token stands at the end of each step. */
static double pick_seconds(const rdg_timeline *t)
{
    int64_t ns = 0;
    for (size_t i = 0; i < t->n_steps; i++) {
        size_t k = t->first[i], end = t->first[i + 1];
        while (k < end && t->spans[k].what >= 0) k++;
        if (k < end) ns += t->spans[end - 1].end_ns - t->spans[k].begin_ns;
    }
    return (double)ns * 1e-9 / (double)RDG_MAX(t->n_steps, 1);
}

rdg_err cli_timeline_measure(const cli_timeline_job *j, cli_timeline *t, rdg_error *e)
{
    double plain[MAX_REPEATS], stamped[MAX_REPEATS], ignored;
    int64_t n = RDG_MIN(j->repeats, MAX_REPEATS);
    rdg_err err = one_run(j, t, true, &ignored, e); /* records the lists */
    for (int64_t r = 0; r < n && !err; r++) {
        err = one_run(j, t, false, &plain[r], e);
        if (!err) err = one_run(j, t, true, &stamped[r], e);
        rdg_log_progress(&j->c->log, "timeline", (double)(r + 1), (double)n);
    }
    if (err) return err;
    t->plain = median(plain, n);
    t->stamped = median(stamped, n);
    rdg_timeline_summarise(&t->spans, &t->sum);
    t->pick_seconds = pick_seconds(&t->spans);
    if (t->sum.n_odd)
        return rdg_fail(e, RDG_E_DEVICE, "%lld of %lld timestamps of the device do not rise in order",
                        (long long)t->sum.n_odd, (long long)t->sum.n_spans);
    return RDG_OK;
}

/* What cannot be seen by timestamps: the way of an ordered launch to the cores. */
static double launch_bound(const cli_timeline *t)
{
    return t->launch_seconds * (double)t->sum.n_ordered;
}

static double idle(const cli_timeline *t)
{
    return (double)(t->sum.idle_inside_ns + t->sum.idle_between_ns) * 1e-9;
}

static double idle_at_most(const cli_timeline *t)
{
    return (double)t->sum.idle_between_ns * 1e-9 +
           fmax((double)t->sum.idle_inside_ns * 1e-9, launch_bound(t));
}

/* The timestamps stretch the gaps that they measure. What of a token without them is not busy by these spans;
 * 0 where they stretch the launches too. */
static double idle_unstamped(const cli_timeline *t)
{
    double busy = (double)t->sum.busy_ns * 1e-9 / (double)RDG_MAX(t->sum.n_steps, 1);
    return fmax(0, 1 - busy * t->plain);
}

void cli_timeline_print(const cli_timeline *t, bool every_token)
{
    const rdg_timeline_summary *s = &t->sum;
    double span = (double)s->span_ns, n = (double)s->n_steps;
    printf("  timeline %lld tokens, %.1f launches a token (%.1f of them wait for those before), "
           "%.3f ms from the first to the last\n",
           (long long)s->n_steps, (double)s->n_spans / n, (double)s->n_ordered / n, span * 1e-6);
    printf(
        "    idle %.2f %% by timestamps: %.2f %% between launches of a token (%.1f us a token), "
        "%.2f %% between tokens (%.1f us each, largest %.1f us)\n",
        (double)(s->idle_inside_ns + s->idle_between_ns) / span * 100, (double)s->idle_inside_ns / span * 100,
        (double)s->idle_inside_ns / n * 1e-3, (double)s->idle_between_ns / span * 100,
        s->n_steps > 1 ? (double)s->idle_between_ns / (n - 1) * 1e-3 : 0.0, (double)s->largest_gap_ns * 1e-3);
    printf("    picking a token takes %.1f us of %.1f\n", t->pick_seconds * 1e6, span * 1e-3 / n);
    if (s->waiting_ns)
        printf("    launches overlap: of the %.1f us of a token in which some run, %.1f us (%.2f %%) pass "
               "while all "
               "that run wait for others or for their first weights\n",
               (double)s->busy_ns * 1e-3 / n, (double)s->waiting_ns * 1e-3 / n,
               (double)s->waiting_ns / span * 100);
    if (s->n_early)
        printf("    %lld launches began, by their timestamp, before those they wait for were over: this "
               "device reads "
               "ahead, the gap there is not seen\n",
               (long long)s->n_early);
    if (isfinite(t->launch_seconds))
        printf("    idle at most %.2f %%, if each launch that waits spends on starting what an empty one "
               "takes (%.2f "
               "us)\n",
               idle_at_most(t) / span * 1e11, t->launch_seconds * 1e6);
    printf("    %.2f tokens/s with timestamps, %.2f without: they cost %.1f %%\n", t->stamped, t->plain,
           (t->plain / t->stamped - 1) * 100);
    printf("    without them a token takes %.1f us, and these launches %.1f: idle about %.2f %%\n",
           1e6 / t->plain, (double)s->busy_ns * 1e-3 / n, idle_unstamped(t) * 100);
    for (size_t i = 0; every_token && i < t->spans.n_steps; i++) {
        rdg_timeline_step k = rdg_timeline_step_at(&t->spans, i);
        double length = (double)(k.end_ns - k.begin_ns);
        printf("    token %4zu  begins %10.3f ms  gap before %8.1f us  span %8.1f us  busy %8.1f us  idle "
               "%5.2f %%\n",
               i, (double)k.begin_ns * 1e-6, (double)k.gap_ns * 1e-3, length * 1e-3, (double)k.busy_ns * 1e-3,
               length > 0 ? (length - (double)k.busy_ns) / length * 100 : 0.0);
    }
}

json_t *cli_timeline_json(const cli_timeline *t)
{
    const rdg_timeline_summary *s = &t->sum;
    double span = (double)s->span_ns * 1e-9;
    json_t *tokens = json_array();
    for (size_t i = 0; i < t->spans.n_steps; i++) {
        rdg_timeline_step k = rdg_timeline_step_at(&t->spans, i);
        json_array_append_new(tokens, json_pack("{s:o, s:o, s:o, s:o}", "begin_seconds",
                                                cli_real((double)k.begin_ns * 1e-9), "seconds",
                                                cli_real((double)(k.end_ns - k.begin_ns) * 1e-9),
                                                "busy_seconds", cli_real((double)k.busy_ns * 1e-9),
                                                "gap_before_seconds", cli_real((double)k.gap_ns * 1e-9)));
    }
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "n_tokens", (json_int_t)s->n_steps, "n_launches", (json_int_t)s->n_spans, "n_ordered",
        (json_int_t)s->n_ordered, "n_begun_early", (json_int_t)s->n_early, "seconds", cli_real(span),
        "waiting_seconds", cli_real((double)s->waiting_ns * 1e-9), "busy_seconds",
        cli_real((double)s->busy_ns * 1e-9), "idle_inside_seconds",
        cli_real((double)s->idle_inside_ns * 1e-9), "idle_between_seconds",
        cli_real((double)s->idle_between_ns * 1e-9), "largest_gap_seconds",
        cli_real((double)s->largest_gap_ns * 1e-9), "idle_fraction", cli_real(idle(t) / span), "pick_seconds",
        cli_real(t->pick_seconds), "launch_seconds", cli_real(t->launch_seconds), "idle_fraction_at_most",
        cli_real(idle_at_most(t) / span), "tokens_per_second", cli_real(t->plain),
        "tokens_per_second_stamped", cli_real(t->stamped), "idle_fraction_unstamped",
        cli_real(idle_unstamped(t)), "stamps_cost_fraction", cli_real(t->plain / t->stamped - 1), "tokens",
        tokens);
}

/* What launch `node` is called: operation, role and block; its kernel. */
static json_t *launch_names(const cli_timeline_job *j, int32_t node)
{
    rdg_prepared *prepared;
    if (node < 0 || rdg_session_plan(j->session, 1, 1, &prepared, NULL))
        return json_pack("{s:s, s:s, s:s}", "op", "sample", "kernel", "sample", "name", "sample");
    const rdg_node *n = &prepared->plan->nodes[node];
    const char *kernel = j->session->exec->class->kernel_name(j->session->exec, prepared, (size_t)node);
    json_t *names = json_pack("{s:s, s:s, s:s, s:i}", "op", n->op->name, "kernel", kernel ? kernel : "?",
                              "name", n->tag && n->tag[0] ? n->tag : n->op->name, "layer", (int)n->layer);
    return names;
}

static void add_event(json_t *events, const char *name, const char *category, int row, double begin_ns,
                      double ns, json_t *args)
{
    json_array_append_new(events, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "name", name, "cat",
                                            category, "ph", "X", "pid", 1, "tid", row, "ts", begin_ns * 1e-3,
                                            "dur", ns * 1e-3, "args", args));
}

rdg_err cli_timeline_write(const cli_timeline_job *j, const cli_timeline *t, const char *path, rdg_error *e)
{
    json_t *events = json_array();
    for (int row = 0; row <= t->sum.n_lanes; row++) {
        char name[32];
        snprintf(name, sizeof name, row ? "launches %d" : "tokens", row);
        json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph",
                                                "M", "pid", 1, "tid", row, "args", "name", name));
    }
    for (size_t i = 0; i < t->spans.n_steps; i++) {
        char name[32];
        rdg_timeline_step k = rdg_timeline_step_at(&t->spans, i);
        snprintf(name, sizeof name, "token %zu", i);
        add_event(events, name, "token", 0, (double)k.begin_ns, (double)(k.end_ns - k.begin_ns),
                  json_pack("{s:f, s:f}", "busy_us", (double)k.busy_ns * 1e-3, "gap_before_us",
                            (double)k.gap_ns * 1e-3));
        for (size_t s = t->spans.first[i]; s < t->spans.first[i + 1]; s++) {
            const rdg_span *span = &t->spans.spans[s];
            json_t *args = launch_names(j, span->what);
            json_object_set_new(args, "waits", json_boolean(span->ordered));
            json_object_set_new(args, "waited_us",
                                cli_real((double)(span->ready_ns - span->begin_ns) * 1e-3));
            add_event(events, json_string_value(json_object_get(args, "name")),
                      json_string_value(json_object_get(args, "op")), 1 + span->lane, (double)span->begin_ns,
                      (double)(span->end_ns - span->begin_ns), json_incref(args));
            json_decref(args);
        }
    }
    json_t *doc = json_pack("{s:o, s:s, s:o}", "traceEvents", events, "displayTimeUnit", "ns", "otherData",
                            cli_timeline_json(t));
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    if (!text) return rdg_fail(e, RDG_E_NOMEM, "no memory for the timeline");
    rdg_out out;
    rdg_err err = rdg_out_open(&out, path, e);
    if (!err) err = rdg_out_write(&out, text, strlen(text), e);
    if (!err) err = rdg_out_commit(&out, e);
    rdg_out_close(&out);
    free(text); /* jansson's own allocation */
    return err;
}

void cli_timeline_finish(cli_timeline *t)
{
    rdg_timeline_finish(&t->spans);
}
