#include "engine/decode.h"
#include "base/mem.h"
#include "engine/sampler_internal.h"
#include <ridge/generate.h>

#include <inttypes.h>
#include <string.h>

static rdg_err on_host(rdg_session *s, const rdg_decode *d, int64_t *n_done, rdg_error *e)
{
    int32_t token = d->token;
    if (d->on_spans)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "a timeline needs a device that decodes on its own; %s does not",
                        rdg_session_device(s));
    const int64_t n_vocab = s->model->hparams.n_vocab;
    void *work = rdg_alloc_array(1, rdg_sample_work_bytes(n_vocab));
    if (!work) return rdg_fail(e, RDG_E_NOMEM, "no memory to pick among %" PRId64 " tokens", n_vocab);
    rdg_err rc = RDG_OK;
    for (bool go_on = true; *n_done < d->n && go_on; (*n_done)++) {
        rc = rdg_session_eval(s, &token, 1, RDG_LOGITS_LAST, e);
        if (rc) break;
        token = rdg_sample_row(&d->sample, rdg_session_logits(s, 0), n_vocab, d->seed,
                               d->step + (uint32_t)*n_done, work);
        if (token < 0) {
            rc = rdg_fail(e, RDG_E_DEVICE, "position %" PRId64 ": %s", s->n_past - 1,
                          rdg_sample_problem(token));
            break;
        }
        go_on = d->on_token(d->user, token);
    }
    rdg_free(work);
    return rc;
}

bool rdg_session_picks_on_device(const rdg_session *s)
{
    return s->exec->class->generate && !s->embeddings && !s->collect_imatrix && !s->lost.code;
}

/* Notes down what the device picks: all but the last pick of a run are evaluated by it. */
typedef struct recorder {
    rdg_session *s;
    int64_t at; /* where the next pick goes */
    const rdg_decode *d;
} recorder;

static bool record(void *user, int32_t token)
{
    recorder *r = user;
    if (r->at < r->s->params.n_ctx) r->s->tokens[r->at++] = token;
    return r->d->on_token(r->d->user, token);
}

static void pass_spans(void *user, const rdg_launch_span *spans, int64_t n)
{
    const recorder *r = user;
    r->d->on_spans(r->d->user, spans, n);
}

rdg_err rdg_session_decode(rdg_session *s, const rdg_decode *d, int64_t *n_done, rdg_error *e)
{
    *n_done = 0;
    if (d->n < 1) return RDG_OK; /* a full context has no room for even the first token */
    if (!rdg_session_picks_on_device(s)) return on_host(s, d, n_done, e);
    if (d->token < 0 || d->token >= s->model->hparams.n_vocab)
        return rdg_fail(e, RDG_E_ARGUMENT, "token %d is outside the vocabulary of %" PRId64, d->token,
                        s->model->hparams.n_vocab);
    if (d->n > s->params.n_ctx - s->n_past)
        return rdg_fail(e, RDG_E_CONTEXT_FULL,
                        "%" PRId64 " tokens more do not fit: %" PRId64 " of %" PRId64
                        " positions are taken; use a larger context (-c)",
                        d->n, s->n_past, s->params.n_ctx);
    rdg_prepared *prepared;
    rdg_err rc = rdg_session_plan(s, 1, 1, &prepared, e);
    if (rc) return rc;
    recorder r = {.s = s, .at = s->n_past + 1, .d = d};
    rdg_generate g = {.token = d->token,
                      .position = (int32_t)s->n_past,
                      .n = d->n,
                      .sample = d->sample,
                      .seed = d->seed,
                      .step = d->step,
                      .on_token = record,
                      .on_spans = d->on_spans ? pass_spans : NULL,
                      .user = &r};
    s->tokens[s->n_past] = d->token;
    s->logits_at = -1;
    s->n_logits_rows = 0; /* they stay on the device */
    rc = s->exec->class->generate(s->exec, prepared, &g, n_done, e);
    if (rc == RDG_E_DEVICE_LOST) s->lost = *e;
    s->n_past += *n_done;
    return rc;
}

rdg_err rdg_session_decode_greedy(rdg_session *s, int32_t token, int64_t n,
                                  bool (*on_token)(void *user, int32_t token), void *user, int64_t *n_done,
                                  rdg_error *e)
{
    const rdg_decode d = {.token = token, .n = n, .on_token = on_token, .user = user};
    return rdg_session_decode(s, &d, n_done, e);
}

const char *rdg_session_picks_on_host(const rdg_session *s, const rdg_sampler *sampler)
{
    if (!strcmp(s->exec->class->name, "cpu")) return "the model runs on the processor";
    if (!s->exec->class->generate) return "not every layer is on a device";
    if (s->lost.code) return "the device was lost";
    if (!rdg_session_picks_on_device(s)) return "the session is not for decoding";
    return sampler->simple ? NULL : sampler->not_simple;
}

/* The caller's view of a pick that the device made. */
typedef struct picker {
    rdg_sampler *sampler;
    bool (*on_token)(void *user, int32_t token);
    void *user;
    rdg_err err;
    rdg_error *e;
} picker;

static bool accept(void *user, int32_t token)
{
    picker *p = user;
    p->sampler->n_picks++;
    p->err = rdg_sampler_accept(p->sampler, token, p->e);
    return !p->err && p->on_token(p->user, token);
}

rdg_err rdg_session_generate(rdg_session *s, rdg_sampler *sampler, int32_t token, int64_t n,
                             bool (*on_token)(void *user, int32_t token), void *user, int64_t *n_done,
                             rdg_error *e)
{
    rdg_error local;
    if (!e) e = &local;
    *n_done = 0;
    if (sampler->n_vocab != s->model->hparams.n_vocab)
        return rdg_fail(e, RDG_E_ARGUMENT, "the sampler is for %" PRId64 " tokens, the model has %" PRId64,
                        sampler->n_vocab, s->model->hparams.n_vocab);
    if (!rdg_session_picks_on_host(s, sampler)) {
        picker p = {.sampler = sampler, .on_token = on_token, .user = user, .e = e};
        rdg_decode d = {.token = token,
                        .n = n,
                        .sample = sampler->sample,
                        .seed = sampler->params.seed,
                        .step = sampler->n_picks,
                        .on_token = accept,
                        .user = &p};
        rdg_err rc = rdg_session_decode(s, &d, n_done, e);
        return rc ? rc : p.err;
    }
    for (bool go_on = true; *n_done < n && go_on;) {
        rdg_err rc = rdg_session_eval(s, &token, 1, RDG_LOGITS_LAST, e);
        if (!rc) rc = rdg_sampler_pick(sampler, rdg_session_logits(s, 0), &token, e);
        if (!rc) rc = rdg_sampler_accept(sampler, token, e);
        if (rc) return rc;
        ++*n_done;
        go_on = on_token(user, token);
    }
    return RDG_OK;
}
