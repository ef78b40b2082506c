#include "profile/timeline.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LANES = 16 };

rdg_span *rdg_timeline_add_step(rdg_timeline *t, size_t n)
{
    if (!rdg_grow(&t->first, t->n_steps + 1, &t->cap_first, sizeof *t->first)) return NULL;
    while (t->cap_spans < t->n_spans + n)
        if (!rdg_grow(&t->spans, t->cap_spans, &t->cap_spans, sizeof *t->spans)) return NULL;
    if (t->n_steps == 0) t->first[0] = 0;
    rdg_span *spans = t->spans + t->n_spans;
    memset(spans, 0, n * sizeof *spans);
    t->n_spans += n;
    t->first[++t->n_steps] = t->n_spans;
    return spans;
}

void rdg_timeline_finish(rdg_timeline *t)
{
    rdg_free(t->spans);
    rdg_free(t->first);
    *t = (rdg_timeline){0};
}

static int64_t step_end(const rdg_timeline *t, size_t i)
{
    int64_t end = INT64_MIN;
    for (size_t k = t->first[i]; k < t->first[i + 1]; k++) end = RDG_MAX(end, t->spans[k].end_ns);
    return end;
}

/* Begins rise, so one walk finds the union. A span that begins before the step in front of its own is over
 * (it was read ahead) adds only what lies behind. Ready times need not rise: their union is a lower bound. */
rdg_timeline_step rdg_timeline_step_at(const rdg_timeline *t, size_t i)
{
    const rdg_span *s = t->spans + t->first[i];
    size_t n = t->first[i + 1] - t->first[i];
    int64_t before = i ? step_end(t, i - 1) : INT64_MIN;
    if (n == 0) return (rdg_timeline_step){0};
    int64_t begin = RDG_MAX(s[0].begin_ns, before), reached = begin, worked = begin;
    rdg_timeline_step out = {.begin_ns = begin, .gap_ns = i ? begin - before : 0};
    for (size_t k = 0; k < n; k++) {
        int64_t from = RDG_MAX(s[k].begin_ns, reached), work = RDG_MAX(s[k].ready_ns, worked);
        out.working_ns += RDG_MAX(s[k].end_ns - work, 0);
        worked = RDG_MAX(worked, s[k].end_ns);
        if (s[k].end_ns <= from) continue;
        out.busy_ns += s[k].end_ns - from;
        reached = s[k].end_ns;
    }
    out.end_ns = RDG_MAX(reached, step_end(t, i)); /* a last span of no length counts */
    return out;
}

static int by_begin(const void *a, const void *b)
{
    const rdg_span *x = a, *y = b;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

void rdg_timeline_summarise(rdg_timeline *t, rdg_timeline_summary *out)
{
    int64_t lane_end[MAX_LANES], first = 0, last = 0;
    *out = (rdg_timeline_summary){.n_steps = (int64_t)t->n_steps, .n_spans = (int64_t)t->n_spans};
    for (int l = 0; l < MAX_LANES; l++) lane_end[l] = INT64_MIN;
    for (size_t i = 0; i < t->n_steps; i++) {
        int64_t before = i ? step_end(t, i - 1) : INT64_MIN, reached = before;
        qsort(t->spans + t->first[i], t->first[i + 1] - t->first[i], sizeof *t->spans, by_begin);
        for (size_t k = t->first[i]; k < t->first[i + 1]; k++) {
            rdg_span *s = &t->spans[k];
            out->n_ordered += s->ordered;
            out->n_early += s->ordered && s->begin_ns < reached;
            out->n_odd +=
                s->end_ns < s->begin_ns || s->end_ns < s->ready_ns || (s->ordered && s->end_ns < reached);
            reached = RDG_MAX(reached, s->end_ns);
            int l = 0;
            while (l < MAX_LANES - 1 && lane_end[l] > s->begin_ns) l++;
            s->lane = l;
            lane_end[l] = s->end_ns;
            out->n_lanes = RDG_MAX(out->n_lanes, l + 1);
        }
        rdg_timeline_step step = rdg_timeline_step_at(t, i);
        if (i == 0) first = step.begin_ns;
        last = step.end_ns;
        out->busy_ns += step.busy_ns;
        out->waiting_ns += step.busy_ns - step.working_ns;
        out->idle_inside_ns += step.end_ns - step.begin_ns - step.busy_ns;
        out->idle_between_ns += step.gap_ns;
        out->largest_gap_ns = RDG_MAX(out->largest_gap_ns, step.gap_ns);
    }
    out->span_ns = last - first;
}
