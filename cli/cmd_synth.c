#include "commands.h"

typedef struct options {
    const char *like, *type;
    int64_t layers;
} options;

static const options defaults = {.type = "Q4_K_M"};

static const cli_option table[] = {
    {"--like", NULL, "NAME", CLI_STRING, offsetof(options, like), 0, 0,
     "llama-1b, llama-3b, llama-8b, llama-70b, mistral-7b, mixtral-8x7b, qwen3-0.6b, qwen3-4b, qwen3-8b, "
     "qwen3-30b-a3b"},
    {"--type", NULL, "T", CLI_STRING, offsetof(options, type), 0, 0, "recipe (default: Q4_K_M)"},
    {"--layers", NULL, "N", CLI_INT, offsetof(options, layers), 1, 1024,
     "number of blocks (default: the model's)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_synth_params p = {
        .like = o->like, .n_layers = o->layers, .seed = (uint64_t)c->common.seed, .log = &c->log};
    uint64_t bytes;
    int64_t n_params;
    char size[32];
    if (!o->like) return cli_usage(c, "--like NAME is missing: %s are possible", rdg_synth_list());
    if (!rdg_recipe_from_name(o->type, &p.recipe))
        return cli_usage(c, "unknown type '%s': %s are possible", o->type, rdg_recipe_list());
    if (rdg_synth(c->args[0], &p, &bytes, &n_params, &e)) return cli_error(c, &e);
    cli_progress_done(c);
    if (c->common.json)
        return cli_print_json(c, json_pack("{s:s, s:I, s:I}", "output", c->args[0], "bytes",
                                           (json_int_t)bytes, "n_params", (json_int_t)n_params));
    printf("%s: random weights, %.4g M parameters, %s\n", c->args[0], (double)n_params / 1e6,
           cli_bytes((double)bytes, size, sizeof size));
    return cli_finish_stdout(c);
}

const cli_command cmd_synth = {
    .name = "synth",
    .group = "pipeline",
    .summary = "random-weight GGUF with real shapes, for benchmarks",
    .usage = "OUT --like NAME",
    .description = "Writes a GGUF with the shapes of a published model and random weights. It has no "
                   "tokenizer and says\n"
                   "nothing, but it takes the time that the real model takes.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_SEED | CLI_WRITES,
    .run = run,
};
