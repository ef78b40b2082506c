/* chat: a conversation with the model's own template. The conversation is rendered anew for every reply; its
 * tokens are compared with those that the session holds, and only what differs is evaluated. What people
 * wrote is never searched for control tokens: a message that says <|im_end|> does not end itself. */
#include "commands.h"
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "generate.h"
#include "template.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef RDG_HAVE_LIBEDIT
#include <editline/readline.h>
#endif

enum { CONVERSATION_LIMIT_BYTES = 1 << 28, LINE_LIMIT_BYTES = 1 << 24 };

typedef struct options {
    const char *system, *kv_type;
    int64_t n, n_ctx, n_batch;
    cli_sampling sampling;
} options;

static const options defaults = {
    .n = -1, .kv_type = "f16", .n_batch = 512, .sampling = CLI_SAMPLING_DEFAULTS};

static const cli_option table[] = {
    {"--system", NULL, "TEXT", CLI_STRING, offsetof(options, system), 0, 0, "the system message"},
    {"--predict", "-n", "N", CLI_INT, offsetof(options, n), -1, 1e9,
     "most tokens of a reply (default: -1 = until its end or the context is full)"},
    {"--context", "-c", "N", CLI_INT, offsetof(options, n_ctx), 1, 1e9,
     "context (default: the smaller of the model's and 4096)"},
    {"--batch", "-b", "N", CLI_INT, offsetof(options, n_batch), 1, 1e6,
     "prompt tokens a step (default: 512)"},
    {"--kv-type", NULL, "T", CLI_STRING, offsetof(options, kv_type), 0, 0,
     "type of the KV cache (default: f16)"},
    CLI_SAMPLING_OPTIONS(options, sampling),
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

/* For models without a template. */
static const char chatml[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/* The one thing a signal handler may reach. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static bool stop(void *user)
{
    (void)user;
    return interrupted;
}

typedef struct ids {
    int32_t *p;
    size_t n, cap;
} ids;

typedef struct chat {
    cli *c;
    const options *o;
    rdg_model *model;
    rdg_session *session;
    rdg_template *template;
    char *bos, *eos;
    char *system;     /* NULL: none */
    json_t *messages; /* [{role, content}], without the system message */
    ids past;         /* what the session holds */
    int64_t n_replies, seed;
    rdg_buf reply, line;
    bool terminal, quit, broken; /* broken: standard output is gone */
    int rc;
} chat;

/* Conversation -> tokens
 * ---------------------------------------------------------------------------------------- */

static json_t *message(const char *role, const char *text, size_t n)
{
    return json_pack("{s:s, s:o}", "role", role, "content", cli_str(text, n));
}

/* {"messages": […]}, the system message in front; NULL without memory. */
static json_t *document(const chat *h)
{
    json_t *all = json_array();
    if (h->system) json_array_append_new(all, message("system", h->system, strlen(h->system)));
    if (json_array_extend(all, h->messages)) {
        json_decref(all);
        return NULL;
    }
    return json_pack("{s:o}", "messages", all);
}

static rdg_err render(const chat *h, rdg_template_result *r, rdg_error *e)
{
    json_t *d = document(h);
    char *text = NULL;
    if (d && !json_object_set_new(d, "add_generation_prompt", json_true()))
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

static rdg_err push(ids *out, const int32_t *p, size_t n, rdg_error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!rdg_grow(&out->p, out->n, &out->cap, sizeof *out->p))
            return rdg_fail(e, RDG_E_NOMEM, "no memory for the tokens");
        out->p[out->n++] = p[i];
    }
    return RDG_OK;
}

static rdg_err push_text(const rdg_tokenizer *t, const char *text, size_t n, bool special, ids *out,
                         rdg_error *e)
{
    int32_t *p;
    size_t n_ids;
    if (!n) return RDG_OK;
    rdg_err err = rdg_tokenize(t, text, n, (rdg_tokenize_params){.parse_special = special}, &p, &n_ids, e);
    if (err) return err;
    err = push(out, p, n_ids, e);
    rdg_tokens_free(p);
    return err;
}

static rdg_err conversation_ids(const chat *h, ids *out, rdg_error *e)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(h->model);
    int32_t bos = rdg_tokenizer_bos(t);
    rdg_template_result r = {0};
    size_t at = 0;
    rdg_err err = render(h, &r, e);
    if (!err && rdg_tokenizer_add_bos(t)) err = push(out, &bos, 1, e);
    for (size_t i = 0; i < r.n_input_spans && !err; i++) {
        rdg_template_span s = r.input_spans[i];
        err = push_text(t, r.text + at, s.begin - at, true, out, e);
        if (!err) err = push_text(t, r.text + s.begin, s.end - s.begin, false, out, e);
        at = s.end;
    }
    if (!err) err = push_text(t, r.text + at, r.n - at, true, out, e);
    rdg_template_result_free(&r);
    /* Most templates write BOS themselves; it must not come twice. */
    if (!err && rdg_tokenizer_add_bos(t) && out->n > 1 && out->p[1] == bos)
        memmove(out->p, out->p + 1, --out->n * sizeof *out->p);
    if (!err && !out->n) err = rdg_fail(e, RDG_E_ARGUMENT, "the template makes nothing of this conversation");
    return err;
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

/* Keeps what the session shares with the conversation; at least one token is left to evaluate, for its
 * logits. */
static rdg_err rewind_session(chat *h, const ids *want, size_t *n_kept, rdg_error *e)
{
    size_t n = 0;
    while (n < h->past.n && n + 1 < want->n && h->past.p[n] == want->p[n]) n++;
    rdg_err err = rdg_session_truncate(h->session, (int64_t)n, e);
    if (err == RDG_E_UNSUPPORTED) { /* a sliding window has moved on: from the start */
        n = 0;
        err = rdg_session_truncate(h->session, 0, e);
    }
    *n_kept = n;
    return err;
}

/* In steps, so that an interrupt need not wait for a long prompt. */
static rdg_err prefill(const cli_generate_params *p, const ids *want, size_t n_kept, int64_t n_step,
                       rdg_error *e)
{
    rdg_err err = RDG_OK;
    for (size_t i = 0; i < n_kept && !err; i++) err = rdg_sampler_accept(p->sampler, want->p[i], e);
    for (size_t at = n_kept, n; at < want->n && !err && !interrupted; at += n) {
        n = want->n - at < (size_t)n_step ? want->n - at : (size_t)n_step;
        err = cli_prefill(p, want->p + at, n, e);
    }
    return err;
}

/* The session now holds the prompt and the generated tokens, as far as they were evaluated. */
static void remember(chat *h, ids *want, const cli_generation *g)
{
    size_t n = (size_t)rdg_session_n_past(h->session);
    if (n > want->n && push(want, g->tokens, n - want->n, NULL)) n = 0;
    rdg_free(h->past.p);
    h->past = *want;
    h->past.n = n;
    *want = (ids){0};
}

static rdg_err generate(chat *h, ids *want, rdg_sampler *sampler, cli_generation *g, rdg_error *e)
{
    cli_generate_params p = {.session = h->session,
                             .sampler = sampler,
                             .tokenizer = rdg_model_tokenizer(h->model),
                             .max_tokens = h->o->n,
                             .on_text = on_text,
                             .stop = stop,
                             .user = h};
    size_t n_kept = 0, n_want = want->n;
    rdg_err err = rewind_session(h, want, &n_kept, e);
    if (!err) err = prefill(&p, want, n_kept, h->o->n_batch, e);
    if (!err && interrupted) err = rdg_fail(e, RDG_E_CANCELLED, "stopped before the reply began");
    if (!err) err = cli_generate(&p, g, e);
    remember(h, want, g);
    if (!err && h->c->common.verbose)
        cli_note(h->c, "\nprompt %zu tokens, %zu of them evaluated before · generated %zu (%s)", n_want,
                 n_kept, g->n_tokens, g->finish_reason);
    return err;
}

/* A reply to the conversation as it is, printed and appended to it. */
static rdg_err reply(chat *h, rdg_error *e)
{
    ids want = {0};
    cli_generation g = {0};
    rdg_sampler *sampler = NULL;
    int64_t n_ctx = rdg_session_n_ctx(h->session);
    interrupted = 0;
    rdg_buf_clear(&h->reply);
    rdg_err err = conversation_ids(h, &want, e);
    if (!err && (int64_t)want.n > n_ctx)
        err = rdg_fail(e, RDG_E_CONTEXT_FULL,
                       "the conversation's %zu tokens do not fit into the context of %lld; /reset it, or "
                       "start with a larger one (-c)",
                       want.n, (long long)n_ctx);
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
            "the context of %lld is full and the reply cut off; /reset it, or start with a larger one (-c)",
            (long long)n_ctx);
    cli_generation_finish(&g);
    rdg_sampler_destroy(sampler);
    rdg_free(want.p);
    return err;
}

static rdg_err say(chat *h, const char *text, size_t n, rdg_error *e)
{
    size_t before = json_array_size(h->messages);
    if (json_array_append_new(h->messages, message("user", text, n)))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the message");
    rdg_err err = reply(h, e);
    if (err) json_array_remove(h->messages, before); /* what could not be answered was not said */
    return err;
}

/* Commands
 * ------------------------------------------------------------------------------------------------------ */

typedef struct chat_command {
    const char *name, *argument, *help;
    rdg_err (*run)(chat *h, const char *argument, rdg_error *e);
} chat_command;
static const chat_command chat_commands[8];

static rdg_err do_help(chat *h, const char *a, rdg_error *e)
{
    (void)a, (void)e;
    for (const chat_command *k = chat_commands; k->name; k++)
        fprintf(stderr, "  %-8s %-7s %s\n", k->name, k->argument ? k->argument : "", k->help);
    fprintf(stderr, "  Anything else is a message; so is a line that begins with a space.%s\n",
            h->terminal ? " Ctrl-C stops a reply, Ctrl-D ends." : "");
    return RDG_OK;
}

static rdg_err set_system(chat *h, const char *text, rdg_error *e)
{
    char *copy = text && *text ? rdg_strdup(text) : NULL;
    if (text && *text && !copy) return rdg_fail(e, RDG_E_NOMEM, "no memory for the system message");
    rdg_free(h->system);
    h->system = copy;
    return RDG_OK;
}

static rdg_err do_reset(chat *h, const char *a, rdg_error *e)
{
    (void)a, (void)e;
    json_array_clear(h->messages);
    return RDG_OK;
}

static rdg_err do_save(chat *h, const char *path, rdg_error *e)
{
    rdg_out out;
    json_t *d = document(h);
    char *text = d ? json_dumps(d, JSON_INDENT(2)) : NULL;
    json_decref(d);
    if (!text) return rdg_fail(e, RDG_E_NOMEM, "no memory for the conversation");
    rdg_err err = rdg_out_open(&out, path, e);
    if (!err) {
        err = rdg_out_write(&out, text, strlen(text), e);
        if (!err) err = rdg_out_write(&out, "\n", 1, e);
        if (!err) err = rdg_out_commit(&out, e);
        rdg_out_close(&out);
    }
    free(text);
    if (!err)
        cli_note(h->c, "saved %zu messages to '%s'", json_array_size(h->messages) + (h->system != NULL),
                 path);
    return err;
}

static rdg_err do_load(chat *h, const char *path, rdg_error *e)
{
    char *text;
    size_t n, i;
    json_t *m;
    json_error_t je;
    rdg_err err = rdg_file_read(path, CONVERSATION_LIMIT_BYTES, false, &text, &n, e);
    if (err) return err;
    json_t *d = json_loadb(text, n, 0, &je), *all = json_object_get(d, "messages");
    rdg_free(text);
    if (!d) return rdg_fail(e, RDG_E_MALFORMED, "'%s', line %d: %s", path, je.line, je.text);
    if (!json_is_array(all))
        err = rdg_fail(e, RDG_E_MALFORMED, "'%s' has no list \"messages\"; /save writes such files", path);
    json_array_foreach(all, i, m)
    {
        if (err) break;
        if (!json_is_string(json_object_get(m, "role")) || !json_is_string(json_object_get(m, "content")))
            err = rdg_fail(e, RDG_E_MALFORMED,
                           "'%s': messages[%zu] has no role or no content that is a string", path, i);
    }
    if (!err) {
        json_t *first = json_array_get(all, 0);
        bool system = first && !strcmp(json_string_value(json_object_get(first, "role")), "system");
        err = set_system(h, system ? json_string_value(json_object_get(first, "content")) : NULL, e);
        if (!err && system) json_array_remove(all, 0);
    }
    if (!err) {
        json_incref(all);
        json_decref(h->messages);
        h->messages = all;
        cli_note(h->c, "loaded %zu messages from '%s'", json_array_size(all) + (h->system != NULL), path);
    }
    json_decref(d);
    return err;
}

static rdg_err do_regen(chat *h, const char *a, rdg_error *e)
{
    (void)a;
    size_t n = json_array_size(h->messages);
    json_t *last = json_array_get(h->messages, n ? n - 1 : 0);
    if (!last) return rdg_fail(e, RDG_E_ARGUMENT, "nothing has been said yet");
    json_incref(last);
    bool replied = !strcmp(json_string_value(json_object_get(last, "role")), "assistant");
    if (replied) json_array_remove(h->messages, n - 1);
    rdg_err err = reply(h, e);
    if (err && replied) json_array_append(h->messages, last);
    json_decref(last);
    return err;
}

static rdg_err do_quit(chat *h, const char *a, rdg_error *e)
{
    (void)a, (void)e;
    h->quit = true;
    return RDG_OK;
}

static const chat_command chat_commands[8] = {
    {"/help", NULL, "this list", do_help},
    {"/system", "[TEXT]", "set the system message; without TEXT, have none", set_system},
    {"/reset", NULL, "forget the conversation, keep the system message", do_reset},
    {"/save", "FILE", "write the conversation as JSON", do_save},
    {"/load", "FILE", "go on from a conversation that was saved", do_load},
    {"/regen", NULL, "another reply to the last message", do_regen},
    {"/quit", NULL, "end", do_quit},
    {NULL, NULL, NULL, NULL},
};

static rdg_err command(chat *h, char *line, rdg_error *e)
{
    size_t n = strcspn(line, " ");
    char *argument = line[n] ? line + n + 1 + strspn(line + n + 1, " ") : line + n;
    line[n] = 0;
    for (const chat_command *k = chat_commands; k->name; k++) {
        if (strcmp(k->name, line)) continue;
        if (!*argument && k->argument && k->argument[0] != '[')
            return rdg_fail(e, RDG_E_ARGUMENT, "%s needs a %s", line, k->argument);
        if (*argument && !k->argument)
            return rdg_fail(e, RDG_E_ARGUMENT, "%s takes nothing, but '%s' was given", line, argument);
        return k->run(h, argument, e);
    }
    return rdg_fail(e, RDG_E_ARGUMENT,
                    "there is no command '%s'; /help lists them, a leading space makes it a message", line);
}

/* Lines
 * ---------------------------------------------------------------------------------------------------------
 */

/* One line of a pipe or a plain terminal, without its end, into h->line; false at the end of input or an
 * interrupt. */
static bool read_plain(chat *h)
{
    int ch;
    while ((ch = getc(stdin)) != EOF && ch != '\n' && !h->line.failed) rdg_buf_putc(&h->line, (char)ch);
    if (h->line.len && h->line.data[h->line.len - 1] == '\r') h->line.data[--h->line.len] = 0;
    return ch != EOF || (h->line.len && !interrupted);
}

#ifdef RDG_HAVE_LIBEDIT
static bool read_edited(chat *h)
{
    char *line = readline("> ");
    if (!line) return false;
    if (*line) add_history(line);
    rdg_buf_puts(&h->line, line);
    free(line);
    return true;
}
#endif

/* The next line; false at the end of input. An interrupt at the prompt only drops the line. */
static bool read_line(chat *h)
{
    for (;;) {
        interrupted = 0;
        rdg_buf_clear(&h->line);
#ifdef RDG_HAVE_LIBEDIT
        if (h->terminal ? read_edited(h) : read_plain(h)) return true;
#else
        if (h->terminal) fputs("> ", stdout), fflush(stdout);
        if (read_plain(h)) return true;
#endif
        if (!interrupted || feof(stdin)) return false;
        clearerr(stdin);
        if (h->terminal) putchar('\n');
    }
}

static void converse(chat *h)
{
    while (!h->quit && !h->broken && read_line(h)) {
        rdg_error e = {0};
        rdg_err err = RDG_OK;
        if (h->line.failed) {
            err = rdg_fail(&e, RDG_E_LIMIT, "a line is longer than %d bytes", LINE_LIMIT_BYTES);
            h->quit = true;
        } else if (h->line.len) {
            err =
                h->line.data[0] == '/' ? command(h, h->line.data, &e) : say(h, h->line.data, h->line.len, &e);
        }
        if (!err) continue;
        int rc = cli_error(h->c, &e);
        /* In a conversation an error is part of the talk; a script must learn of it. */
        if (h->broken || (!h->terminal && !h->rc)) h->rc = rc;
    }
    if (!h->quit && h->terminal) putchar('\n');
}

/* Command
 * ------------------------------------------------------------------------------------------------------- */

static rdg_err load_template(chat *h, rdg_error *e)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(h->model);
    if (!t)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "'%s' has no tokenizer; it runs by token ids only",
                        h->c->args[0]);
    h->bos = cli_token_text(t, rdg_tokenizer_bos(t));
    h->eos = cli_token_text(t, rdg_tokenizer_eos(t));
    if (!h->bos || !h->eos) return rdg_fail(e, RDG_E_NOMEM, "no memory for the template");
    rdg_err err = cli_template_of_model(rdg_model_gguf(h->model), &h->template, e);
    if (err != RDG_E_NOT_FOUND) return err;
    cli_warn(h->c, "'%s' has no chat template: ChatML is used, which it may not know", h->c->args[0]);
    return rdg_template_compile(chatml, sizeof chatml - 1, NULL, &h->template, e);
}

static rdg_err prepare(chat *h, rdg_type kv, rdg_error *e)
{
    rdg_session_params sp;
    rdg_session_defaults(&sp);
    sp.n_ctx = h->o->n_ctx;
    sp.n_batch = h->o->n_batch;
    sp.n_threads = (int)h->c->common.n_threads;
    sp.kv_type_k = sp.kv_type_v = kv;
    cli_set_device(h->c, &sp);
    sp.log = &h->c->log;
    if (!h->messages) return rdg_fail(e, RDG_E_NOMEM, "no memory for a conversation");
    rdg_err err = set_system(h, h->o->system, e);
    if (!err) err = rdg_model_load(h->c->args[0], &h->c->log, &h->model, e);
    if (!err) err = load_template(h, e);
    if (!err) err = rdg_session_create(h->model, &sp, &h->session, e);
    return err;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_type kv;
    struct sigaction action = {.sa_handler = on_interrupt}, before; /* no SA_RESTART: a read must return */
    if (!rdg_type_from_name(o->kv_type, &kv)) return cli_usage(c, "unknown type '%s'", o->kv_type);
    if (c->common.json) return cli_usage(c, "a conversation has no --json; /save writes one");
    chat h = {.c = c, .o = o, .messages = json_array(), .terminal = isatty(STDIN_FILENO)};
    h.seed = c->seed_given ? c->common.seed : (int64_t)time(NULL);
    rdg_buf_init(&h.reply);
    rdg_buf_init(&h.line);
    h.line.limit = LINE_LIMIT_BYTES;
    setlocale(LC_CTYPE, ""); /* for the line editor */
    rdg_err err = prepare(&h, kv, &e);
    if (err) {
        h.rc = cli_error(c, &e);
    } else {
        if (!c->seed_given && o->sampling.temperature > 0) cli_note(c, "seed %lld", (long long)h.seed);
        c->seed_given = true; /* every reply has a seed that follows from this one */
        if (h.terminal)
            cli_note(c, "%s on %s; /help lists the commands", c->args[0], rdg_session_device(h.session));
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, &before);
        converse(&h);
        sigaction(SIGINT, &before, NULL);
        if (!h.rc) h.rc = cli_finish_stdout(c);
    }
    rdg_buf_finish(&h.line);
    rdg_buf_finish(&h.reply);
    rdg_free(h.past.p);
    json_decref(h.messages);
    rdg_free(h.system);
    rdg_free(h.eos);
    rdg_free(h.bos);
    rdg_template_destroy(h.template);
    rdg_session_destroy(h.session);
    rdg_model_release(h.model);
    return h.rc;
}

const cli_command cmd_chat = {
    .name = "chat",
    .group = "pipeline",
    .summary = "a conversation with the model's own template",
    .usage = "MODEL [--system TEXT]",
    .description =
        "Every line is a message; the reply is printed as it is made. Only what is new is evaluated. Lines "
        "that begin with "
        "'/' are commands: /help lists them. Ctrl-C stops a reply. Messages may come from a pipe, too.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
