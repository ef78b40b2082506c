/* The Nth call of a device fails, for N = 1, 2, …, in load, prefill and decode: no crash, no leak, an error
 * that says what was going on, and a session that works again afterwards unless the device was lost. Runs on
 * the trace device, which computes nothing: only what happens around the kernels is looked at. Usage:
 * test_gpu_faults GOLDEN_DIR */
#include "device/trace/trace.h"
#include "engine/session_internal.h"
#include "graph/gpu_exec.h"
#include "graph/gpu_exec_internal.h"
#include "graph/split_exec.h"
#include "ridge/convert.h"
#include "../golden/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 11, MAX_CALLS = 4000 };

static bool stop(void *user, int32_t token)
{
    (void)token;
    return ++*(int *)user < 3;
}

static void ignore(void *user, const rdg_launch_span *spans, int64_t n)
{
    (void)user;
    (void)spans;
    (void)n;
}

/* Everything a session asks of a device. */
static rdg_device *device_of(const rdg_session *s)
{
    const rdg_exec *part = rdg_exec_split_gpu(s->exec);
    return rdg_exec_gpu_device(part ? part : s->exec);
}

static rdg_err use(rdg_session *s, rdg_error *e)
{
    static const int32_t prompt[PROMPT] = {1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
    rdg_prepared *prepared;
    int64_t n_done;
    int picked = 0;
    rdg_err rc = rdg_session_eval(s, prompt, PROMPT, RDG_LOGITS_LAST, e);
    if (!rc) rc = rdg_session_eval(s, prompt, 1, RDG_LOGITS_LAST, e);
    if (!rc) rc = rdg_session_plan(s, 1, 1, &prepared, e);
    rdg_generate g = {
        .token = 3, .position = (int32_t)rdg_session_n_past(s), .n = 3, .on_token = stop, .user = &picked};
    if (rc || !s->exec->class->generate) return rc;
    rc = s->exec->class->generate(s->exec, prepared, &g, &n_done, e);
    g.on_spans = ignore;
    g.sample = (rdg_sample_params){.temperature = 1, .top_k = 9, .top_p = 0.9f};
    picked = 0;
    return rc ? rc : s->exec->class->generate(s->exec, prepared, &g, &n_done, e);
}

static rdg_err open_session(rdg_model *m, int64_t gpu_layers, rdg_session **s, rdg_error *e)
{
    rdg_session_params p;
    rdg_session_defaults(&p);
    p.device = "trace";
    p.n_ctx = 64;
    p.n_threads = 1;
    p.gpu_layers = gpu_layers;
    return rdg_session_create(m, &p, s, e);
}

/* False when something is wrong; *past when the Nth call was never reached. */
static bool fail_nth(rdg_model *m, int64_t gpu_layers, int64_t nth, rdg_err code, bool *past)
{
    rdg_session *s;
    rdg_error e = {0};
    if (open_session(m, gpu_layers, &s, &e)) {
        printf("no session: %s\n", e.message);
        return false;
    }
    rdg_device *d = device_of(s);
    rdg_trace_fail_at(d, nth, code);
    rdg_err rc = use(s, &e);
    *past = rc == RDG_OK;
    bool ok = true;
    if (rc && (rc != code || !strstr(e.message, "fails as asked") || !strstr(e.message, ": "))) {
        printf("call %lld: %s, \"%s\"\n", (long long)nth, rdg_err_name(rc), e.message);
        ok = false;
    }
    if (rc) { /* again: refused for ever after a loss, possible otherwise */
        rdg_error again = {0};
        rdg_session_reset(s);
        rc = use(s, &again);
        if (code == RDG_E_DEVICE_LOST ? rc != RDG_E_DEVICE_LOST : rc != RDG_OK) {
            printf("call %lld failed; afterwards: %s, \"%s\"\n", (long long)nth, rdg_err_name(rc),
                   again.message);
            ok = false;
        }
    }
    rdg_session_destroy(s);
    return ok;
}

/* The calls that making a session takes: of a second one, on the device that the first holds open. Nothing of
 * it may stay behind on that device. */
static bool fail_nth_of_second(rdg_model *m, int64_t nth, rdg_err code, bool *past)
{
    rdg_session *first, *s = NULL;
    rdg_error e = {0}, again = {0};
    if (open_session(m, 0, &first, &e) || use(first, &e)) {
        printf("no first session: %s\n", e.message);
        rdg_session_destroy(first);
        return false;
    }
    rdg_device *d = device_of(first);
    const rdg_device_account before = *rdg_device_get_account(d), *after = rdg_device_get_account(d);
    rdg_trace_fail_at(d, nth, code);
    rdg_err rc = open_session(m, 0, &s, &e);
    if (!rc) rc = rdg_session_load(s, NULL, &e);
    *past = rc == RDG_OK;
    rdg_trace_fail_at(d, 0, RDG_OK);
    bool ok = !rc || (rc == code && strstr(e.message, "fails as asked"));
    if (rc && s && code != RDG_E_DEVICE_LOST) ok = ok && !use(s, &again);
    rdg_session_destroy(s);
    ok = ok && after->n_buffers == before.n_buffers && after->n_lists == before.n_lists &&
         after->n_kernels == before.n_kernels && after->bytes_now == before.bytes_now;
    rc = use(first, &again);
    ok = ok && rc == (code == RDG_E_DEVICE_LOST && !*past ? RDG_E_DEVICE_LOST : RDG_OK);
    if (!ok)
        printf("call %lld of a second session: \"%s\"; afterwards: %s, \"%s\"\n", (long long)nth, e.message,
               rdg_err_name(rc), again.message);
    rdg_session_destroy(first);
    return ok;
}

/* A plan for more tokens cannot have the memory that all plans share: those that were ready before still run.
 */
static bool fail_nth_of_larger(rdg_model *m, int64_t nth, rdg_err code, bool *past)
{
    static const int32_t prompt[PROMPT] = {1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
    rdg_session *s;
    rdg_error e = {0}, again = {0};
    if (open_session(m, 0, &s, &e) || rdg_session_eval(s, prompt, 1, RDG_LOGITS_LAST, &e)) {
        printf("no session: %s\n", e.message);
        rdg_session_destroy(s);
        return false;
    }
    const gpu_exec *x = (const gpu_exec *)s->exec;
    rdg_trace_fail_at(x->device, nth, code);
    rdg_err rc = rdg_session_eval(s, prompt, PROMPT, RDG_LOGITS_LAST, &e);
    *past = rc == RDG_OK;
    rdg_trace_fail_at(x->device, 0, RDG_OK);
    rdg_session_reset(s);
    rc = rdg_session_eval(s, prompt, 1, RDG_LOGITS_LAST, &again);
    bool ok = code == RDG_E_DEVICE_LOST && !*past ? rc == code : !rc && x->scratch && x->sample_scratch;
    if (!ok)
        printf("call %lld of a larger plan: \"%s\"; afterwards: %s, \"%s\"\n", (long long)nth, e.message,
               rdg_err_name(rc), again.message);
    rdg_session_destroy(s);
    return ok;
}

/* No token can be picked: an error, and the next steps do not trust what the failed one left. */
static bool fail_picking(rdg_model *m)
{
    static const int32_t prompt[PROMPT] = {1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
    rdg_session *s;
    rdg_error e = {0};
    rdg_prepared *prepared;
    int64_t n_done;
    int picked = 0;
    if (open_session(m, 0, &s, &e)) return false;
    rdg_err rc = use(s, &e); /* makes the ring of tokens, which nothing writes here */
    gpu_exec *x = (gpu_exec *)s->exec;
    if (!rc) rc = rdg_session_plan(s, 1, 1, &prepared, &e);
    rdg_generate g = {.position = PROMPT, .n = 3, .on_token = stop, .user = &picked};
    bool ok = !rc && x->step_scratch;
    if (ok) {
        *(int32_t *)rdg_buffer_host(x->ring) = -1;
        rc = x->base.class->generate(s->exec, prepared, &g, &n_done, &e);
        ok = rc == RDG_E_DEVICE && n_done == 0 && picked == 0 && !x->step_scratch;
        *(int32_t *)rdg_buffer_host(x->ring) = 0;
        rdg_session_reset(s);
        ok = ok && !rdg_session_eval(s, prompt, 1, RDG_LOGITS_LAST, &e) && x->step_scratch;
    }
    if (!ok) printf("no token to pick: %s, \"%s\"\n", rdg_err_name(rc), e.message);
    rdg_session_destroy(s);
    return ok;
}

int main(int argc, char **argv)
{
    static const rdg_err codes[] = {RDG_E_DEVICE, RDG_E_NOMEM, RDG_E_DEVICE_LOST};
    char dir[512];
    golden_temp temp;
    rdg_error e = {0};
    rdg_convert_result result = {0};
    rdg_model *m = NULL;
    int failures = 0, n = 0;
    if (argc < 2) return 2;
    snprintf(dir, sizeof dir, "%s/llama", argv[1]);
    if (!golden_temp_make(&temp)) return 1;
    rdg_convert_params p = {.type = RDG_RECIPE_F32, .n_threads = 1};
    if (rdg_convert(dir, temp.file, &p, &result, &e) || rdg_model_load(temp.file, NULL, &m, &e)) {
        printf("%s\n", e.message);
        return 1;
    }
    /* everything on the device, its last block only, a second session, a larger plan */
    for (int c = 0; c < 12; c++) {
        bool past = false;
        /* every call at first, then further and further apart: most are dispatches of one list or another */
        for (int64_t nth = 1; !past && nth < MAX_CALLS; nth += nth < 60 ? 1 : 7, n++)
            failures += c < 6   ? !fail_nth(m, c / 3, nth, codes[c % 3], &past)
                        : c < 9 ? !fail_nth_of_second(m, nth, codes[c % 3], &past)
                                : !fail_nth_of_larger(m, nth, codes[c % 3], &past);
        if (!past) {
            printf("still failing at call %d\n", MAX_CALLS);
            failures++;
        }
    }
    failures += !fail_picking(m);
    rdg_model_release(m);
    rdg_convert_result_finish(&result);
    golden_temp_remove(&temp);
    printf("%d calls failed on purpose, %d handled wrongly\n", n, failures);
    return failures != 0;
}
