#include "commands.h"
#include "base/err.h"
#include "base/mem.h"

#include <math.h>

typedef struct options {
    const char *text, *save_base, *base, *kv_type;
    int64_t n_ctx, chunks;
} options;

static const options defaults = {.n_ctx = 512, .kv_type = "f16"};

static const cli_option table[] = {
    {"--file", "-f", "TEXT", CLI_STRING, offsetof(options, text), 0, 0,
     "the text, - = standard input (required)"},
    {"--context", "-c", "N", CLI_INT, offsetof(options, n_ctx), 4, 1e6, "tokens a chunk (default: 512)"},
    {"--chunks", NULL, "N", CLI_INT, offsetof(options, chunks), 0, 1e9, "at most N chunks (default: all)"},
    {"--save-base", NULL, "F", CLI_STRING, offsetof(options, save_base), 0, 0,
     "write log-probabilities for later comparison"},
    {"--base", NULL, "F", CLI_STRING, offsetof(options, base), 0, 0,
     "compare with a saved base: KL divergence, agreement"},
    CLI_KV_TYPE_ROW(options),
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

static int report(cli *c, const rdg_perplexity_result *r)
{
    if (c->common.json) {
        return cli_print_json(
            c,
            json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "perplexity",
                      cli_real(r->perplexity), "perplexity_stderr", cli_real(r->perplexity_stderr),
                      "n_chunks", (json_int_t)r->n_chunks, "n_scored_tokens", (json_int_t)r->n_scored_tokens,
                      "n_not_finite", (json_int_t)r->n_not_finite, "seconds", cli_real(r->seconds), "kl_mean",
                      cli_real(r->kl_mean), "kl_stderr", cli_real(r->kl_stderr), "kl_median",
                      cli_real(r->kl_median), "kl_p90", cli_real(r->kl_p90), "kl_p99", cli_real(r->kl_p99),
                      "kl_max", cli_real(r->kl_max), "same_top", cli_real(r->same_top), "ln_ratio",
                      cli_real(r->ln_ratio)));
    }
    printf("perplexity %.4f ± %.4f (%lld chunks, %lld tokens scored, %.1f s)\n", r->perplexity,
           r->perplexity_stderr, (long long)r->n_chunks, (long long)r->n_scored_tokens, r->seconds);
    if (isfinite(r->kl_mean))
        printf("against the base: KL mean %.5f ± %.5f, median %.5f, 99 %% %.5f, max %.4f; same top token "
               "%.2f %%; "
               "ln(PPL/base) %.5f ± %.5f\n",
               r->kl_mean, r->kl_stderr, r->kl_median, r->kl_p99, r->kl_max, r->same_top * 100, r->ln_ratio,
               r->ln_ratio_stderr);
    return cli_finish_stdout(c);
}

static rdg_err evaluate(cli *c, const options *o, rdg_type kv, const char *text, size_t n_text,
                        rdg_perplexity_result *r, rdg_error *e)
{
    rdg_model *m = NULL;
    rdg_session *s = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    rdg_session_params sp = cli_session_params(c, kv);
    sp.n_ctx = o->n_ctx;
    rdg_perplexity_params p = {.n_ctx = o->n_ctx,
                               .max_chunks = o->chunks,
                               .save_base = o->save_base,
                               .base = o->base,
                               .log = &c->log};
    rdg_err err = rdg_model_load(c->args[0], &c->log, &m, e);
    if (!err) err = cli_tokenize(m, text, n_text, &ids, &n, e);
    if (!err) err = rdg_session_create(m, &sp, &s, e);
    if (!err) err = rdg_perplexity(s, ids, (int64_t)n, &p, r, e);
    rdg_session_destroy(s);
    rdg_tokens_free(ids);
    rdg_model_release(m);
    return err;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_perplexity_result r = {0};
    char *text;
    size_t n_text;
    rdg_type kv;
    if (!o->text) return cli_usage(c, "-f TEXT is missing");
    if (o->base && o->save_base) return cli_usage(c, "--base and --save-base exclude each other");
    if (!rdg_type_from_name(o->kv_type, &kv)) return cli_usage(c, "unknown type '%s'", o->kv_type);
    if (cli_read_text(NULL, o->text, &text, &n_text, &e)) return cli_error(c, &e);
    rdg_err err = evaluate(c, o, kv, text, n_text, &r, &e);
    rdg_free(text);
    cli_progress_done(c);
    return err ? cli_error(c, &e) : report(c, &r);
}

const cli_command cmd_perplexity = {
    .name = "perplexity",
    .group = "pipeline",
    .summary = "perplexity of a text; KL divergence against a base",
    .usage = "MODEL -f TEXT",
    .description = "The field's definition: non-overlapping chunks, the second half of each scored. Compare "
                   "only results of\n"
                   "the same text, tokenizer, chunk size and number of chunks.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_MODEL | CLI_WRITES,
    .run = run,
};
