/* chat: a conversation with the model's own template, line by line. */
#include "chat.h"
#include "commands.h"
#include "base/err.h"
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

enum { LINE_LIMIT_BYTES = 1 << 24 };

static const chat_options defaults = {
    .n = -1, .kv_type = "f16", .n_batch = 512, .sampling = CLI_SAMPLING_DEFAULTS};

static const cli_option table[] = {
    {"--system", NULL, "TEXT", CLI_STRING, offsetof(chat_options, system), 0, 0, "the system message"},
    {"--predict", "-n", "N", CLI_INT, offsetof(chat_options, n), -1, 1e9,
     "most tokens of a reply (default: -1 = until its end or the context is full)"},
    CLI_CONTEXT_ROW(chat_options),
    CLI_BATCH_ROW(chat_options),
    CLI_KV_TYPE_ROW(chat_options),
    {"--template", NULL, "NAME", CLI_STRING, offsetof(chat_options, template), 0, 0,
     "one of the model's named templates (default: its template without a name)"},
    {"--shift", NULL, NULL, CLI_FLAG, offsetof(chat_options, shift), 0, 0,
     "when the context is full, leave out what is oldest behind the system message (default: stop)"},
    CLI_SAMPLING_OPTIONS(chat_options, sampling),
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

bool chat_interrupted(void)
{
    return interrupted;
}

void chat_clear_interrupt(void)
{
    interrupted = 0;
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
            err = h->line.data[0] == '/' ? chat_command(h, h->line.data, &e)
                                         : chat_say(h, h->line.data, h->line.len, &e);
        }
        if (!err) continue;
        int rc = cli_error(h->c, &e);
        /* In a conversation an error is part of the talk; a script must learn of it. */
        if (h->broken || (!h->terminal && !h->rc)) h->rc = rc;
    }
    if (!h->quit && ferror(stdin)) {
        fprintf(stderr, "ridge: chat: cannot read standard input\n");
        h->rc = EXIT_FAILED;
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
    rdg_err err = cli_template_of_model(rdg_model_gguf(h->model), h->o->template, &h->template, e);
    if (err != RDG_E_NOT_FOUND || h->o->template) return err;
    h->fallback = true;
    cli_warn(h->c, "'%s' has no chat template: ChatML is used, which it may not know", h->c->args[0]);
    return rdg_template_compile(chatml, sizeof chatml - 1, NULL, &h->template, e);
}

static rdg_err prepare(chat *h, rdg_type kv, rdg_error *e)
{
    rdg_session_params sp = cli_session_params(h->c, kv);
    sp.n_ctx = h->o->n_ctx;
    sp.n_batch = h->o->n_batch;
    if (!h->messages) return rdg_fail(e, RDG_E_NOMEM, "no memory for a conversation");
    rdg_err err = chat_set_system(h, h->o->system, e);
    if (!err) err = rdg_model_load(h->c->args[0], &h->c->log, &h->model, e);
    if (!err) err = load_template(h, e);
    if (!err) err = rdg_session_create(h->model, &sp, &h->session, e);
    return err;
}

static int run(cli *c, void *opts)
{
    const chat_options *o = opts;
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
    .uses = CLI_MODEL | CLI_SEED | CLI_TALKS,
    .run = run,
};
