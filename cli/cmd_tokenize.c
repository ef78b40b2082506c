/* tokenize and detokenize */
#include "commands.h"
#include "base/err.h"
#include "base/mem.h"

typedef struct options {
    const char *file;
    bool no_special, no_bos;
} options;

static const options defaults = {0};

static const cli_option table[] = {
    {"--file", "-f", "FILE", CLI_STRING, offsetof(options, file), 0, 0,
     "read the text from FILE (- = standard input)"},
    {"--no-special", NULL, NULL, CLI_FLAG, offsetof(options, no_special), 0, 0,
     "control tokens written in the text are ordinary text"},
    {"--no-bos", NULL, NULL, CLI_FLAG, offsetof(options, no_bos), 0, 0,
     "no BOS or EOS, whatever the model asks for"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

/* A tokenizer needs no weights, no architecture and no hyper-parameters. */
static rdg_err open_tokenizer(cli *c, const char *path, rdg_tokenizer **t, rdg_error *e)
{
    rdg_gguf *g;
    rdg_err err = rdg_gguf_open(path, &c->log, &g, e);
    if (err) return err;
    err = rdg_tokenizer_create(g, &c->log, t, e);
    if (err == RDG_E_NOT_FOUND)
        err = rdg_fail(e, RDG_E_UNSUPPORTED, "'%s' has no tokenizer; it runs by token ids only", path);
    rdg_gguf_close(g);
    return err;
}

static int print_ids(cli *c, const rdg_tokenizer *t, const int32_t *ids, size_t n)
{
    if (!c->common.json) {
        for (size_t i = 0; i < n; i++) {
            rdg_str piece = rdg_token_piece(t, ids[i]);
            printf("%7d  '%.*s'\n", ids[i], (int)piece.n, piece.p);
        }
        return cli_finish_stdout(c);
    }
    json_t *list = json_array(), *pieces = json_array();
    for (size_t i = 0; i < n; i++) {
        rdg_str piece = rdg_token_piece(t, ids[i]);
        json_array_append_new(list, json_integer(ids[i]));
        json_array_append_new(pieces, cli_str(piece.p, piece.n));
    }
    return cli_print_json(c, json_pack("{s:o, s:o}", "ids", list, "pieces", pieces));
}

static int run_tokenize(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_tokenizer *t = NULL;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n_text, n;
    int rc;
    if ((c->n_args == 2) == (o->file != NULL)) return cli_usage(c, "give either TEXT or -f FILE");
    rdg_tokenize_params p = {.add_special = !o->no_bos, .parse_special = !o->no_special};
    if (cli_read_text(c->n_args == 2 ? c->args[1] : NULL, o->file, &text, &n_text, &e) ||
        open_tokenizer(c, c->args[0], &t, &e) || rdg_tokenize(t, text, n_text, p, &ids, &n, &e))
        rc = cli_error(c, &e);
    else
        rc = print_ids(c, t, ids, n);
    rdg_tokens_free(ids);
    rdg_tokenizer_destroy(t);
    rdg_free(text);
    return rc;
}

const cli_command cmd_tokenize = {
    .name = "tokenize",
    .group = "pipeline",
    .summary = "text → token ids",
    .usage = "MODEL [TEXT | -f FILE]",
    .description =
        "Prints the ids and pieces of a text as MODEL's tokenizer sees it, with BOS if the model wants it.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 2,
    .run = run_tokenize,
};

static int run_detokenize(cli *c, void *opts)
{
    (void)opts;
    rdg_error e = {0};
    rdg_tokenizer *t = NULL;
    char *text = NULL;
    size_t n_text = 0, n_ids = 0, cap = 0;
    int32_t *ids = NULL;
    rdg_err err = open_tokenizer(c, c->args[0], &t, &e);
    for (int i = 1; i < c->n_args && !err; i++) {
        int32_t *more;
        size_t n;
        err = cli_parse_ids(c->args[i], &more, &n, &e);
        for (size_t k = 0; k < n && !err; k++) {
            if (more[k] >= rdg_tokenizer_n_vocab(t))
                err = rdg_fail(&e, RDG_E_ARGUMENT, "token %d is outside the vocabulary of %lld", more[k],
                               (long long)rdg_tokenizer_n_vocab(t));
            else if (!rdg_grow(&ids, n_ids, &cap, sizeof *ids))
                err = rdg_fail(&e, RDG_E_NOMEM, "no memory");
            else
                ids[n_ids++] = more[k];
        }
        rdg_free(more);
    }
    if (!err) err = rdg_detokenize(t, ids, n_ids, true, &text, &n_text, &e);
    int rc;
    if (err) {
        rc = cli_error(c, &e);
    } else if (c->common.json) {
        rc = cli_print_json(c, json_pack("{s:o}", "text", cli_str(text, n_text)));
    } else {
        fwrite(text, 1, n_text, stdout);
        putchar('\n');
        rc = cli_finish_stdout(c);
    }
    rdg_free(ids);
    rdg_text_free(text);
    rdg_tokenizer_destroy(t);
    return rc;
}

const cli_command cmd_detokenize = {
    .name = "detokenize",
    .group = "pipeline",
    .summary = "token ids → text",
    .usage = "MODEL ID…",
    .description = "Prints the text of token ids, control tokens included.",
    .min_args = 2,
    .max_args = -1,
    .run = run_detokenize,
};
