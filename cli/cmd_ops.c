/* ops: operation × backend, with the source of every variant */
#include "commands.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "device/device.h"
#include "ops/op.h"
#include "verified.h" /* generated from bench/results/verified.json */

#include <string.h>

typedef struct options {
    const char *verified;
} options;

static const options defaults = {0};

static const cli_option table[] = {
    {"--verified", NULL, "FILE", CLI_STRING, offsetof(options, verified), 0, 0,
     "what `ridge check --record FILE` noted (default: the record this program was built with)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

typedef struct feature {
    uint32_t bit;
    const char *name;
} feature;
static const feature cpu_features[] = {{RDG_CPU_AVX2, "avx2"},
                                       {RDG_CPU_AVX512, "avx512"},
                                       {RDG_CPU_NEON, "neon"},
                                       {RDG_CPU_AVX512_BF16, "avx512_bf16"},
                                       {0, NULL}};
static const feature gpu_features[] = {{RDG_GPU_FLOAT16, "float16"},
                                       {RDG_GPU_INT8_DOT, "int8_dot"},
                                       {RDG_GPU_MATRIX_F16, "matrix_f16"},
                                       {RDG_GPU_SUBGROUP_32, "subgroup_32"},
                                       {RDG_GPU_SHARED_48K, "shared_48k"},
                                       {RDG_GPU_INT8_DOT_ANY, "int8_dot_any"},
                                       {0, NULL}};

static json_t *requirements(const rdg_variant *v)
{
    json_t *list = json_array();
    for (const feature *f = v->backend == RDG_BACKEND_CPU ? cpu_features : gpu_features; f->name; f++)
        if (v->requires_mask & f->bit) json_array_append_new(list, json_string(f->name));
    return list;
}

static bool has_variant(const rdg_op *op, rdg_backend b)
{
    for (const rdg_variant *const *v = op->variants; *v; v++)
        if ((*v)->backend == b) return true;
    return false;
}

/* "cuda: reason; metal: reason" → the part of this backend, or why nothing is said. */
static void reason_of(const rdg_op *op, rdg_backend b, char *out, size_t n)
{
    const char *name = rdg_backend_name(b), *p = op->gaps ? strstr(op->gaps, name) : NULL;
    size_t length = p ? strcspn(p + strlen(name), ";") : 0;
    if (p && p[strlen(name)] == ':')
        snprintf(out, n, "%.*s", (int)length - 1 - (p[strlen(name) + 1] == ' '),
                 p + strlen(name) + 1 + (p[strlen(name) + 1] == ' '));
    else
        snprintf(out, n, "this build has no %s backend yet", name);
}

static json_t *describe(const rdg_op *op, json_t *verified)
{
    json_t *variants = json_array(), *gaps = json_array();
    for (const rdg_variant *const *v = op->variants; *v; v++) {
        char key[160];
        snprintf(key, sizeof key, "%s %s", op->name, (*v)->name);
        json_t *last = json_object_get(verified, key);
        json_array_append_new(variants,
                              json_pack("{s:s, s:s, s:s, s:o, s:O}", "name", (*v)->name, "backend",
                                        rdg_backend_name((*v)->backend), "source", (*v)->source, "requires",
                                        requirements(*v), "verified", last ? last : json_null()));
    }
    for (int b = 0; b < RDG_BACKEND_COUNT; b++) {
        char reason[256];
        if (has_variant(op, (rdg_backend)b)) continue;
        reason_of(op, (rdg_backend)b, reason, sizeof reason);
        json_array_append_new(
            gaps, json_pack("{s:s, s:s}", "backend", rdg_backend_name((rdg_backend)b), "reason", reason));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", op->name, "summary", op->summary, "variants", variants,
                     "gaps", gaps);
}

static void print_op(const json_t *op)
{
    size_t i, k;
    json_t *v, *r;
    printf("%s: %s\n", json_string_value(json_object_get(op, "name")),
           json_string_value(json_object_get(op, "summary")));
    json_array_foreach(json_object_get(op, "variants"), i, v)
    {
        json_t *last = json_object_get(v, "verified");
        printf("  %-7s %-26s %s", json_string_value(json_object_get(v, "backend")),
               json_string_value(json_object_get(v, "name")),
               json_string_value(json_object_get(v, "source")));
        json_array_foreach(json_object_get(v, "requires"), k, r)
            printf("%s%s", k ? ", " : "  needs ", json_string_value(r));
        if (json_is_object(last))
            printf("  verified %s on %s", json_string_value(json_object_get(last, "date")),
                   json_string_value(json_object_get(last, "device")));
        printf("\n");
    }
    json_array_foreach(json_object_get(op, "gaps"), i, v)
        printf("  %-7s none: %s\n", json_string_value(json_object_get(v, "backend")),
               json_string_value(json_object_get(v, "reason")));
}

static rdg_err load_verified(const char *path, json_t **out, rdg_error *e)
{
    char *text = NULL;
    size_t n = 0;
    rdg_err err = path ? rdg_file_read(path, 1 << 24, true, &text, &n, e) : RDG_OK;
    if (err) return err;
    *out = path ? json_loadb(text, n, 0, NULL) : json_loads(VERIFIED_JSON, 0, NULL);
    rdg_free(text);
    if (json_is_object(*out)) return RDG_OK;
    return rdg_fail(e, RDG_E_MALFORMED, "%s is not a record of checks", path ? path : "the built-in record");
}

static int run_ops(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    json_t *verified = NULL, *ops = json_array();
    int rc;
    if (c->n_args && !rdg_op_find(c->args[0])) {
        rc = cli_usage(c, "there is no operation '%s'; `ridge ops` lists them", c->args[0]);
    } else if (load_verified(o->verified, &verified, &e)) {
        rc = cli_error(c, &e);
    } else {
        for (int i = 0; i < rdg_op_count(); i++)
            if (!c->n_args || !strcmp(c->args[0], rdg_op_at(i)->name))
                json_array_append_new(ops, describe(rdg_op_at(i), verified));
        if (c->common.json) {
            rc = cli_print_json(c, json_pack("{s:O}", "ops", ops));
        } else {
            for (size_t i = 0; i < json_array_size(ops); i++) print_op(json_array_get(ops, i));
            rc = cli_finish_stdout(c);
        }
    }
    json_decref(ops);
    json_decref(verified);
    return rc;
}

const cli_command cmd_ops = {
    .name = "ops",
    .group = "bench",
    .summary = "operations and their kernels on every backend",
    .usage = "[NAME]",
    .description = "Lists every operation with its variants: backend, source file, what the device must "
                   "offer, and where it\n"
                   "was last verified by `ridge check`. A backend without a variant has its reason.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 0,
    .max_args = 1,
    .run = run_ops,
};
