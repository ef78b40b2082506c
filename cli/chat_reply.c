/* A conversation's way to its reply. It is rendered anew for every reply; its tokens are compared with those
 * that the session holds, and only what differs is evaluated. What people wrote is never searched for control
 * tokens: a message that says <|im_end|> does not end itself. */
#include "chat.h"
#include "base/err.h"
#include "template.h"

#include <stdlib.h>
#include <string.h>

typedef struct ids {
    int32_t *p;
    size_t n, n_kept; /* kept: the session holds them already */
} ids;

static void ids_finish(ids *i)
{
    rdg_tokens_free(i->p);
    *i = (ids){0};
}

/* Conversation → tokens
 * ------------------------------------------------------------------------------------------ */

static json_t *message(const char *role, const char *text, size_t n)
{
    return json_pack("{s:s, s:o}", "role", role, "content", cli_str(text, n));
}

rdg_err chat_set_system(chat *h, const char *text, rdg_error *e)
{
    char *copy = text && *text ? rdg_strdup(text) : NULL;
    if (text && *text && !copy) return rdg_fail(e, RDG_E_NOMEM, "no memory for the system message");
    rdg_free(h->system);
    h->system = copy;
    return RDG_OK;
}

json_t *chat_document(const chat *h, size_t n_left_out)
{
    size_t i;
    json_t *m, *all = json_array();
    int bad = !all;
    if (h->system) bad |= json_array_append_new(all, message("system", h->system, strlen(h->system)));
    json_array_foreach(h->messages, i, m) if (i >= n_left_out) bad |= json_array_append(all, m);
    if (bad) {
        json_decref(all);
        return NULL;
    }
    return json_pack("{s:o}", "messages", all);
}

static rdg_err render(const chat *h, size_t n_left_out, bool prompt, rdg_template_result *r, rdg_error *e)
{
    json_t *d = chat_document(h, n_left_out);
    char *text = NULL;
    if (d && !json_object_set_new(d, "add_generation_prompt", json_boolean(prompt)))
        text = json_dumps(d, JSON_COMPACT);
    json_decref(d);
    if (!text) return rdg_fail(e, RDG_E_NOMEM, "no memory for the conversation");
    rdg_template_input in = {.json = text,
                             .json_bytes = strlen(text),
                             .bos_token = h->bos,
                             .eos_token = h->eos,
                             .now = cli_template_now()};
    rdg_err err = rdg_template_render(h->template, &in, r, e);
    free(text);
    return err;
}

static rdg_err tokens_of(const chat *h, size_t n_left_out, bool prompt, ids *out, rdg_error *e)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(h->model);
    rdg_template_result r = {0};
    rdg_err err = render(h, n_left_out, prompt, &r, e);
    if (!err)
        err = rdg_tokenize_spans(t, r.text, r.n, r.input_spans, r.n_input_spans, false, &out->p, &out->n, e);
    /* Most templates write BOS themselves; it must not come twice. */
    if (!err && rdg_tokenizer_add_bos(t) && !(out->n && out->p[0] == rdg_tokenizer_bos(t))) {
        int32_t *with = rdg_alloc_array(out->n + 1, sizeof *with);
        if (with) {
            with[0] = rdg_tokenizer_bos(t);
            if (out->n) memcpy(with + 1, out->p, out->n * sizeof *with);
            rdg_tokens_free(out->p);
            out->p = with;
            out->n++;
        } else {
            err = rdg_fail(e, RDG_E_NOMEM, "no memory for the tokens");
        }
    }
    rdg_template_result_free(&r);
    if (!err && !out->n) err = rdg_fail(e, RDG_E_ARGUMENT, "the template makes nothing of this conversation");
    return err;
}

static size_t common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

/* The system message's tokens at the start of the prompt. A template may refuse a system message without any
 * other: then only BOS counts. */
static int64_t system_tokens(const chat *h, const ids *want)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(h->model);
    ids alone = {0};
    rdg_error ignored = {0};
    size_t n = want->p[0] == rdg_tokenizer_bos(t);
    if (h->system && !tokens_of(h, json_array_size(h->messages), false, &alone, &ignored))
        n = common(alone.p, alone.n, want->p, want->n);
    ids_finish(&alone);
    return (int64_t)n;
}

/* The message behind which a conversation can begin: the next of the user's; the end if there is none. */
static size_t next_start(const chat *h, size_t i)
{
    size_t n = json_array_size(h->messages);
    for (i++; i < n; i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(h->messages, i), "role")), "user"))
            break;
    return i;
}

/* The prompt. With --shift the oldest messages are left out until a quarter of the context is free for the
 * reply. */
static rdg_err conversation_ids(chat *h, ids *want, rdg_error *e)
{
    int64_t n_ctx = rdg_session_n_ctx(h->session);
    size_t before = h->n_left_out, n = json_array_size(h->messages);
    for (;;) {
        ids_finish(want);
        rdg_err err = tokens_of(h, h->n_left_out, true, want, e);
        if (err) return err;
        size_t next = next_start(h, h->n_left_out);
        if (!h->o->shift || (int64_t)want->n <= n_ctx - n_ctx / 4 || next >= n) break;
        h->n_left_out = next;
    }
    if ((int64_t)want->n > n_ctx)
        return rdg_fail(
            e, RDG_E_CONTEXT_FULL,
            "the conversation's %zu tokens do not fit into the context of %lld; /reset it, or start "
            "with a larger one (-c)%s",
            want->n, (long long)n_ctx,
            h->o->shift ? "" : ", or with --shift to leave out the oldest messages");
    if (h->n_left_out > before)
        cli_warn(h->c, "the context of %lld is full: the oldest %zu messages are left out from now on",
                 (long long)n_ctx, h->n_left_out);
    h->n_keep = system_tokens(h, want);
    return RDG_OK;
}

/* A reply
 * ------------------------------------------------------------------------------------------------------- */

static int on_text(void *user, const char *text, size_t n)
{
    chat *h = user;
    rdg_buf_append(&h->reply, text, n);
    fwrite(text, 1, n, stdout);
    h->broken = fflush(stdout) != 0;
    return h->broken;
}

static bool stop(void *user)
{
    (void)user;
    return chat_interrupted();
}

static void on_shift(void *user, int64_t n_dropped, int64_t n_evaluated)
{
    chat *h = user;
    cli_warn(
        h->c,
        "the context of %lld is full: the oldest %lld tokens behind the system message are dropped, the %lld "
        "after them evaluated again",
        (long long)rdg_session_n_ctx(h->session), (long long)n_dropped, (long long)n_evaluated);
}

/* Keeps what the session shares with the conversation; at least one token is left to evaluate, for its
 * logits. */
static rdg_err rewind_session(chat *h, ids *want, rdg_error *e)
{
    size_t n =
        common(rdg_session_tokens(h->session), (size_t)rdg_session_n_past(h->session), want->p, want->n - 1);
    rdg_err err = rdg_session_truncate(h->session, (int64_t)n, e);
    if (err == RDG_E_UNSUPPORTED) { /* a sliding window has moved on: from the start */
        n = 0;
        err = rdg_session_truncate(h->session, 0, e);
    }
    want->n_kept = n;
    return err;
}

/* In steps, so that an interrupt need not wait for a long prompt. */
static rdg_err prefill(const cli_generate_params *p, const ids *want, size_t n_step, rdg_error *e)
{
    rdg_err err = RDG_OK;
    for (size_t i = 0; i < want->n_kept && !err; i++) err = rdg_sampler_accept(p->sampler, want->p[i], e);
    for (size_t at = want->n_kept, n; at < want->n && !err && !chat_interrupted(); at += n) {
        n = want->n - at < n_step ? want->n - at : n_step;
        err = cli_prefill(p, want->p + at, n, e);
    }
    return err;
}

static rdg_err generate(chat *h, ids *want, rdg_sampler *sampler, cli_generation *g, rdg_error *e)
{
    int64_t n_ctx = rdg_session_n_ctx(h->session);
    cli_generate_params p = {.session = h->session,
                             .sampler = sampler,
                             .log = &h->c->log,
                             .tokenizer = rdg_model_tokenizer(h->model),
                             .max_tokens = h->o->n,
                             .stop_text = h->fallback ? "<|im_end|>" : NULL,
                             /* what is kept must leave room worth shifting */
                             .shift = h->o->shift && h->n_keep <= n_ctx / 2,
                             .n_keep = h->n_keep,
                             .on_text = on_text,
                             .on_shift = on_shift,
                             .stop = stop,
                             .user = h};
    rdg_err err = rewind_session(h, want, e);
    if (!err) err = prefill(&p, want, (size_t)h->o->n_batch, e);
    if (!err && chat_interrupted()) err = rdg_fail(e, RDG_E_CANCELLED, "stopped before the reply began");
    if (!err) err = cli_generate(&p, g, e);
    if (!err && h->c->common.verbose)
        cli_note(h->c, "\nprompt %zu tokens, %zu of them evaluated before · generated %zu (%s)", want->n,
                 want->n_kept, g->n_tokens, g->finish_reason);
    return err;
}

rdg_err chat_reply(chat *h, rdg_error *e)
{
    ids want = {0};
    cli_generation g = {0};
    rdg_sampler *sampler = NULL;
    chat_clear_interrupt();
    rdg_buf_clear(&h->reply);
    rdg_err err = conversation_ids(h, &want, e);
    h->c->common.seed = h->seed + h->n_replies++;
    if (!err) err = cli_make_sampler(h->c, &h->o->sampling, h->model, &sampler, e);
    if (!err) err = generate(h, &want, sampler, &g, e);
    if (!err && h->reply.failed) err = rdg_fail(e, RDG_E_NOMEM, "no memory for the reply");
    if (!err && json_array_append_new(h->messages,
                                      message("assistant", h->reply.data ? h->reply.data : "", h->reply.len)))
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for the reply");
    if (g.n_tokens || !err) putchar('\n');
    if (!err && !strcmp(g.finish_reason, "interrupted")) cli_note(h->c, "(stopped)");
    if (!err && !strcmp(g.finish_reason, "context"))
        cli_warn(
            h->c,
            "the context of %lld is full and the reply cut off; /reset it, or start with a larger one (-c)%s",
            (long long)rdg_session_n_ctx(h->session),
            h->o->shift ? ": the system message takes more than half of it" : ", or with --shift");
    cli_generation_finish(&g);
    rdg_sampler_destroy(sampler);
    ids_finish(&want);
    return err;
}

rdg_err chat_say(chat *h, const char *text, size_t n, rdg_error *e)
{
    size_t before = json_array_size(h->messages), left_out = h->n_left_out;
    if (json_array_append_new(h->messages, message("user", text, n)))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the message");
    rdg_err err = chat_reply(h, e);
    if (err) {
        json_array_remove(h->messages, before);
        h->n_left_out = left_out;
    }
    return err;
}
