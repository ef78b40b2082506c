#include "commands.h"
#include "base/err.h"
#include "base/mem.h"

#include <string.h>

typedef struct options {
    const char *pooling;
    bool no_normalise;
} options;

static const options defaults = {.pooling = "mean"};

static const cli_option table[] = {
    {"--pooling", NULL, "P", CLI_STRING, offsetof(options, pooling), 0, 0,
     "mean, cls or last (default: mean)"},
    {"--no-normalise", NULL, NULL, CLI_FLAG, offsetof(options, no_normalise), 0, 0,
     "leave the length of the vectors as it is"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

static rdg_err embed_text(rdg_session *s, const rdg_tokenizer *t, const options *o, rdg_pooling pooling,
                          const char *text, float *out, rdg_error *e)
{
    int32_t *ids;
    size_t n;
    rdg_err err =
        rdg_tokenize(t, text, strlen(text), (rdg_tokenize_params){.add_special = true}, &ids, &n, e);
    if (err) return err;
    if (n == 0) err = rdg_fail(e, RDG_E_ARGUMENT, "the text '%s' gives no token", text);
    if (!err) err = rdg_embed_tokens(s, ids, (int64_t)n, pooling, !o->no_normalise, out, e);
    rdg_tokens_free(ids);
    return err;
}

static rdg_err embed_all(cli *c, const options *o, rdg_pooling pooling, rdg_model *m, json_t *list,
                         rdg_error *e)
{
    rdg_session *s = NULL;
    int64_t n_embd = rdg_model_get_info(m)->n_embd;
    float *out = rdg_alloc_array((size_t)n_embd, sizeof *out);
    rdg_session_params p = cli_session_params(c, RDG_TYPE_F32);
    if (!out) return rdg_fail(e, RDG_E_NOMEM, "no memory for an embedding");
    rdg_err err = rdg_session_create_embedding(m, &p, &s, e);
    for (int i = 1; i < c->n_args && !err; i++) {
        if ((err = embed_text(s, rdg_model_tokenizer(m), o, pooling, c->args[i], out, e))) break;
        json_t *row = json_array();
        for (int64_t k = 0; k < n_embd; k++) json_array_append_new(row, cli_real(out[k]));
        json_array_append_new(list, row);
    }
    rdg_session_destroy(s);
    rdg_free(out);
    return err;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    static const char *const names[] = {"mean", "cls", "last"};
    rdg_error e = {0};
    rdg_model *m = NULL;
    int pooling = 0;
    while (pooling < 3 && strcmp(names[pooling], o->pooling)) pooling++;
    if (pooling == 3) return cli_usage(c, "--pooling %s: mean, cls and last are possible", o->pooling);
    rdg_err err = rdg_model_load(c->args[0], &c->log, &m, &e);
    json_t *list = json_array();
    if (!err && !rdg_model_tokenizer(m))
        err = rdg_fail(&e, RDG_E_UNSUPPORTED, "the model has no tokenizer, so text cannot be embedded");
    if (!err) err = embed_all(c, o, (rdg_pooling)pooling, m, list, &e);
    int rc;
    if (err) {
        rc = cli_error(c, &e);
    } else if (c->common.json) {
        rc = cli_print_json(c, json_pack("{s:O}", "embeddings", list));
    } else {
        for (size_t i = 0; i < json_array_size(list); i++) {
            json_t *row = json_array_get(list, i);
            for (size_t k = 0; k < json_array_size(row); k++)
                printf("%s%.7g", k ? " " : "", json_real_value(json_array_get(row, k)));
            putchar('\n');
        }
        rc = cli_finish_stdout(c);
    }
    json_decref(list);
    rdg_model_release(m);
    return rc;
}

const cli_command cmd_embed = {
    .name = "embed",
    .group = "pipeline",
    .summary = "embeddings of texts",
    .usage = "MODEL TEXT…",
    .description =
        "One vector per text, from embedding models (BERT style) and from any other model's hidden states.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 2,
    .max_args = -1,
    .uses = CLI_MODEL,
    .run = run,
};
