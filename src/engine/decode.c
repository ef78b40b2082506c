#include "engine/decode.h"

#include <inttypes.h>

static int32_t largest(const float *logits, int64_t n)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (best < 0 ? logits[i] == logits[i] : logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static rdg_err on_host(rdg_session *s, const rdg_decode *d, int64_t *n_done, rdg_error *e)
{
    int32_t token = d->token;
    if (d->on_spans)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "a timeline needs a device that decodes on its own; %s does not",
                        rdg_session_device(s));
    for (bool go_on = true; *n_done < d->n && go_on; (*n_done)++) {
        rdg_err rc = rdg_session_eval(s, &token, 1, RDG_LOGITS_LAST, e);
        if (rc) return rc;
        token = largest(rdg_session_logits(s, 0), s->model->hparams.n_vocab);
        if (token < 0) return rdg_fail(e, RDG_E_DEVICE, "the logits hold no number");
        go_on = d->on_token(d->user, token);
    }
    return RDG_OK;
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
    if (!s->exec->class->generate || s->embeddings || s->collect_imatrix || s->lost.code)
        return on_host(s, d, n_done, e);
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
