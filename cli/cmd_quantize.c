#include "commands.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

typedef struct options {
    const char *imatrix, *output_type, *embedding_type;
    cli_list overrides;
    bool pure, dry_run, allow_requantise;
    int64_t split_bytes;
} options;

static const options defaults = {0};

static const cli_option table[] = {
    {"--imatrix", NULL, "F", CLI_STRING, offsetof(options, imatrix), 0, 0,
     "importance matrix (see `ridge imatrix`)"},
    {"--tensor-type", NULL, "REGEX=TYPE", CLI_LIST, offsetof(options, overrides), 0, 0,
     "type for tensors whose name matches; may be repeated, the first match counts"},
    {"--output-type", NULL, "T", CLI_STRING, offsetof(options, output_type), 0, 0,
     "type of output.weight (of token_embd.weight if the model has no output.weight)"},
    {"--token-embedding-type", NULL, "T", CLI_STRING, offsetof(options, embedding_type), 0, 0,
     "type of token_embd.weight, before --output-type where both concern it"},
    {"--pure", NULL, NULL, CLI_FLAG, offsetof(options, pure), 0, 0,
     "the recipe's base type for every tensor"},
    {"--dry-run", NULL, NULL, CLI_FLAG, offsetof(options, dry_run), 0, 0,
     "decide types and sizes, write nothing"},
    {"--allow-requantise", NULL, NULL, CLI_FLAG, offsetof(options, allow_requantise), 0, 0,
     "accept input that is quantised already (quality is lost twice)"},
    {"--split", NULL, "BYTES", CLI_INT, offsetof(options, split_bytes), 0, 9e15,
     "split the output into parts of this size"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

static json_t *tensor_json(const rdg_quantize_tensor *t)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "name", t->name, "type_in",
                          rdg_type_name(t->type_in), "type_out", rdg_type_name(t->type_out), "n_rows",
                          (json_int_t)t->n_rows, "n_columns", (json_int_t)t->n_columns, "bytes",
                          (json_int_t)t->bytes_out, "rmse", cli_real(t->rmse), "weighted_rmse",
                          cli_real(t->weighted_rmse));
    json_object_set_new(j, "warning", t->warning ? json_string(t->warning) : json_null());
    return j;
}

static int report(cli *c, const char *out, const rdg_quantize_result *r, bool dry_run)
{
    double bits = (double)r->bytes_out * 8 / (double)r->n_elements;
    char in_size[32], out_size[32];
    if (c->common.json) {
        json_t *list = json_array();
        for (int64_t i = 0; i < r->n_tensors; i++) json_array_append_new(list, tensor_json(&r->tensors[i]));
        return cli_print_json(c, json_pack("{s:s, s:I, s:I, s:o, s:o, s:o}", "output", out, "bytes_in",
                                           (json_int_t)r->bytes_in, "bytes_out", (json_int_t)r->bytes_out,
                                           "bits_per_weight", cli_real(bits), "seconds", cli_real(r->seconds),
                                           "tensors", list));
    }
    for (int64_t i = 0; i < r->n_tensors; i++) {
        const rdg_quantize_tensor *t = &r->tensors[i];
        printf("%-36s %6lld x %-6lld %-5s -> %-6s", t->name, (long long)t->n_rows, (long long)t->n_columns,
               rdg_type_name(t->type_in), rdg_type_name(t->type_out));
        if (t->type_in != t->type_out && !dry_run) printf("  rmse %.3e", t->rmse);
        if (t->type_in != t->type_out && !dry_run && !isnan(t->weighted_rmse))
            printf("  weighted %.3e", t->weighted_rmse);
        if (t->warning) printf("  (%s)", t->warning);
        putchar('\n');
    }
    printf("%s: %s -> %s, %.2f bits a weight, %.1f s%s\n", out,
           cli_bytes((double)r->bytes_in, in_size, sizeof in_size),
           cli_bytes((double)r->bytes_out, out_size, sizeof out_size), bits, r->seconds,
           dry_run ? " (dry run)" : "");
    return cli_finish_stdout(c);
}

/* "REGEX=TYPE", split at the last '='. The pattern strings are the caller's to free. */
static int parse_overrides(cli *c, const options *o, rdg_tensor_override *list)
{
    for (int i = 0; i < o->overrides.n; i++) {
        const char *item = o->overrides.items[i], *equals = strrchr(item, '=');
        if (!equals || equals == item || !rdg_type_from_name(equals + 1, &list[i].type))
            return cli_usage(c, "--tensor-type '%s' is not REGEX=TYPE with a known type", item);
        if (!(list[i].pattern = rdg_strndup(item, (size_t)(equals - item)))) return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int parse_type(cli *c, const char *option, const char *name, int *out)
{
    rdg_type t;
    if (!name) return EXIT_DONE;
    if (!rdg_type_from_name(name, &t)) return cli_usage(c, "%s: unknown type '%s'", option, name);
    *out = (int)t;
    return EXIT_DONE;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_imatrix *imatrix = NULL;
    rdg_quantize_result r = {0};
    rdg_quantize_params p = {.imatrix_path = o->imatrix,
                             .n_overrides = o->overrides.n,
                             .output_type = -1,
                             .token_embedding_type = -1,
                             .pure = o->pure,
                             .dry_run = o->dry_run,
                             .allow_requantise = o->allow_requantise,
                             .split_bytes = (uint64_t)o->split_bytes,
                             .n_threads = cli_threads(c),
                             .log = &c->log};
    rdg_tensor_override *overrides = rdg_alloc_array((size_t)o->overrides.n, sizeof *overrides);
    if (!overrides) return EXIT_FAILED;
    p.overrides = overrides;
    int rc = EXIT_DONE;
    if (!rdg_recipe_from_name(c->args[2], &p.recipe))
        rc = cli_usage(c, "unknown type '%s': %s are possible", c->args[2], rdg_recipe_list());
    if (!rc) rc = parse_type(c, "--output-type", o->output_type, &p.output_type);
    if (!rc) rc = parse_type(c, "--token-embedding-type", o->embedding_type, &p.token_embedding_type);
    if (!rc) rc = parse_overrides(c, o, overrides);
    if (!rc && o->imatrix && rdg_imatrix_read(o->imatrix, &imatrix, &e)) rc = cli_error(c, &e);
    p.imatrix = imatrix;
    if (!rc && rdg_quantize_file(c->args[0], c->args[1], &p, &r, &e))
        rc = cli_error(c, &e);
    else if (!rc) {
        cli_progress_done(c);
        rc = report(c, c->args[1], &r, o->dry_run);
    }
    rdg_quantize_result_finish(&r);
    rdg_imatrix_destroy(imatrix);
    for (int i = 0; i < o->overrides.n; i++) rdg_free((void *)overrides[i].pattern);
    rdg_free(overrides);
    return rc;
}

const cli_command cmd_quantize = {
    .name = "quantize",
    .group = "pipeline",
    .summary = "mixed quantisation by recipe",
    .usage = "IN OUT TYPE",
    .description =
        "Writes IN (GGUF, whole or split) to OUT with the mixed recipe TYPE (Q4_K_M, Q6_K, …). Prints each\n"
        "tensor's type and error. Rows that do not fit a block fall back to another type, which is "
        "reported.\n\n"
        "TYPE is one of F32 F16 Q4_0 Q4_1 Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S "
        "Q5_K_M "
        "Q6_K Q2_K_S IQ4_NL IQ4_XS BF16.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 3,
    .max_args = 3,
    .uses = CLI_THREADS | CLI_WRITES,
    .run = run,
};
