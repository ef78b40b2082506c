#include "commands.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "device/device.h"
#include "profile/roofs_cpu.h"
#include "profile/roofs_gpu.h"

#include <string.h>

typedef struct options {
    bool measure;
} options;

static const options defaults = {0};

static const cli_option table[] = {
    {"--measure", NULL, NULL, CLI_FLAG, offsetof(options, measure), 0, 0,
     "measure the roofs: bandwidth by kind of access, arithmetic rates by type (seconds per device)"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

enum { MAX_DEVICES = 32 };

static json_t *roof_json(const rdg_cpu_roof *r)
{
    return r->rate > 0 ? cli_real(r->rate) : json_null();
}

static json_t *cpu_roofs_json(const rdg_cpu_roofs *r)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:s, s:i, s:{s:o, s:n, s:n, s:o}}", "read_bytes_per_second",
                     roof_json(&r->read), "write_bytes_per_second", roof_json(&r->write),
                     "copy_bytes_per_second", roof_json(&r->copy), "triad_bytes_per_second",
                     roof_json(&r->triad), "read_kernel", r->read.kernel ? r->read.kernel : "", "n_threads",
                     r->n_threads, "flops", "fp32", roof_json(&r->fp32), "fp16", "matrix_fp16", "int8",
                     roof_json(&r->int8));
}

static void print_cpu_roofs(const rdg_cpu_roofs *r)
{
    printf("    measured with %d threads: read %.1f GB/s (%s), write %.1f, copy %.1f, triad %.1f GB/s\n",
           r->n_threads, r->read.rate / 1e9, r->read.kernel ? r->read.kernel : "?", r->write.rate / 1e9,
           r->copy.rate / 1e9, r->triad.rate / 1e9);
    printf("    fp32 %.1f GFLOP/s (%s), int8 %.1f GOP/s (%s)\n", r->fp32.rate / 1e9,
           r->fp32.kernel ? r->fp32.kernel : "?", r->int8.rate / 1e9, r->int8.kernel ? r->int8.kernel : "?");
}

static void cpu_levels(char *out, size_t n)
{
    uint32_t f = rdg_cpu_features();
    snprintf(out, n, "%s%s%s%s", f & RDG_CPU_AVX2 ? "avx2 " : "", f & RDG_CPU_AVX512 ? "avx512 " : "",
             f & RDG_CPU_AVX512_BF16 ? "avx512_bf16 " : "", f & RDG_CPU_NEON ? "neon " : "");
    size_t length = strlen(out);
    if (length)
        out[length - 1] = 0;
    else
        snprintf(out, n, "none");
}

static json_t *device_json(const rdg_device_facts *f)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:i, s:i, s:i, s:b, s:b}", "name", f->name,
                     "backend", f->backend, "kind", f->kind, "driver", f->driver, "index", f->index,
                     "memory_bytes", (json_int_t)f->memory_bytes, "free_bytes", (json_int_t)f->free_bytes,
                     "subgroup", (int)f->subgroup_width, "shared_bytes", (int)f->shared_bytes, "queues",
                     f->n_queues, "unified", f->unified, "imports_host_memory", f->imports_host_memory);
}

static void print_device(const rdg_device_facts *f)
{
    char size[32], left[32];
    printf("%s:%d  %s (%s)\n", f->backend, f->index, f->name, f->kind);
    printf("    driver %s, %s memory%s", f->driver[0] ? f->driver : "-",
           cli_bytes((double)f->memory_bytes, size, sizeof size), f->unified ? " shared with the host" : "");
    if (f->free_bytes < f->memory_bytes)
        printf(", %s free", cli_bytes((double)f->free_bytes, left, sizeof left));
    if (f->subgroup_width)
        printf(", subgroup %u, %u bytes of shared memory", f->subgroup_width, f->shared_bytes);
    for (int i = 0; i < f->n_matrix; i++)
        printf("%s%dx%dx%d %s", i ? ", " : "\n    matrix units: ", f->matrix[i].m, f->matrix[i].n,
               f->matrix[i].k, f->matrix[i].types);
    putchar('\n');
}

static json_t *rate_json(double rate)
{
    return rate > 0 ? cli_real(rate) : json_null();
}

/* Opens the device, measures it and adds what was found to its item. */
static rdg_err measure_gpu(const cli *c, const rdg_device_facts *f, json_t *item, rdg_error *e)
{
    char name[40];
    rdg_device *d;
    rdg_gpu_roofs r;
    snprintf(name, sizeof name, "%s:%d", f->backend, f->index);
    rdg_err err = rdg_device_open(name, NULL, &d, e);
    if (err) return err;
    err = rdg_gpu_measure_roofs(d, &r, e);
    rdg_device_close(d);
    if (err) return err;
    json_object_set_new(
        item, "roofs",
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o}}", "read_bytes_per_second",
                  rate_json(r.read), "copy_bytes_per_second", rate_json(r.copy), "triad_bytes_per_second",
                  rate_json(r.triad), "upload_bytes_per_second", rate_json(r.upload), "launch_seconds",
                  rate_json(r.launch_seconds), "flops", "fp32", rate_json(r.fp32), "fp16", rate_json(r.fp16),
                  "matrix_fp16", rate_json(r.matrix_fp16), "int8", rate_json(r.int8)));
    if (c->common.json) return RDG_OK;
    printf("    measured: read %.1f GB/s, copy %.1f, triad %.1f, upload %.1f GB/s; %.2f us from launch to "
           "launch\n",
           r.read / 1e9, r.copy / 1e9, r.triad / 1e9, r.upload / 1e9, r.launch_seconds * 1e6);
    printf("    fp32 %.2f TFLOP/s, fp16 %.2f, matrix f16 %.1f TFLOP/s, int8 dot %.2f TOP/s\n", r.fp32 / 1e12,
           r.fp16 / 1e12, r.matrix_fp16 / 1e12, r.int8 / 1e12);
    return RDG_OK;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_device_facts *facts = rdg_alloc_array(MAX_DEVICES, sizeof *facts);
    rdg_buf notes;
    rdg_cpu_roofs roofs = {0};
    int n = 0, rc = EXIT_DONE;
    char levels[64];
    rdg_buf_init(&notes);
    json_t *list = json_array();
    if (!facts || rdg_device_list(facts, MAX_DEVICES, &n, &notes, &e)) {
        rc = facts ? cli_error(c, &e) : EXIT_FAILED;
        goto done;
    }
    if (o->measure && rdg_cpu_measure_roofs(cli_threads(c), &roofs, &e)) {
        rc = cli_error(c, &e);
        goto done;
    }
    cpu_levels(levels, sizeof levels);
    for (int i = 0; i < n; i++) {
        bool is_cpu = !strcmp(facts[i].backend, "cpu");
        json_t *item = device_json(&facts[i]);
        if (!c->common.json) print_device(&facts[i]);
        if (is_cpu) {
            json_object_set_new(item, "instruction_sets", json_string(levels));
            json_object_set_new(item, "physical_cores", json_integer(rdg_cpu_physical_cores()));
            if (!c->common.json)
                printf("    %d physical cores, instruction sets: %s\n", rdg_cpu_physical_cores(), levels);
        }
        if (is_cpu && o->measure) {
            json_object_set_new(item, "roofs", cpu_roofs_json(&roofs));
            if (!c->common.json) print_cpu_roofs(&roofs);
        }
        json_array_append_new(list, item);
        if (!is_cpu && o->measure && measure_gpu(c, &facts[i], item, &e)) {
            rc = cli_error(c, &e);
            goto done;
        }
    }
    if (notes.len) cli_note(c, "%s", notes.data);
    rc = c->common.json ? cli_print_json(c, json_pack("{s:O}", "devices", list)) : cli_finish_stdout(c);
done:
    json_decref(list);
    rdg_buf_finish(&notes);
    rdg_free(facts);
    return rc;
}

const cli_command cmd_devices = {
    .name = "devices",
    .group = "bench",
    .summary = "every device with its facts and measured roofs",
    .usage = "",
    .description =
        "Lists what can compute on this machine. Roofs are measured, never taken from a data sheet.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 0,
    .max_args = 0,
    .uses = CLI_THREADS,
    .run = run,
};
