/* Busy and idle time from spans with known answers, and from random ones against a picture of every
 * nanosecond. */
#include "../support/random.h"
#include "profile/timeline.h"

typedef struct times {
    int64_t begin, end;
    bool ordered;
} times;

static void add(rdg_timeline *t, const times *s, size_t n)
{
    rdg_span *spans = rdg_timeline_add_step(t, n);
    assert_non_null(spans);
    for (size_t i = 0; i < n; i++)
        spans[i] = (rdg_span){
            .ordered = s[i].ordered, .begin_ns = s[i].begin, .ready_ns = s[i].begin, .end_ns = s[i].end};
}

static void known_steps(void **state)
{
    (void)state;
    rdg_timeline t = {0};
    rdg_timeline_summary s;
    /* two side by side, counted once; a gap of 10; then one that was read ahead of the barrier */
    add(&t, (times[]){{0, 100, true}, {20, 120, false}, {130, 150, true}, {140, 160, true}}, 4);
    /* 40 later; the second begins before the first of its step is over, without waiting for it */
    add(&t, (times[]){{200, 300, true}, {250, 320, false}}, 2);
    /* begins before the step in front of it is over: no gap can be seen */
    add(&t, (times[]){{310, 330, true}}, 1);
    rdg_timeline_summarise(&t, &s);
    assert_int_equal(s.n_steps, 3);
    assert_int_equal(s.n_spans, 7);
    assert_int_equal(s.n_ordered, 5);
    assert_int_equal(s.n_early, 2);
    assert_int_equal(s.n_odd, 0);
    assert_int_equal(s.span_ns, 330);
    assert_int_equal(s.busy_ns, 120 + 30 + 120 + 10);
    assert_int_equal(s.idle_inside_ns, 10);
    assert_int_equal(s.idle_between_ns, 40);
    assert_int_equal(s.largest_gap_ns, 40);
    assert_int_equal(s.n_lanes, 2);
    rdg_timeline_step k = rdg_timeline_step_at(&t, 2);
    assert_int_equal(k.begin_ns, 320);
    assert_int_equal(k.busy_ns, 10);
    assert_int_equal(k.gap_ns, 0);
    rdg_timeline_finish(&t);
}

/* A chain: launches run before those they wait for are over, and wait. */
static void waiting(void **state)
{
    (void)state;
    rdg_timeline t = {0};
    rdg_timeline_summary s;
    rdg_span *k = rdg_timeline_add_step(&t, 4);
    assert_non_null(k);
    k[0] = (rdg_span){.ordered = true, .begin_ns = 0, .ready_ns = 0, .end_ns = 10};
    k[1] = (rdg_span){.begin_ns = 20, .ready_ns = 25, .end_ns = 60};
    k[2] = (rdg_span){.begin_ns = 50, .ready_ns = 63, .end_ns = 80};
    k[3] = (rdg_span){.begin_ns = 49, .ready_ns = 84, .end_ns = 90}; /* began first, was ready last */
    rdg_timeline_summarise(&t, &s);
    assert_int_equal(s.n_odd, 0);
    assert_int_equal(s.span_ns, 90);
    assert_int_equal(s.busy_ns, 10 + 70);
    assert_int_equal(s.idle_inside_ns, 10);
    assert_in_range(s.waiting_ns, 5 + 3 + 4, 5 + 3 + 4 + 17); /* its lower bound of work may miss k[2] */
    assert_int_equal(t.spans[1].begin_ns, 20);
    assert_int_equal(t.spans[2].begin_ns, 49);
    k = t.spans;
    k[3].ready_ns = 81; /* later than it ends: broken */
    rdg_timeline_summarise(&t, &s);
    assert_int_equal(s.n_odd, 1);
    rdg_timeline_finish(&t);
}

static void broken_stamps_are_counted(void **state)
{
    (void)state;
    rdg_timeline t = {0};
    rdg_timeline_summary s;
    add(&t, (times[]){{10, 5, true}, {20, 40, true}, {30, 35, true}}, 3);
    rdg_timeline_summarise(&t, &s);
    assert_int_equal(s.n_odd, 2);
    rdg_timeline_finish(&t);
}

static void nothing(void **state)
{
    (void)state;
    rdg_timeline t = {0};
    rdg_timeline_summary s;
    rdg_timeline_summarise(&t, &s);
    assert_int_equal(s.n_steps + s.n_spans + s.span_ns + s.busy_ns, 0);
    rdg_timeline_finish(&t);
}

static void random_steps(void **state)
{
    (void)state;
    enum { STEPS = 6, SPANS = 40, END = 8192 };
    static char busy[END];
    rdg_rng rng;
    seed_fresh(&rng);
    for (int round = 0; round < 50; round++) {
        rdg_timeline t = {0};
        rdg_timeline_summary s;
        int64_t at = 0, reached = 0, busy_ns = 0, previous = 0, between = 0;
        memset(busy, 0, sizeof busy);
        for (int i = 0; i < STEPS; i++) {
            times spans[SPANS];
            size_t n = 1 + rdg_rng_below(&rng, SPANS);
            for (size_t k = 0; k < n; k++) {
                at += (int64_t)rdg_rng_below(&rng, 20); /* begins rise, ends rise */
                if (k == 0) at = RDG_MAX(at, reached);
                int64_t end = RDG_MAX(at, reached) + (int64_t)rdg_rng_below(&rng, 12);
                spans[k] = (times){at, end, rdg_rng_below(&rng, 2)};
                reached = end;
                memset(busy + at, 1, (size_t)(end - at));
            }
            if (i) between += spans[0].begin - previous;
            previous = reached;
            add(&t, spans, n);
        }
        assert_true(reached < END);
        for (int64_t k = 0; k < END; k++) busy_ns += busy[k];
        rdg_timeline_summarise(&t, &s);
        assert_int_equal(s.n_odd, 0);
        assert_int_equal(s.busy_ns, busy_ns);
        assert_int_equal(s.idle_between_ns, between);
        assert_int_equal(s.span_ns, s.busy_ns + s.idle_inside_ns + s.idle_between_ns);
        for (size_t a = 0; a < t.n_spans; a++) /* lanes hold no two at a time while there are enough */
            for (size_t b = 0; b < a && s.n_lanes < 16; b++)
                if (t.spans[a].lane == t.spans[b].lane) assert_true(t.spans[b].end_ns <= t.spans[a].begin_ns);
        rdg_timeline_finish(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_steps),
        cmocka_unit_test(waiting),
        cmocka_unit_test(broken_stamps_are_counted),
        cmocka_unit_test(nothing),
        cmocka_unit_test(random_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
