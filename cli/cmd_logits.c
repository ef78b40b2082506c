#include "commands.h"
#include "base/err.h"
#include "base/mem.h"
#include "format/npy.h"

#include <math.h>

typedef struct options {
    const char *tokens, *output, *kv_type, *variant;
    int64_t n_batch;
} options;

static const options defaults = {.kv_type = "f32", .n_batch = 512};

static const cli_option table[] = {
    {"--tokens", NULL, "1,2,3", CLI_STRING, offsetof(options, tokens), 0, 0,
     "token ids, as they are: no BOS is added (required)"},
    {"--output", "-o", "OUT.npy", CLI_STRING, offsetof(options, output), 0, 0,
     "float32 [n_tokens, n_vocab] (required)"},
    {"--kv-type", NULL, "T", CLI_STRING, offsetof(options, kv_type), 0, 0,
     "type of the KV cache (default: f32)"},
    {"--batch", "-b", "N", CLI_INT, offsetof(options, n_batch), 1, 1e6, "tokens a step (default: 512)"},
    {"--variant", NULL, "V", CLI_STRING, offsetof(options, variant), 0, 0,
     "kernel variant to prefer where it exists"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

static rdg_err write_rows(const char *path, const float *rows, int64_t n_rows, int64_t n_columns,
                          rdg_error *e)
{
    rdg_npy_writer w;
    rdg_err err = rdg_npy_writer_open(&w, path, n_columns, e);
    if (!err) err = rdg_npy_write_rows(&w, rows, n_rows, e);
    if (!err) err = rdg_npy_writer_commit(&w, e);
    rdg_npy_writer_close(&w);
    return err;
}

/* NaN and infinities are written as they are; who compares the file must know of them. */
static int64_t warn_not_finite(cli *c, const float *rows, int64_t n_rows, int64_t n_columns)
{
    int64_t n_nan = 0, n_infinite = 0, n_bad_rows = 0, first = -1;
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t before = n_nan + n_infinite;
        for (int64_t i = r * n_columns; i < (r + 1) * n_columns; i++) {
            n_nan += isnan(rows[i]) != 0;
            n_infinite += isinf(rows[i]) != 0;
            if (first < 0 && !isfinite(rows[i])) first = i;
        }
        n_bad_rows += n_nan + n_infinite > before;
    }
    if (first >= 0)
        cli_warn(
            c,
            "%lld logits are NaN and %lld infinite, in %lld of %lld positions, the first at position %lld "
            "for token %lld: the weights are damaged or overflow; `ridge inspect --verify` looks at them",
            (long long)n_nan, (long long)n_infinite, (long long)n_bad_rows, (long long)n_rows,
            (long long)(first / n_columns), (long long)(first % n_columns));
    return n_nan + n_infinite;
}

static rdg_err evaluate(cli *c, const options *o, const int32_t *ids, int64_t n, rdg_type kv,
                        int64_t *n_vocab, int64_t *n_not_finite, rdg_error *e)
{
    rdg_model *m = NULL;
    rdg_session *s = NULL;
    rdg_session_params p = cli_session_params(c, kv);
    p.n_ctx = n;
    p.n_batch = o->n_batch;
    p.variant = o->variant;
    rdg_err err = rdg_model_load(c->args[0], &c->log, &m, e);
    if (!err) err = rdg_session_create(m, &p, &s, e);
    if (!err) err = rdg_session_eval(s, ids, n, RDG_LOGITS_ALL, e);
    if (!err) {
        *n_vocab = rdg_model_get_info(m)->n_vocab;
        *n_not_finite = warn_not_finite(c, rdg_session_logits(s, 0), n, *n_vocab);
        err = write_rows(o->output, rdg_session_logits(s, 0), n, *n_vocab, e);
    }
    rdg_session_destroy(s);
    rdg_model_release(m);
    return err;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    int32_t *ids;
    size_t n;
    rdg_type kv;
    int64_t n_vocab = 0, n_not_finite = 0;
    if (!o->tokens || !o->output) return cli_usage(c, "--tokens and -o OUT.npy are needed");
    if (!rdg_type_from_name(o->kv_type, &kv)) return cli_usage(c, "unknown type '%s'", o->kv_type);
    if (cli_parse_ids(o->tokens, &ids, &n, &e)) return cli_error(c, &e);
    int rc;
    if (n == 0)
        rc = cli_usage(c, "--tokens is empty");
    else if (evaluate(c, o, ids, (int64_t)n, kv, &n_vocab, &n_not_finite, &e))
        rc = cli_error(c, &e);
    else if (c->common.json)
        rc = cli_print_json(c, json_pack("{s:[I, I], s:s, s:I}", "shape", (json_int_t)n, (json_int_t)n_vocab,
                                         "output", o->output, "n_not_finite", (json_int_t)n_not_finite));
    else {
        printf("%s: float32 [%zu, %lld]\n", o->output, n, (long long)n_vocab);
        rc = cli_finish_stdout(c);
    }
    rdg_free(ids);
    return rc;
}

const cli_command cmd_logits = {
    .name = "logits",
    .group = "pipeline",
    .summary = "logits of every position as a .npy file",
    .usage = "MODEL --tokens 1,2,3 -o OUT.npy",
    .description = "Evaluates the given token ids and writes one row of logits per position.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_MODEL,
    .run = run,
};
