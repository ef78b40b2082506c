/* template: renders a chat template, of a model or of a file, and prints exactly what came out. */
#include "commands.h"
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/names.h"
#include "template.h"

#include <string.h>
#include <time.h>

enum { TEMPLATE_LIMIT_BYTES = 1 << 20, MESSAGES_LIMIT_BYTES = 1 << 28 };

typedef struct options {
    const char *messages, *bos, *eos, *now, *template;
} options;

static const options defaults = {0};

static const cli_option table[] = {
    {"--messages", NULL, "FILE", CLI_STRING, offsetof(options, messages), 0, 0,
     "JSON: {\"messages\": […], \"tools\": […], \"add_generation_prompt\": true} (- = standard input)"},
    {"--template", NULL, "NAME", CLI_STRING, offsetof(options, template), 0, 0,
     "one of the model's named templates (default: its template without a name)"},
    {"--bos", NULL, "S", CLI_STRING, offsetof(options, bos), 0, 0,
     "text of bos_token (default: the model's, or nothing)"},
    {"--eos", NULL, "S", CLI_STRING, offsetof(options, eos), 0, 0,
     "text of eos_token (default: the model's, or nothing)"},
    {"--now", NULL, "TIME", CLI_STRING, offsetof(options, now), 0, 0,
     "the time for strftime_now, 'YYYY-MM-DD hh:mm:ss' (default: now)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

#define TEMPLATE_KEY "tokenizer.chat_template"

/* "; it has the templates a, b" */
static void list_names(const rdg_gguf *g, rdg_buf *out)
{
    static const char prefix[] = TEMPLATE_KEY ".";
    size_t n = sizeof prefix - 1;
    const char *before = "; its templates are ";
    if (rdg_gguf_find(g, TEMPLATE_KEY)) {
        rdg_buf_printf(out, "%s'default'", before);
        before = ", ";
    }
    for (int64_t i = 0; i < rdg_gguf_n_kv(g); i++) {
        rdg_str key = rdg_gguf_kv_at(g, i)->key;
        if (key.n <= n || memcmp(key.p, prefix, n) != 0) continue;
        rdg_buf_printf(out, "%s%s", before, rdg_quote(key.p + n, key.n - n).text);
        before = ", ";
    }
}

rdg_err cli_template_of_model(const rdg_gguf *g, const char *name, rdg_template **out, rdg_error *e)
{
    rdg_str text;
    rdg_buf names;
    char key[256];
    *out = NULL;
    if (name && strlen(name) > sizeof key - sizeof TEMPLATE_KEY - 1)
        return rdg_fail(e, RDG_E_ARGUMENT, "--template: %zu characters are no template's name", strlen(name));
    snprintf(key, sizeof key, "%s%s%s", TEMPLATE_KEY, name ? "." : "", name ? name : "");
    rdg_err err = rdg_gguf_get_str(g, key, &text, e);
    /* In a list of templates, "default" is the one that GGUF stores without a name. */
    if (err == RDG_E_NOT_FOUND && name && !strcmp(name, "default"))
        err = rdg_gguf_get_str(g, TEMPLATE_KEY, &text, e);
    if (err != RDG_E_NOT_FOUND) return err ? err : rdg_template_compile(text.p, text.n, NULL, out, e);
    rdg_buf_init(&names);
    list_names(g, &names);
    err = rdg_fail(e, err, "'%s' has no %s%s%s", rdg_gguf_path(g), key, names.data ? names.data : "",
                   names.data ? " (--template)"
                   : name     ? ""
                              : "; give a template as a file");
    rdg_buf_finish(&names);
    return err;
}

char *cli_token_text(const rdg_tokenizer *t, int32_t id)
{
    rdg_str s = {"", 0};
    if (t && id >= 0) s = rdg_token_bytes(t, id, true);
    return rdg_strndup(s.p, s.n);
}

rdg_template_time cli_template_now(void)
{
    time_t seconds = time(NULL);
    struct tm t = {.tm_mon = 0, .tm_mday = 1, .tm_year = 70};
    localtime_r(&seconds, &t);
    return (rdg_template_time){t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec};
}

static bool parse_now(const char *s, rdg_template_time *t)
{
    int end = -1;
    if (strlen(s) != strlen("YYYY-MM-DD hh:mm:ss") ||
        sscanf(s, "%4d-%2d-%2d %2d:%2d:%2d%n", &t->year, &t->month, &t->day, &t->hour, &t->minute, &t->second,
               &end) != 6 ||
        s[end])
        return false;
    /* timegm moves a day that does not exist into the next month. */
    struct tm tm = {.tm_year = t->year - 1900, .tm_mon = t->month - 1, .tm_mday = t->day};
    return t->year >= 1 && t->month >= 1 && t->month <= 12 && timegm(&tm) != (time_t)-1 &&
           tm.tm_mday == t->day && t->day >= 1 && t->hour >= 0 && t->hour < 24 && t->minute >= 0 &&
           t->minute < 60 && t->second >= 0 && t->second < 60;
}

/* The compiled template, and bos and eos as the model has them. */
static rdg_err load(cli *c, const char *path, const char *name, rdg_template **t, char **bos, char **eos,
                    rdg_error *e)
{
    rdg_gguf *g = NULL;
    rdg_tokenizer *tokenizer = NULL;
    char *text = NULL;
    size_t n;
    rdg_err err;
    if (cli_begins_with(path, "GGUF")) {
        err = rdg_gguf_open(path, &c->log, &g, e);
        if (!err) err = cli_template_of_model(g, name, t, e);
        if (!err) err = rdg_tokenizer_create(g, &c->log, &tokenizer, e);
        if (err == RDG_E_NOT_FOUND && *t) err = RDG_OK; /* no tokenizer: no texts */
    } else if (name) {
        err = rdg_fail(e, RDG_E_ARGUMENT,
                       "--template chooses among a model's templates, '%s' is no GGUF file", path);
    } else {
        err = rdg_file_read(path, TEMPLATE_LIMIT_BYTES, true, &text, &n, e);
        if (!err) err = rdg_template_compile(text, n, NULL, t, e);
    }
    if (!err) {
        *bos = cli_token_text(tokenizer, tokenizer ? rdg_tokenizer_bos(tokenizer) : -1);
        *eos = cli_token_text(tokenizer, tokenizer ? rdg_tokenizer_eos(tokenizer) : -1);
        if (!*bos || !*eos) err = rdg_fail(e, RDG_E_NOMEM, "no memory for the template");
    }
    rdg_free(text);
    rdg_tokenizer_destroy(tokenizer);
    rdg_gguf_close(g);
    return err;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_template *t = NULL;
    rdg_template_result r = {0};
    rdg_template_time now = cli_template_now();
    char *bos = NULL, *eos = NULL, *json = NULL;
    size_t n_json = 0;
    int rc;
    if (!o->messages) return cli_usage(c, "give the conversation with --messages FILE.json");
    if (o->now && !parse_now(o->now, &now))
        return cli_usage(c, "--now '%s' is not a time 'YYYY-MM-DD hh:mm:ss'", o->now);
    rdg_err err = load(c, c->args[0], o->template, &t, &bos, &eos, &e);
    if (!err) err = rdg_file_read(o->messages, MESSAGES_LIMIT_BYTES, true, &json, &n_json, &e);
    if (!err) {
        rdg_template_input in = {.json = json,
                                 .json_bytes = n_json,
                                 .bos_token = o->bos ? o->bos : bos,
                                 .eos_token = o->eos ? o->eos : eos,
                                 .now = now};
        err = rdg_template_render(t, &in, &r, &e);
    }
    if (err) {
        rc = cli_error(c, &e);
    } else if (c->common.json) {
        rc = cli_print_json(c, json_pack("{s:o}", "text", cli_str(r.text, r.n)));
    } else {
        fwrite(r.text, 1, r.n, stdout);
        rc = cli_finish_stdout(c);
    }
    rdg_template_result_free(&r);
    rdg_free(json);
    rdg_free(eos);
    rdg_free(bos);
    rdg_template_destroy(t);
    return rc;
}

const cli_command cmd_template = {
    .name = "template",
    .group = "pipeline",
    .summary = "render a chat template",
    .usage = "MODEL|FILE.jinja --messages FILE.json",
    .description = "Prints a conversation as the chat template of a model, or of a file, writes it, and "
                   "nothing else: no line end is "
                   "added.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
