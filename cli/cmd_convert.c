#include "commands.h"

#include <string.h>

typedef struct options {
    const char *output, *type, *imatrix, *name;
} options;

static const options defaults = {.type = "auto"};

static const cli_option table[] = {
    {"--output", "-o", "OUT", CLI_STRING, offsetof(options, output), 0, 0,
     "the GGUF file to write (required)"},
    {"--type", NULL, "T", CLI_STRING, offsetof(options, type), 0, 0,
     "f16, q8_0, Q4_K_M, … as in `ridge quantize` (default: auto = as stored)"},
    {"--imatrix", NULL, "F", CLI_STRING, offsetof(options, imatrix), 0, 0,
     "importance matrix for quantised types"},
    {"--name", NULL, "S", CLI_STRING, offsetof(options, name), 0, 0,
     "general.name (default: the folder's name)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

static int report(cli *c, const options *o, const rdg_convert_result *r)
{
    char size[32];
    if (!c->common.json) {
        printf("%s: %s, %lld tensors, %.4g M parameters, %s, %.1f s\n", o->output, r->architecture,
               (long long)r->n_tensors, (double)r->n_params / 1e6,
               cli_bytes((double)r->bytes, size, sizeof size), r->seconds);
        return cli_finish_stdout(c);
    }
    return cli_print_json(c, json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "output", o->output, "architecture",
                                       r->architecture, "n_tensors", (json_int_t)r->n_tensors, "n_params",
                                       (json_int_t)r->n_params, "bytes", (json_int_t)r->bytes, "seconds",
                                       cli_real(r->seconds)));
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_imatrix *imatrix = NULL;
    rdg_convert_result r = {0};
    rdg_recipe recipe;
    rdg_convert_params p = {
        .type = -1, .imatrix_path = o->imatrix, .name = o->name, .n_threads = cli_threads(c), .log = &c->log};
    if (!o->output) return cli_usage(c, "-o OUT is missing");
    if (strcmp(o->type, "auto")) {
        if (!rdg_recipe_from_name(o->type, &recipe))
            return cli_usage(c, "unknown type '%s': auto %s are possible", o->type, rdg_recipe_list());
        p.type = (int)recipe;
    }
    if (o->imatrix && rdg_imatrix_read(o->imatrix, &imatrix, &e)) return cli_error(c, &e);
    p.imatrix = imatrix;
    rdg_err err = rdg_convert(c->args[0], o->output, &p, &r, &e);
    int rc = err ? cli_error(c, &e) : report(c, o, &r);
    rdg_convert_result_finish(&r);
    rdg_imatrix_destroy(imatrix);
    return rc;
}

const cli_command cmd_convert = {
    .name = "convert",
    .group = "pipeline",
    .summary = "Hugging Face folder → GGUF, in one streaming pass",
    .usage = "SRC -o OUT",
    .description =
        "Reads config.json, the safetensors files and the tokenizer of the folder SRC and writes one GGUF "
        "file.\n"
        "Memory stays below the largest tensor plus a constant. A quantised type is reached directly.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_THREADS | CLI_WRITES,
    .run = run,
};
