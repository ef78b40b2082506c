/* Decoding on a device, step after step without the host, on a small model: the timestamps of every launch
 * rise, there is one span a launch, time that the host wastes between tokens shows as idle, and sampling on
 * the device picks what the host would, and chains pick what barriers do. Usage: test_decode_vulkan
 * GOLDEN_DIR TRAINED_DIR [DEVICE [SEED]]; without a device it is skipped. */
#include "base/clock.h"
#include "base/rng.h"
#include "engine/decode.h"
#include "graph/gpu_exec.h"
#include "graph/gpu_exec_internal.h"
#include "profile/timeline.h"
#include "ridge/convert.h"
#include "ridge/generate.h"
#include "../golden/golden.h"

#include <time.h>

enum { TOKENS = 24, SLEEP_AFTER = 9, SLEEP_MS = 300 };

typedef struct watch {
    rdg_timeline t;
    int n_tokens, failures;
    int32_t tokens[TOKENS];
    bool sleeps;
} watch;

static bool on_token(void *user, int32_t token)
{
    watch *w = user;
    w->tokens[w->n_tokens++] = token;
    if (w->sleeps && w->n_tokens == SLEEP_AFTER)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_MS * 1000000L}, NULL);
    return true;
}

static void on_spans(void *user, const rdg_launch_span *spans, int64_t n)
{
    watch *w = user;
    rdg_span *s = rdg_timeline_add_step(&w->t, (size_t)n);
    for (int64_t i = 0; s && i < n; i++)
        s[i] = (rdg_span){.what = spans[i].node,
                          .ordered = spans[i].ordered,
                          .begin_ns = spans[i].begin_ns,
                          .ready_ns = spans[i].ready_ns,
                          .end_ns = spans[i].end_ns};
}

static void expect(watch *w, bool ok, const char *what)
{
    if (!ok) printf("FAIL: %s\n", what);
    w->failures += !ok;
}

static rdg_err decode(rdg_session *s, watch *w, bool spans, rdg_error *e)
{
    rdg_decode d = {
        .token = 3, .n = TOKENS, .on_token = on_token, .on_spans = spans ? on_spans : NULL, .user = w};
    int64_t n_done;
    w->n_tokens = 0;
    rdg_timeline_finish(&w->t);
    rdg_session_reset(s);
    rdg_err err = rdg_session_decode(s, &d, &n_done, e);
    if (!err) expect(w, n_done == TOKENS && w->n_tokens == TOKENS, "not every token came");
    return err;
}

static rdg_err timeline(rdg_session *s, watch *w, rdg_error *e)
{
    const rdg_device_account *a = rdg_device_get_account(rdg_exec_gpu_device(s->exec));
    int32_t plain[TOKENS];
    rdg_timeline_summary sum;
    rdg_err err = decode(s, w, false, e);
    memcpy(plain, w->tokens, sizeof plain);
    if (!err) err = decode(s, w, true, e); /* looks at the device's clocks first */
    int64_t before = a->n_dispatches;
    if (!err) err = decode(s, w, true, e);
    if (err) return err;
    rdg_timeline_summarise(&w->t, &sum);
    printf("%lld steps, %lld spans, %lld launches, busy %.1f of %.1f ms\n", (long long)sum.n_steps,
           (long long)sum.n_spans, (long long)(a->n_dispatches - before), (double)sum.busy_ns * 1e-6,
           (double)sum.span_ns * 1e-6);
    expect(w, !memcmp(plain, w->tokens, sizeof plain), "timestamps changed the tokens");
    expect(w, sum.n_steps == TOKENS, "not one set of spans a token");
    expect(w, sum.n_spans == a->n_dispatches - before, "not one span a launch");
    expect(w, sum.n_odd == 0, "timestamps that do not rise");
    expect(w, sum.busy_ns > 0 && sum.idle_inside_ns >= 0 && sum.idle_between_ns >= 0, "negative times");
    expect(w, sum.span_ns == sum.busy_ns + sum.idle_inside_ns + sum.idle_between_ns,
           "times that do not add up");
    expect(w, w->t.n_spans && w->t.spans[w->t.n_spans - 1].what == -1,
           "the last launch does not pick the token");

    /* The host sleeps when it has token SLEEP_AFTER - 1; the step behind that one is on its way already, so
     * the gap is in front of the next but one. */
    bool seen = false;
    for (int round = 0; round < 5 && !seen;
         round++) { /* a machine that holds up the driver shortens the gap */
        w->sleeps = true;
        if ((err = decode(s, w, true, e))) return err;
        w->sleeps = false;
        rdg_timeline_summarise(&w->t, &sum);
        rdg_timeline_step step = rdg_timeline_step_at(&w->t, SLEEP_AFTER + 1),
                          running = rdg_timeline_step_at(&w->t, SLEEP_AFTER);
        double gap = (double)step.gap_ns * 1e-6, length = (double)(running.end_ns - running.begin_ns) * 1e-6;
        printf("slept %d ms: a gap of %.1f ms after a step of %.1f ms, idle %.1f %%\n", SLEEP_MS, gap, length,
               (double)(sum.idle_between_ns + sum.idle_inside_ns) / (double)sum.span_ns * 100);
        expect(w, sum.largest_gap_ns >= step.gap_ns && sum.idle_between_ns >= step.gap_ns,
               "the gap is not idle time");
        seen = gap + length >= 0.95 * SLEEP_MS;
    }
    expect(w, seen, "the time that the host slept does not show as a gap");
    return RDG_OK;
}

/* Once by the device on its own, once step by step with the host's sampler and the device's logits: the same
 * tokens, also when a run is cut in two, and with settings that only the host knows. */
static rdg_err sampled(rdg_session *s, watch *w, uint64_t seed, rdg_error *e)
{
    static const struct {
        float temperature, top_p, min_p, repeat_penalty;
        int32_t top_k;
    } rows[] = {{0, 1, 0, 1, 0},       {1, 1, 0, 1, 0}, {0.8f, 0.95f, 0.05f, 1, 40},
                {1.5f, 0.7f, 0, 1, 0}, {1, 1, 0, 1, 5}, {1, 0.9f, 0, 1.2f, 0}};
    int64_t n_vocab = s->model->hparams.n_vocab;
    rdg_err err = RDG_OK;
    for (size_t r = 0; r < sizeof rows / sizeof *rows && !err; r++) {
        rdg_sampler_params p;
        rdg_sampler *host = NULL, *device = NULL;
        int32_t want[TOKENS], token = 3;
        int64_t n_first = 0, n_done = 0;
        rdg_sampler_defaults(&p);
        p.seed = seed + r;
        p.temperature = rows[r].temperature;
        p.top_k = rows[r].top_k;
        p.top_p = rows[r].top_p;
        p.min_p = rows[r].min_p;
        p.repeat_penalty = rows[r].repeat_penalty;
        err = rdg_sampler_create(&p, n_vocab, &host, e);
        if (!err) err = rdg_sampler_create(&p, n_vocab, &device, e);
        rdg_session_reset(s);
        for (int i = 0; i < TOKENS && !err; i++) {
            err = rdg_session_eval(s, &token, 1, RDG_LOGITS_LAST, e);
            if (!err) err = rdg_sampler_pick(host, rdg_session_logits(s, 0), &token, e);
            if (!err) err = rdg_sampler_accept(host, token, e);
            want[i] = token;
        }
        rdg_session_reset(s);
        w->n_tokens = 0;
        if (!err) err = rdg_session_generate(s, device, 3, TOKENS / 3, on_token, w, &n_first, e);
        if (!err)
            err = rdg_session_generate(s, device, want[TOKENS / 3 - 1], TOKENS - TOKENS / 3, on_token, w,
                                       &n_done, e);
        const char *why = err ? NULL : rdg_session_picks_on_host(s, device);
        if (!err) {
            printf("T %g, top-k %d, top-p %g, min-p %g: %s\n", (double)p.temperature, (int)p.top_k,
                   (double)p.top_p, (double)p.min_p, why ? why : "on the device");
            expect(w, n_first + n_done == TOKENS && w->n_tokens == TOKENS, "not every token came");
            expect(w, !memcmp(want, w->tokens, sizeof want), "the device picks otherwise than the host");
            expect(w, rdg_session_n_past(s) == TOKENS, "the session is elsewhere");
            expect(w, !why == (p.repeat_penalty == 1), "picked on the wrong side");
        }
        rdg_sampler_destroy(device);
        rdg_sampler_destroy(host);
    }
    return err;
}

/* Quantised weights take the step kernels: chained, and with barriers between all launches that depend on
 * each other, they pick the same tokens. */
static rdg_err chained(rdg_model *m, const rdg_session_params *sp, watch *w, rdg_error *e)
{
    int32_t tokens[2][TOKENS];
    int64_t barriers[2];
    for (int way = 0; way < 2; way++) {
        rdg_session *s;
        rdg_err err = rdg_session_create(m, sp, &s, e);
        if (err) return err;
        gpu_exec *x = (gpu_exec *)s->exec;
        const rdg_device_account *a = rdg_device_get_account(x->device);
        bool can = x->chains;
        x->chains = can && way == 0;
        int64_t before = a->n_barriers;
        err = decode(s, w, false, e);
        barriers[way] = a->n_barriers - before;
        memcpy(tokens[way], w->tokens, sizeof tokens[way]);
        rdg_session_destroy(s);
        if (err) return err;
        if (can) continue;
        printf("no chains on this device\n");
        return RDG_OK;
    }
    printf("%.1f barriers a token in chains, %.1f without\n", (double)barriers[0] / TOKENS,
           (double)barriers[1] / TOKENS);
    expect(w, !memcmp(tokens[0], tokens[1], sizeof tokens[0]), "chains change the tokens");
    expect(w, 2 * barriers[0] < barriers[1], "chains save few barriers");
    return RDG_OK;
}

int main(int argc, char **argv)
{
    char dir[512];
    golden_temp temp;
    rdg_error e = {0};
    rdg_convert_result result = {0};
    rdg_model *m = NULL;
    rdg_session *s = NULL;
    watch w = {0};
    int rc = 1;
    if (argc < 3) return 2;
    snprintf(dir, sizeof dir, "%s/llama", argv[1]);
    if (!golden_temp_make(&temp)) return 1;
    rdg_convert_params p = {.type = RDG_RECIPE_F32, .n_threads = 1};
    rdg_session_params sp;
    rdg_session_defaults(&sp);
    sp.device = argc > 3 ? argv[3] : "vulkan";
    sp.n_ctx = 64;
    sp.n_threads = 1;
    rdg_err err = rdg_convert(dir, temp.file, &p, &result, &e);
    if (!err) err = rdg_model_load(temp.file, NULL, &m, &e);
    if (!err) err = rdg_session_create(m, &sp, &s, &e);
    if (err == RDG_E_NOT_FOUND) {
        printf("skipped: %s\n", e.message);
        rc = 77;
        goto done;
    }
    const uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 0) : (uint64_t)rdg_clock_ns();
    printf("seed %llu\n", (unsigned long long)seed);
    if (!err) err = timeline(s, &w, &e);
    if (!err) err = sampled(s, &w, seed, &e);
    rdg_session_destroy(s);
    rdg_model_release(m);
    rdg_convert_result_finish(&result);
    s = NULL, m = NULL;
    p.type = RDG_RECIPE_Q4_K_M;
    if (!err) err = rdg_convert(argv[2], temp.file, &p, &result, &e);
    if (!err) err = rdg_model_load(temp.file, NULL, &m, &e);
    if (!err) err = chained(m, &sp, &w, &e);
    if (err) printf("%s: %s\n", rdg_err_name(err), e.message);
    printf("%d failures\n", w.failures);
    rc = err || w.failures;
done:
    rdg_timeline_finish(&w.t);
    rdg_session_destroy(s);
    rdg_model_release(m);
    rdg_convert_result_finish(&result);
    golden_temp_remove(&temp);
    return rc;
}
