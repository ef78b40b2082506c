#include "commands.h"
#include "base/file.h"
#include "base/mem.h"

typedef struct options {
    const char *text, *output;
    int64_t n_ctx, chunks;
} options;

static const options defaults = {.n_ctx = 512};

static const cli_option table[] = {
    {"--file", "-f", "TEXT", CLI_STRING, offsetof(options, text), 0, 0,
     "calibration text, - = standard input (required)"},
    {"--output", "-o", "OUT", CLI_STRING, offsetof(options, output), 0, 0,
     "the imatrix file to write (required)"},
    {"--context", "-c", "N", CLI_INT, offsetof(options, n_ctx), 4, 1e6, "tokens a chunk (default: 512)"},
    {"--chunks", NULL, "N", CLI_INT, offsetof(options, chunks), 0, 1e9, "at most N chunks (default: all)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

/* Experts that calibration never reached are named: the quantiser will use a flat prior for them. */
static json_t *list_tensors(cli *c, const rdg_imatrix *m)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < rdg_imatrix_n(m); i++) {
        const rdg_imatrix_entry *entry = rdg_imatrix_at(m, i);
        double samples = 0;
        int64_t empty = 0;
        json_t *per_matrix = json_array();
        for (int64_t k = 0; k < entry->n_matrices; k++) {
            samples += entry->counts[k];
            empty += entry->counts[k] == 0;
            json_array_append_new(per_matrix, json_integer((json_int_t)entry->counts[k]));
        }
        if (empty)
            cli_warn(c, "%s: %lld of %lld experts saw no calibration token", entry->name, (long long)empty,
                     (long long)entry->n_matrices);
        json_t *item = json_pack("{s:s, s:I, s:I}", "name", entry->name, "n_columns",
                                 (json_int_t)entry->n_columns, "n_samples", (json_int_t)samples);
        if (entry->n_matrices > 1) json_object_set(item, "n_samples_per_expert", per_matrix);
        json_decref(per_matrix);
        json_array_append_new(list, item);
    }
    return list;
}

static int collect(cli *c, const options *o, rdg_model *m, const char *text, size_t n_text)
{
    rdg_error e = {0};
    rdg_imatrix *matrix = NULL;
    rdg_collect_result r = {0};
    int32_t *ids = NULL;
    size_t n;
    rdg_session_params sp = {0};
    cli_set_device(c, &sp);
    rdg_collect_params p = {.n_ctx = o->n_ctx,
                            .max_chunks = o->chunks,
                            .n_threads = (int)c->common.n_threads,
                            .device = sp.device,
                            .gpu_layers = sp.gpu_layers,
                            .device_memory_bytes = sp.device_memory_bytes,
                            .dataset = rdg_path_base(o->text),
                            .log = &c->log};
    int rc = EXIT_DONE;
    if (cli_tokenize(m, text, n_text, &ids, &n, &e) ||
        rdg_imatrix_collect(m, ids, (int64_t)n, &p, &matrix, &r, &e) ||
        rdg_imatrix_write(matrix, o->output, &e)) {
        rc = cli_error(c, &e);
        goto done;
    }
    cli_progress_done(c);
    json_t *tensors = list_tensors(c, matrix);
    if (c->common.json) {
        rc = cli_print_json(c, json_pack("{s:s, s:I, s:I, s:o, s:o, s:o}", "output", o->output, "n_chunks",
                                         (json_int_t)r.n_chunks, "n_tokens", (json_int_t)r.n_tokens,
                                         "seconds", cli_real(r.seconds), "perplexity", cli_real(r.perplexity),
                                         "tensors", tensors));
    } else {
        printf("%s: %lld tensors, %lld chunks of %lld tokens, perplexity of the text %.4f, %.1f s\n",
               o->output, (long long)rdg_imatrix_n(matrix), (long long)r.n_chunks, (long long)o->n_ctx,
               r.perplexity, r.seconds);
        json_decref(tensors);
        rc = cli_finish_stdout(c);
    }
done:
    rdg_imatrix_destroy(matrix);
    rdg_tokens_free(ids);
    return rc;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_model *m = NULL;
    char *text = NULL;
    size_t n;
    if (!o->text || !o->output) return cli_usage(c, "-f TEXT and -o OUT are needed");
    int rc;
    if (cli_read_text(NULL, o->text, &text, &n, &e) || rdg_model_load(c->args[0], &c->log, &m, &e))
        rc = cli_error(c, &e);
    else
        rc = collect(c, o, m, text, n);
    rdg_model_release(m);
    rdg_free(text);
    return rc;
}

const cli_command cmd_imatrix = {
    .name = "imatrix",
    .group = "pipeline",
    .summary = "importance matrix from calibration text",
    .usage = "MODEL -f TEXT -o OUT",
    .description =
        "Runs MODEL over TEXT in chunks and sums the squared input of every weight, channel by channel. The\n"
        "result tells `quantize` which channels matter. Experts that saw no token are listed.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_MODEL | CLI_WRITES,
    .run = run,
};
