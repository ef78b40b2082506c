#include "generate.h"
#include "stop_text.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static rdg_err parse_bias(const cli_list *list, rdg_logit_bias *out, rdg_error *e)
{
    for (int i = 0; i < list->n; i++) {
        char *end;
        errno = 0;
        long id = strtol(list->items[i], &end, 10);
        if (end == list->items[i] || *end != '=' || errno || id < 0 || id > INT32_MAX)
            return rdg_fail(e, RDG_E_ARGUMENT, "--logit-bias '%s' is not ID=BIAS", list->items[i]);
        const char *number = end + 1;
        out[i] = (rdg_logit_bias){.token = (int32_t)id, .bias = strtof(number, &end)};
        if (end == number || *end)
            return rdg_fail(e, RDG_E_ARGUMENT, "--logit-bias '%s' is not ID=BIAS", list->items[i]);
    }
    return RDG_OK;
}

rdg_err cli_make_sampler(cli *c, const cli_sampling *o, const rdg_model *m, rdg_sampler **out, rdg_error *e)
{
    rdg_sampler_params p;
    rdg_logit_bias *bias = rdg_alloc_array((size_t)o->bias.n, sizeof *bias);
    if (!bias) return rdg_fail(e, RDG_E_NOMEM, "no memory for a sampler");
    rdg_err err = parse_bias(&o->bias, bias, e);
    rdg_sampler_defaults(&p);
    p.seed = c->seed_given ? (uint64_t)c->common.seed : (uint64_t)time(NULL);
    if (!c->seed_given && o->temperature > 0) cli_note(c, "seed %llu", (unsigned long long)p.seed);
    p.temperature = (float)o->temperature;
    p.top_k = (int32_t)o->top_k;
    p.top_p = (float)o->top_p;
    p.min_p = (float)o->min_p;
    p.typical_p = (float)o->typical_p;
    p.top_n_sigma = (float)o->top_n_sigma;
    p.xtc_probability = (float)o->xtc_probability;
    p.xtc_threshold = (float)o->xtc_threshold;
    p.repeat_penalty = (float)o->repeat_penalty;
    p.frequency_penalty = (float)o->frequency_penalty;
    p.presence_penalty = (float)o->presence_penalty;
    p.penalty_last_n = (int32_t)o->repeat_last_n;
    p.dry_multiplier = (float)o->dry_multiplier;
    p.dry_base = (float)o->dry_base;
    p.dry_allowed_length = (int32_t)o->dry_allowed_length;
    p.dry_last_n = (int32_t)o->dry_last_n;
    p.dynatemp_range = (float)o->dynatemp_range;
    p.dynatemp_exponent = (float)o->dynatemp_exponent;
    p.mirostat = (int)o->mirostat;
    p.mirostat_tau = (float)o->mirostat_tau;
    p.mirostat_eta = (float)o->mirostat_eta;
    p.bias = bias;
    p.n_bias = o->bias.n;
    p.order = o->order;
    if (!err) err = rdg_sampler_create(&p, rdg_model_get_info(m)->n_vocab, out, e);
    rdg_free(bias);
    return err;
}

int64_t cli_shift_size(int64_t n_ctx, int64_t n_keep)
{
    int64_t half = (n_ctx - n_keep) / 2;
    return half > 0 ? half : 1;
}

rdg_err cli_make_room(const cli_generate_params *p, rdg_error *e)
{
    int64_t n_ctx = rdg_session_n_ctx(p->session), n_drop = cli_shift_size(n_ctx, p->n_keep);
    if (rdg_session_n_past(p->session) < n_ctx) return RDG_OK;
    if (!p->shift)
        return rdg_fail(
            e, RDG_E_CONTEXT_FULL,
            "the context of %lld is full; use a larger one (-c), or --shift to drop the oldest tokens",
            (long long)n_ctx);
    rdg_err err = rdg_session_shift(p->session, p->n_keep, n_drop, e);
    if (!err && p->on_shift) p->on_shift(p->user, n_drop, n_ctx - n_drop - p->n_keep);
    return err;
}

rdg_err cli_prefill(const cli_generate_params *p, const int32_t *prompt, size_t n, rdg_error *e)
{
    rdg_err err = rdg_session_eval(p->session, prompt, (int64_t)n, RDG_LOGITS_LAST, e);
    for (size_t i = 0; i < n && !err; i++) err = rdg_sampler_accept(p->sampler, prompt[i], e);
    return err;
}

typedef struct emitter {
    const cli_generate_params *p;
    cli_stop_text stop;
    bool stopped, no_memory;
    int native; /* errno of the write that failed */
} emitter;

static void pass_on(void *user, const char *text, size_t n)
{
    emitter *m = user;
    if (!n || m->stopped || !m->p->on_text(m->p->user, text, n)) return;
    m->native = errno;
    m->stopped = true;
}

static void emit(void *user, const char *text, size_t n)
{
    emitter *m = user;
    if (!cli_stop_feed(&m->stop, text, n, pass_on, m)) m->no_memory = true;
}

typedef struct decoder {
    const cli_generate_params *p;
    cli_generation *g;
    rdg_stream stream;
    emitter emitter;
    int64_t n_past; /* tokens evaluated when the next pick is made */
    bool more;      /* evaluate the last pick and go on */
    rdg_err err;
    rdg_error *e;
} decoder;

/* A token's text; where there is no tokenizer, its number is all there is to show. */
static rdg_err show(decoder *d, int32_t token)
{
    char number[16];
    if (d->p->tokenizer) return rdg_stream_token(&d->stream, token, d->p->show_special, emit, &d->emitter);
    emit(&d->emitter, number, (size_t)snprintf(number, sizeof number, " %d", (int)token));
    return RDG_OK;
}

/* Keeps and prints one token; decides whether to go on. */
static bool on_pick(void *user, int32_t token)
{
    decoder *d = user;
    const cli_generate_params *p = d->p;
    cli_generation *g = d->g;
    emitter *m = &d->emitter;
    int64_t n_past = d->n_past++;
    d->more = false;
    if (p->stop && p->stop(p->user)) {
        g->finish_reason = "interrupted";
        return false;
    }
    if (!rdg_grow(&g->tokens, g->n_tokens, &g->cap, sizeof *g->tokens)) {
        d->err = rdg_fail(d->e, RDG_E_NOMEM, "no memory for the tokens");
        return false;
    }
    g->tokens[g->n_tokens++] = token;
    if (p->tokenizer && rdg_token_is_end(p->tokenizer, token) && !p->ignore_end) {
        g->finish_reason = "stop";
        return false;
    }
    if ((d->err = show(d, token))) return false;
    if (m->no_memory) {
        d->err = rdg_fail(d->e, RDG_E_NOMEM, "no memory for the text");
    } else if (m->stop.ended) {
        g->finish_reason = "stop";
    } else if (m->stopped) {
        d->err = rdg_fail_errno(d->e, RDG_E_IO, m->native, "cannot write standard output");
    } else if (p->max_tokens >= 0 && (int64_t)g->n_tokens >= p->max_tokens) {
        g->finish_reason = "length";
    } else if (n_past >= rdg_session_n_ctx(p->session) && !p->shift) {
        g->finish_reason = "context";
    } else {
        d->more = true;
    }
    return d->more;
}

/* Evaluates the last pick and goes on until something stops it or the context is full. */
static rdg_err go_on(decoder *d, rdg_error *e)
{
    const cli_generate_params *p = d->p;
    int64_t n_done;
    rdg_err err = cli_make_room(p, e);
    if (err) return err;
    int64_t n_past = rdg_session_n_past(p->session), n = rdg_session_n_ctx(p->session) - n_past;
    if (p->max_tokens >= 0) n = RDG_MIN(n, p->max_tokens - (int64_t)d->g->n_tokens);
    d->n_past = n_past + 1;
    err = rdg_session_generate(p->session, p->sampler, d->g->tokens[d->g->n_tokens - 1], n, on_pick, d,
                               &n_done, e);
    return err ? err : d->err;
}

rdg_err cli_generate(const cli_generate_params *p, cli_generation *g, rdg_error *e)
{
    decoder d = {.p = p, .g = g, .emitter = {.p = p}, .n_past = rdg_session_n_past(p->session), .e = e};
    int32_t token;
    rdg_err err = RDG_OK;
    double start = rdg_clock_seconds();
    cli_stop_init(&d.emitter.stop, p->stop_text);
    rdg_stream_init(&d.stream, p->tokenizer);
    d.stream.started = true; /* what is generated continues the prompt: its leading space is text */
    g->finish_reason = "length";
    g->on_host = rdg_session_picks_on_host(p->session, p->sampler);
    if (g->on_host)
        rdg_log_debug(p->log, "tokens are picked on the host: %s", g->on_host);
    else
        rdg_log_debug(p->log, "tokens are picked on the device");
    if (p->max_tokens != 0) {
        err = rdg_sampler_pick(p->sampler, rdg_session_logits(p->session, 0), &token, e);
        if (!err) err = rdg_sampler_accept(p->sampler, token, e);
        if (!err) on_pick(&d, token);
        if (!err) err = d.err;
    }
    while (!err && d.more) err = go_on(&d, e);
    if (!err) rdg_stream_finish(&d.stream, emit, &d.emitter);
    if (!err) cli_stop_flush(&d.emitter.stop, pass_on, &d.emitter);
    cli_stop_finish(&d.emitter.stop);
    g->seconds = rdg_clock_seconds() - start;
    return err;
}

void cli_generation_finish(cli_generation *g)
{
    rdg_free(g->tokens);
    *g = (cli_generation){0};
}
