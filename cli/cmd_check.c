/* check: every variant against the reference */
#include "commands.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "ops/check.h"
#include "ops/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef RDG_VERSION
#define RDG_VERSION "unknown"
#endif

typedef struct options {
    const char *variant, *only, *record;
    int64_t repeat, stride;
} options;

static const options defaults = {.repeat = 1, .stride = 1};

static const cli_option table[] = {
    {"--variant", NULL, "V", CLI_STRING, offsetof(options, variant), 0, 0, "only this variant"},
    {"--case", NULL, "TEXT", CLI_STRING, offsetof(options, only), 0, 0, "only cases with TEXT in their name"},
    {"--repeat", NULL, "N", CLI_INT, offsetof(options, repeat), 1, 1000000,
     "runs of every case, each with other data (default: 1)"},
    {"--every", NULL, "N", CLI_INT, offsetof(options, stride), 1, 1000,
     "every Nth case only, for a quick look (default: 1)"},
    {"--record", NULL, "FILE", CLI_STRING, offsetof(options, record), 0, 0,
     "note in FILE (JSON) what passed on this device, for `ridge ops`"},
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

/* Results of one variant, in the order they come. */
typedef struct tally {
    const rdg_op *op;
    const rdg_variant *variant;
    int64_t n_passed, n_failed;
    double worst;
} tally;

typedef struct state {
    cli *c;
    json_t *results;
    tally *tallies;
    size_t n, cap;
    bool out_of_memory;
} state;

static tally *tally_of(state *s, const rdg_check_result *r)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->tallies[i].op == r->op && s->tallies[i].variant == r->variant) return &s->tallies[i];
    if (!rdg_grow(&s->tallies, s->n, &s->cap, sizeof *s->tallies)) {
        s->out_of_memory = true;
        return NULL;
    }
    s->tallies[s->n] = (tally){.op = r->op, .variant = r->variant};
    return &s->tallies[s->n++];
}

static void on_result(void *user, const rdg_check_result *r)
{
    static const char *const verdicts[] = {"passed", "failed", "skipped"};
    state *s = user;
    const char *variant = r->variant ? r->variant->name : "-";
    if (r->verdict != RDG_CHECK_SKIPPED) {
        tally *t = tally_of(s, r);
        if (t) {
            if (r->verdict == RDG_CHECK_PASSED)
                t->n_passed++;
            else
                t->n_failed++;
            t->worst = r->error > t->worst ? r->error : t->worst;
        }
    }
    if (s->c->common.json) {
        json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:I}", "op", r->op->name, "variant", variant,
                              "device", r->device, "case", r->case_name, "verdict", verdicts[r->verdict],
                              "error", cli_real(r->error), "seed", (json_int_t)r->seed);
        if (r->message[0]) json_object_set_new(j, "message", cli_str(r->message, strlen(r->message)));
        json_array_append_new(s->results, j);
    } else if (r->verdict == RDG_CHECK_FAILED) {
        printf("FAILED  %s %s, %s, seed %llu\n        %s\n", r->op->name, variant,
               r->case_name[0] ? r->case_name : "all cases", (unsigned long long)r->seed, r->message);
    } else if (r->verdict == RDG_CHECK_SKIPPED) {
        printf("skipped %s %s: %s\n", r->op->name, variant, r->message);
    } else if (s->c->common.verbose) {
        printf("passed  %s %s, %s, error %.3f of what is allowed\n", r->op->name, variant, r->case_name,
               r->error);
    }
}

static void print_tallies(const state *s)
{
    printf("%-10s %-28s %9s %9s  %s\n", "operation", "variant", "passed", "failed",
           "largest error / allowed");
    for (size_t i = 0; i < s->n; i++)
        printf("%-10s %-28s %9lld %9lld  %.3f\n", s->tallies[i].op->name, s->tallies[i].variant->name,
               (long long)s->tallies[i].n_passed, (long long)s->tallies[i].n_failed, s->tallies[i].worst);
}

/* {"OP VARIANT": {"device", "date", "version", "n_cases"}}; what is there and was not run now stays. */
static rdg_err record(const state *s, const char *path, const char *device, rdg_error *e)
{
    char *text = NULL, date[16] = "";
    size_t n;
    json_t *all = NULL;
    time_t now = time(NULL);
    struct tm tm;
    if (!rdg_file_read(path, 1 << 24, true, &text, &n, NULL)) {
        all = json_loadb(text, n, 0, NULL);
        rdg_free(text);
        if (!json_is_object(all)) {
            json_decref(all);
            return rdg_fail(e, RDG_E_MALFORMED,
                            "%s is not a record of checks; remove it or name another file", path);
        }
    }
    if (!all) all = json_object();
    if (gmtime_r(&now, &tm)) strftime(date, sizeof date, "%Y-%m-%d", &tm);
    for (size_t i = 0; i < s->n; i++) {
        const tally *t = &s->tallies[i];
        char key[160];
        snprintf(key, sizeof key, "%s %s", t->op->name, t->variant->name);
        if (t->n_failed)
            json_object_del(all, key);
        else
            json_object_set_new(all, key,
                                json_pack("{s:o, s:s, s:s, s:I}", "device", cli_str(device, strlen(device)),
                                          "date", date, "version", RDG_VERSION, "n_cases",
                                          (json_int_t)t->n_passed));
    }
    text = json_dumps(all, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(all);
    if (!text) return rdg_fail(e, RDG_E_NOMEM, "no memory for the record");
    rdg_out out;
    rdg_err err = rdg_out_open(&out, path, e);
    if (!err) err = rdg_out_write(&out, text, strlen(text), e);
    if (!err) err = rdg_out_write(&out, "\n", 1, e);
    if (!err) err = rdg_out_commit(&out, e);
    rdg_out_close(&out);
    free(text); /* jansson's own allocation */
    return err;
}

typedef struct gpu {
    rdg_device *device;
    rdg_gpu_cache *cache;
    char label[320];
} gpu;

static rdg_err run_on_gpu(void *user, const rdg_variant *v, rdg_op_call *call, int config, rdg_error *e)
{
    gpu *g = user;
    (void)config;
    return rdg_gpu_run_host(g->cache, v, call, e);
}

static rdg_err gpu_create(gpu *g, const char *name, rdg_check_runner *runner, rdg_error *e)
{
    rdg_err err = rdg_device_open(name, NULL, &g->device, e);
    if (err) return err;
    const rdg_device_facts *f = rdg_device_get_facts(g->device);
    err = rdg_gpu_cache_create(g->device, &g->cache, e);
    if (err) return err;
    snprintf(g->label, sizeof g->label, "%s:%d %s", f->backend, f->index, f->name);
    *runner = (rdg_check_runner){
        .device = g->label, .features = f->features, .n_configs = 1, .run = run_on_gpu, .user = g};
    for (runner->backend = 0; runner->backend < RDG_BACKEND_COUNT; runner->backend++)
        if (!strcmp(rdg_backend_name(runner->backend), f->backend)) return RDG_OK;
    return rdg_fail(e, RDG_E_UNSUPPORTED, "no operation has variants for '%s'", f->backend);
}

static int finish(cli *c, state *s, const rdg_check_totals *t, int64_t seed)
{
    int rc = t->n_failed ? EXIT_NEGATIVE : EXIT_DONE, written;
    if (c->common.json) {
        written =
            cli_print_json(c, json_pack("{s:O, s:I, s:I, s:I, s:I}", "results", s->results, "seed",
                                        (json_int_t)seed, "n_passed", (json_int_t)t->n_passed, "n_failed",
                                        (json_int_t)t->n_failed, "n_skipped", (json_int_t)t->n_skipped));
    } else {
        print_tallies(s);
        printf("seed %lld (--seed gives the same data again)\n%lld passed, %lld failed, %lld skipped\n",
               (long long)seed, (long long)t->n_passed, (long long)t->n_failed, (long long)t->n_skipped);
        written = cli_finish_stdout(c);
    }
    return written ? written : rc;
}

static int run_check(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_err err = RDG_OK;
    rdg_check_cpu cpu = {0};
    gpu g = {0};
    rdg_check_runner runner = {0};
    rdg_check_totals totals = {0};
    char cpu_name[256];
    const char *device = c->common.device ? c->common.device : "cpu";
    const bool on_cpu = !strcmp(device, "cpu") || !strcmp(device, "auto");
    const int64_t seed = c->seed_given ? c->common.seed : rdg_clock_ns() % INT64_C(9000000000000000);
    state s = {.c = c, .results = json_array()};
    rdg_check_options check = {.seed = (uint64_t)seed,
                               .repeat = (int)o->repeat,
                               .variant = o->variant,
                               .only = o->only,
                               .stride = (int)o->stride,
                               .report = on_result,
                               .user = &s};
    int rc;
    for (int i = 0; i < c->n_args; i++)
        if (!rdg_op_find(c->args[i])) {
            rc = cli_usage(c, "there is no operation '%s'; `ridge ops` lists them", c->args[i]);
            goto done;
        }
    err = on_cpu ? rdg_check_cpu_create(&cpu, cli_threads(c), rdg_cpu_features(), &runner, &e)
                 : gpu_create(&g, device, &runner, &e);
    for (int i = 0; !err && i < rdg_op_count(); i++) {
        bool asked = c->n_args == 0;
        for (int k = 0; k < c->n_args; k++) asked = asked || !strcmp(c->args[k], rdg_op_at(i)->name);
        if (asked) err = rdg_check_op(rdg_op_at(i), &runner, &check, &totals, &e);
    }
    if (!err && s.out_of_memory) err = rdg_fail(&e, RDG_E_NOMEM, "no memory for the results");
    if (!err && totals.n_passed + totals.n_failed + totals.n_skipped == 0)
        err = rdg_fail(&e, RDG_E_NOT_FOUND, "nothing was checked: no such variant or case%s%s",
                       o->variant ? ": " : "", o->variant ? o->variant : "");
    rdg_cpu_name(cpu_name, sizeof cpu_name);
    if (!err && o->record) err = record(&s, o->record, on_cpu ? cpu_name : g.label, &e);
    rc = err ? cli_error(c, &e) : finish(c, &s, &totals, seed);
done:
    json_decref(s.results);
    rdg_free(s.tallies);
    rdg_gpu_cache_destroy(g.cache);
    rdg_device_close(g.device);
    rdg_check_cpu_finish(&cpu);
    return rc;
}

const cli_command cmd_check = {
    .name = "check",
    .group = "bench",
    .summary = "every kernel against its reference",
    .usage = "[OP…]",
    .description = "Runs every variant of the operations (all, or those named) on the device with seeded "
                   "random data and compares\n"
                   "every output element with a reference in double precision. Memory around the operands is "
                   "guarded, inputs must\n"
                   "stay as they were, and on the CPU the bits must not depend on the number of threads. A "
                   "variant that no case\n"
                   "selects is a failure. Exit code 4 if anything failed.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 0,
    .max_args = -1,
    .uses = CLI_THREADS | CLI_DEVICE | CLI_SEED,
    .run = run_check,
};
