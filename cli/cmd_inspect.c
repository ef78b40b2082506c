#include "commands.h"
#include "base/file.h"
#include "format/safetensors.h"
#include "format/verify.h"

#include <math.h>
#include <string.h>

typedef struct options {
    bool tensors, verify;
} options;

static const options defaults = {0};

static const cli_option table[] = {
    {"--tensors", NULL, NULL, CLI_FLAG, offsetof(options, tensors), 0, 0, "list the tensors"},
    {"--verify", NULL, NULL, CLI_FLAG, offsetof(options, verify), 0, 0,
     "prove structure, shapes against hyper-parameters, finite values, checksums; exit code 4 if a proof "
     "fails"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

/* Long arrays are cut in what people read (and say so), never in JSON. */
enum { SHOWN_ELEMENTS = 8, SHOWN_STRING = 120 };

static json_t *element_json(const rdg_gguf_kv *kv, uint64_t i)
{
    switch (kv->type == RDG_GGUF_ARRAY ? kv->element_type : kv->type) {
    case RDG_GGUF_STRING: return cli_str(kv->strings[i].p, kv->strings[i].n);
    case RDG_GGUF_FLOAT32:
    case RDG_GGUF_FLOAT64: return cli_real(rdg_gguf_kv_float(kv, i));
    case RDG_GGUF_BOOL: return json_boolean(rdg_gguf_kv_int(kv, i));
    default: return json_integer((json_int_t)rdg_gguf_kv_int(kv, i));
    }
}

static json_t *metadata_json(const rdg_gguf *g)
{
    json_t *o = json_object();
    for (int64_t i = 0; i < rdg_gguf_n_kv(g); i++) {
        const rdg_gguf_kv *kv = rdg_gguf_kv_at(g, i);
        json_t *value;
        if (kv->type == RDG_GGUF_ARRAY) {
            value = json_array();
            for (uint64_t k = 0; k < kv->count; k++) json_array_append_new(value, element_json(kv, k));
        } else {
            value = element_json(kv, 0);
        }
        json_t *key = cli_str(kv->key.p, kv->key.n);
        json_object_set_new(o, json_string_value(key) ? json_string_value(key) : "?", value);
        json_decref(key);
    }
    return o;
}

static json_t *gguf_tensors_json(const rdg_gguf *g)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < rdg_gguf_n_tensors(g); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        json_t *dims = json_array();
        for (int d = 0; d < t->n_dims; d++) json_array_append_new(dims, json_integer(t->dim[d]));
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:o, s:I, s:I, s:i}", "name", cli_str(t->name, strlen(t->name)),
                            "type", rdg_type_name(t->type), "dims", dims, "bytes", (json_int_t)t->bytes,
                            "offset", (json_int_t)t->offset, "part", t->part));
    }
    return list;
}

/* A value on one line; control characters and quotes as \xNN so that a hostile file cannot drive the
 * terminal. */
static void print_text(const char *s, size_t n)
{
    putchar('\'');
    for (size_t i = 0; i < n && i < SHOWN_STRING; i++) {
        unsigned char ch = (unsigned char)s[i];
        if (ch == '\n')
            fputs("\\n", stdout);
        else if (ch < 0x20 || ch == 0x7f)
            printf("\\x%02x", ch);
        else
            putchar(ch);
    }
    printf(n > SHOWN_STRING ? "' … (%zu bytes)" : "'", n);
}

static void print_element(const rdg_gguf_kv *kv, uint64_t i)
{
    switch (kv->type == RDG_GGUF_ARRAY ? kv->element_type : kv->type) {
    case RDG_GGUF_STRING: print_text(kv->strings[i].p, kv->strings[i].n); break;
    case RDG_GGUF_FLOAT32:
    case RDG_GGUF_FLOAT64: printf("%g", rdg_gguf_kv_float(kv, i)); break;
    case RDG_GGUF_BOOL: fputs(rdg_gguf_kv_int(kv, i) ? "true" : "false", stdout); break;
    default: printf("%lld", (long long)rdg_gguf_kv_int(kv, i)); break;
    }
}

static void print_gguf(const rdg_gguf *g, bool tensors)
{
    char size[32];
    printf("GGUF version %u, %lld keys, %lld tensors, %s in %d file%s\n\n", rdg_gguf_version(g),
           (long long)rdg_gguf_n_kv(g), (long long)rdg_gguf_n_tensors(g),
           cli_bytes((double)rdg_gguf_file_bytes(g), size, sizeof size), rdg_gguf_n_parts(g),
           rdg_gguf_n_parts(g) == 1 ? "" : "s");
    for (int64_t i = 0; i < rdg_gguf_n_kv(g); i++) {
        const rdg_gguf_kv *kv = rdg_gguf_kv_at(g, i);
        printf("  %-44.*s ", (int)kv->key.n, kv->key.p);
        if (kv->type == RDG_GGUF_ARRAY) printf("[%llu] ", (unsigned long long)kv->count);
        for (uint64_t k = 0; k < kv->count && k < SHOWN_ELEMENTS; k++) {
            if (k) fputs(", ", stdout);
            print_element(kv, k);
        }
        if (kv->count > SHOWN_ELEMENTS) fputs(", …", stdout);
        putchar('\n');
    }
    if (!tensors) return;
    putchar('\n');
    for (int64_t i = 0; i < rdg_gguf_n_tensors(g); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        printf("  %-40s %-7s [", t->name, rdg_type_name(t->type));
        for (int d = 0; d < t->n_dims; d++) printf("%s%lld", d ? ", " : "", (long long)t->dim[d]);
        printf("]  %s at %llu\n", cli_bytes((double)t->bytes, size, sizeof size),
               (unsigned long long)t->offset);
    }
}

typedef struct findings {
    json_t *list;
    cli *c;
} findings;

static void on_problem(void *user, const char *text)
{
    findings *f = user;
    json_array_append_new(f->list, cli_str(text, strlen(text)));
    if (!f->c->common.json) printf("  problem: %s\n", text);
}

static int inspect_gguf(cli *c, const options *o, const char *path)
{
    rdg_error e = {0};
    rdg_gguf *g = NULL;
    if (rdg_gguf_open(path, &c->log, &g, &e)) return cli_error(c, &e);
    findings f = {json_array(), c};
    int rc = EXIT_DONE;
    if (!c->common.json) print_gguf(g, o->tensors);
    if (o->verify && rdg_model_verify(g, cli_threads(c), on_problem, &f, &c->log, &e)) rc = cli_error(c, &e);
    cli_progress_done(c);
    size_t n_problems = json_array_size(f.list);
    const char *verdict = !o->verify ? "not verified" : n_problems ? "bad" : "good";
    if (rc == EXIT_DONE && c->common.json) {
        json_t *doc =
            json_pack("{s:s, s:i, s:o, s:s, s:O}", "format", "gguf", "version", (int)rdg_gguf_version(g),
                      "metadata", metadata_json(g), "verdict", verdict, "problems", f.list);
        json_object_set_new(doc, "tensors", gguf_tensors_json(g));
        rc = cli_print_json(c, doc);
    } else if (rc == EXIT_DONE) {
        if (o->verify) printf("\nverdict: %s (%zu problems)\n", verdict, n_problems);
        rc = cli_finish_stdout(c);
    }
    json_decref(f.list);
    rdg_gguf_close(g);
    return rc == EXIT_DONE && n_problems ? EXIT_NEGATIVE : rc;
}

/* Values of a tensor that are not finite. Integers and 8-bit floats are not looked at. */
static int64_t count_not_finite(const rdg_safetensor *t, int64_t *first)
{
    int64_t n = (int64_t)t->n_elements, n_bad = 0;
    switch (t->dtype) {
    case RDG_DTYPE_F32: return rdg_blocks_not_finite(RDG_TYPE_F32, t->data, n, first);
    case RDG_DTYPE_F16: return rdg_blocks_not_finite(RDG_TYPE_F16, t->data, n, first);
    case RDG_DTYPE_BF16: return rdg_blocks_not_finite(RDG_TYPE_BF16, t->data, n, first);
    case RDG_DTYPE_F64:
        for (int64_t i = 0; i < n; i++) {
            double v;
            memcpy(&v, (const char *)t->data + i * 8, 8);
            if (!isfinite(v) && n_bad++ == 0) *first = i;
        }
        return n_bad;
    default: return 0;
    }
}

/* The structure was proved by opening it. */
static void verify_safetensors(const rdg_safetensors *s, findings *f)
{
    for (int64_t i = 0; i < rdg_safetensors_n(s); i++) {
        const rdg_safetensor *t = rdg_safetensors_at(s, i);
        int64_t first = 0, n_bad = count_not_finite(t, &first);
        char text[512];
        if (n_bad <= 0) continue;
        snprintf(text, sizeof text, "tensor '%.200s': %lld values are not finite, the first is element %lld",
                 t->name, (long long)n_bad, (long long)first);
        on_problem(f, text);
    }
}

static int inspect_safetensors(cli *c, const options *o, const char *path)
{
    rdg_error e = {0};
    rdg_safetensors *s = NULL;
    char size[32];
    if (rdg_safetensors_open(path, &c->log, &s, &e)) return cli_error(c, &e);
    json_t *list = json_array();
    int64_t n = rdg_safetensors_n(s);
    uint64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        const rdg_safetensor *t = rdg_safetensors_at(s, i);
        json_t *shape = json_array();
        for (int d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer(t->shape[d]));
        total += t->bytes;
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:o, s:I}", "name", cli_str(t->name, strlen(t->name)), "type",
                            rdg_dtype_name(t->dtype), "shape", shape, "bytes", (json_int_t)t->bytes));
    }
    int rc;
    findings f = {json_array(), c};
    if (o->verify) verify_safetensors(s, &f);
    size_t n_problems = json_array_size(f.list);
    const char *verdict = !o->verify ? "not verified" : n_problems ? "bad" : "good";
    if (c->common.json) {
        rc = cli_print_json(c, json_pack("{s:s, s:i, s:{}, s:o, s:s, s:O}", "format", "safetensors",
                                         "version", 1, "metadata", "tensors", list, "verdict", verdict,
                                         "problems", f.list));
    } else {
        printf("safetensors, %lld tensors, %s\n", (long long)n, cli_bytes((double)total, size, sizeof size));
        for (int64_t i = 0; i < n && o->tensors; i++) {
            const rdg_safetensor *t = rdg_safetensors_at(s, i);
            printf("  %-60s %-5s [", t->name, rdg_dtype_name(t->dtype));
            for (int d = 0; d < t->n_dims; d++) printf("%s%lld", d ? ", " : "", (long long)t->shape[d]);
            printf("]\n");
        }
        if (o->verify) printf("\nverdict: %s (%zu problems)\n", verdict, n_problems);
        json_decref(list);
        rc = cli_finish_stdout(c);
    }
    json_decref(f.list);
    rdg_safetensors_close(s);
    return rc == EXIT_DONE && n_problems ? EXIT_NEGATIVE : rc;
}

static bool is_gguf_name(const char *path)
{
    size_t n = strlen(path);
    return !(n > 12 && !strcmp(path + n - 12, ".safetensors")) && !rdg_is_directory(path);
}

static int run(cli *c, void *opts)
{
    const char *path = c->args[0];
    return is_gguf_name(path) ? inspect_gguf(c, opts, path) : inspect_safetensors(c, opts, path);
}

const cli_command cmd_inspect = {
    .name = "inspect",
    .group = "pipeline",
    .summary = "what a GGUF or safetensors file holds, and whether it is sound",
    .usage = "FILE",
    .description = "Prints metadata and, with --tensors, the tensors of a GGUF file, a safetensors file or a "
                   "folder of them.\n"
                   "--verify reads everything and lists each problem found.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_THREADS,
    .run = run,
};
